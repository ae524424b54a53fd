"""`toolatlas doctor`: what is well, what is not, and the exit code."""

from __future__ import annotations

import asyncio
import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from proxy.cli import build
from proxy.commands import doctor
from proxy.router import launching
from proxy.store.database import Database
from proxy.store.migrating import migrate
from proxy.store.registry import State
from tests.fixtures import routed
from tests.fixtures.registered import at, named
from tests.fixtures.running import dead_port_entry, entry


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "mcp.json"
    monkeypatch.setenv("TOOLATLAS_CONFIG", str(file))
    monkeypatch.setenv("TOOLATLAS_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TOOLATLAS_CACHE_DIR", str(tmp_path / "cache"))
    return file


def configure(config: Path, **servers: Any) -> None:
    config.write_text(json.dumps({"mcpServers": servers}))


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(build(), ["doctor", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def findings(result: Result) -> dict[str, dict[str, Any]]:
    return {finding["what"]: finding for finding in json.loads(result.stdout)}


def test_all_is_well(config: Path) -> None:
    configure(config, tools=entry("echo"), off={"command": "/nonexistent", "enabled": False})
    result = run("--json")
    assert result.exit_code == 0, result.output
    found = findings(result)
    assert all(finding["ok"] and not finding["advice"] for finding in found.values())
    assert found["server tools"]["detail"].startswith("14 tools, protocol 20")
    assert "switched off" in found["server off"]["detail"]
    assert found["running gateway"]["detail"].startswith("none")
    shown = run()
    assert shown.exit_code == 0
    assert "server tools: 14 tools" in shown.stdout


def test_every_server_that_does_not_work_is_named_with_the_reason_and_the_others_are_still_tried(config: Path) -> None:
    configure(
        config,
        exits=entry("exits"),
        missing={"command": "/nonexistent/server"},
        remote=dead_port_entry(),
        variable={"command": "x", "args": ["${TOOLATLAS_TEST_NOT_SET}"]},
        tools=entry("echo"),
    )
    result = run("--json")
    assert result.exit_code == 1
    found = findings(result)
    assert {what for what, finding in found.items() if not finding["ok"]} == {
        "server exits",
        "server missing",
        "server remote",
        "server variable",
    }
    assert "exited with code 1" in found["server exits"]["detail"]
    assert "toolatlas servers test exits" in found["server exits"]["advice"]
    assert "/nonexistent/server" in found["server missing"]["detail"]
    assert "TOOLATLAS_TEST_NOT_SET" in found["server variable"]["detail"]
    shown = run()
    assert shown.exit_code == 1
    assert "server missing: no command" in shown.stdout


def test_a_missing_or_broken_configuration_is_a_finding_with_advice(config: Path) -> None:
    for content in (None, '{"mcpServers": {,}}'):
        if content is not None:
            config.write_text(content)
        result = run("--json")
        assert result.exit_code == 1
        finding = findings(result)["configuration"]
        assert not finding["ok"]
        assert str(config) in finding["detail"]
        assert "toolatlas import" in finding["advice"]


def test_a_warning_of_the_configuration_is_a_finding(config: Path) -> None:
    configure(config, tools={**entry("echo"), "timeuot_s": 3})
    result = run("--json")
    assert result.exit_code == 1
    assert any("timeuot_s" in finding["detail"] and not finding["ok"] for finding in json.loads(result.stdout))


def test_a_state_folder_that_cannot_be_made_is_a_finding(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(config)
    monkeypatch.setenv("TOOLATLAS_CACHE_DIR", str(config / "below-a-file"))
    result = run("--json")
    assert result.exit_code == 1
    finding = findings(result)["cache folder"]
    assert not finding["ok"]
    assert "TOOLATLAS_STATE_DIR" in finding["advice"]


def test_a_damaged_token_file_is_a_finding_and_the_servers_are_tried_all_the_same(config: Path, tmp_path: Path) -> None:
    configure(config, tools=entry("echo"))
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "tokens.json").write_text("{")
    result = run("--json")
    assert result.exit_code == 1
    found = findings(result)
    assert "tokens.json" in found["tokens"]["detail"]
    assert found["server tools"]["ok"]


def test_a_command_is_looked_for_where_its_process_will_look(config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    echo = entry("echo")
    (folder / "only-here").symlink_to(echo["command"])
    path = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    configure(
        config,
        path={**echo, "command": "only-here", "env": path},
        folder={**echo, "command": "./only-here", "cwd": str(folder)},
        nowhere={**echo, "command": "only-here"},
    )
    found = findings(run("--json"))
    assert [found[f"server {name}"]["ok"] for name in ("path", "folder", "nowhere")] == [True, True, False]


def test_the_log_is_looked_at(config: Path, tmp_path: Path) -> None:
    configure(config, tools=entry("echo"))
    assert findings(run("--json"))["log"]["detail"] == "nothing is logged yet"
    assert findings(run("--json", "--database", "none"))["log"]["detail"] == "none is kept"
    assert CliRunner().invoke(build(), ["migrate"]).exit_code == 0
    assert findings(run("--json"))["log"]["detail"].endswith("toolatlas.db, 0 episodes")
    assert CliRunner().invoke(build(), ["migrate", "--to", "base"]).exit_code == 0
    behind = run("--json")
    assert behind.exit_code == 1
    assert "run `toolatlas migrate`" in findings(behind)["log"]["detail"]
    away = findings(run("--json", "--database", "postgresql://nobody@127.0.0.1:1/nothing"))["log"]
    assert not away["ok"]
    assert "cannot be used" in away["detail"]


def test_a_second_stage_is_named_with_the_package_that_it_lacks(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(config)
    monkeypatch.setattr(doctor, "missing_package", lambda name: None)
    assert (
        "reordered by slm:/models/small" in findings(run("--json", "--router", "slm:/models/small"))["router"]["detail"]
    )
    found = findings(run("--json", "--router", "endpoint:http://127.0.0.1:1/v1#qwen"))["router"]
    monkeypatch.setattr(launching.importlib.util, "find_spec", lambda name: None)
    lacking = findings(run("--json", "--router", "endpoint:http://127.0.0.1:1/v1#qwen"))["router"]
    assert (found["ok"], lacking["ok"]) == (find_spec("openai") is not None, False)
    assert "openai is not installed" in lacking["detail"]


def test_adapters_that_gateways_look_for_are_looked_for(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(config)
    url = f"sqlite:///{tmp_path / 'log.db'}"
    monkeypatch.setenv("TOOLATLAS_DATABASE", url)
    monkeypatch.setattr(doctor, "missing_package", lambda name: None)
    saved = routed.head(tmp_path / "draft", 1)
    folder = tmp_path / "state" / "adapters"
    folder.mkdir(parents=True)
    saved.folder.rename(folder / saved.hash)

    async def register() -> None:
        await migrate(url)
        database = Database(url)
        await at(database, saved.hash, State.ACTIVE)
        await at(database, named("nowhere"), State.CANARY)
        await database.close()

    asyncio.run(register())
    found = findings(run("--json", "--router", "fused"))
    assert (found["active adapter"]["ok"], found["active adapter"]["detail"]) == (True, saved.hash[:12])
    assert not found["canary adapter"]["ok"]
    assert "there is no adapter in" in found["canary adapter"]["detail"]
    assert "--adapters" in found["canary adapter"]["advice"]
    elsewhere = findings(run("--json", "--router", "fused", "--adapters", str(tmp_path / "elsewhere")))
    assert not elsewhere["active adapter"]["ok"]
    # Where words alone rank, nobody looks for them.
    assert "canary adapter" not in findings(run("--json", "--router", "lexical"))
