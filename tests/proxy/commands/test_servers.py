"""`toolatlas servers` as its user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from proxy.cli import build
from proxy.errors import ConfigurationError, GatewayError, ServerDown
from tests.fixtures.running import dead_port_entry, entry

SECRET = "hunter2"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration file that the commands use, not written yet."""
    monkeypatch.setenv("TOOLATLAS_CONFIG", str(tmp_path / "mcp.json"))
    monkeypatch.setenv("TOOLATLAS_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TOOLATLAS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "mcp.json"


def configure(config: Path, **servers: Any) -> None:
    config.write_text(json.dumps({"mcpServers": servers}))


def configured(config: Path) -> dict[str, Any]:
    return json.loads(config.read_text())["mcpServers"]


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(build(), ["servers", *arguments])
    assert result.exception is None or isinstance(result.exception, GatewayError | SystemExit), result.exception
    return result


def test_list_as_json_says_what_is_configured_and_starts_nothing(config: Path) -> None:
    configure(
        config,
        tools={**entry("echo"), "description": "Small things."},
        docs={"url": f"https://user:{SECRET}@x.example/mcp?key={SECRET}", "headers": {"Authorization": SECRET}},
        off={**entry("exits", KEY=SECRET), "enabled": False},
        broken={"command": "x", "args": ["${TOOLATLAS_TEST_NOT_SET}"]},
    )
    result = run("list", "--json")
    assert result.exit_code == 0, result.output
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert list(rows) == ["tools", "docs", "off", "broken"]
    assert rows["tools"] == {
        "name": "tools",
        "transport": "stdio",
        "tools": None,
        "purpose": "Small things.",
        "disabled_reason": None,
    }
    assert rows["docs"]["transport"] == "http"
    assert "enabled" in rows["off"]["disabled_reason"]
    assert "TOOLATLAS_TEST_NOT_SET" in rows["broken"]["disabled_reason"]
    assert SECRET not in result.output
    assert SECRET not in run("list").output


def test_list_without_a_usable_file_fails_and_says_which(config: Path) -> None:
    missing = run("list")
    assert missing.exit_code == 1
    assert str(config) in str(missing.exception)
    config.write_text('{"mcpServers": {,}}')
    broken = run("list", "--json")
    assert (broken.exit_code, broken.stdout) == (1, "")
    assert "line 1" in str(broken.exception)


def test_what_was_listed_once_is_shown_from_then_on(config: Path) -> None:
    configure(config, tools=entry("echo"))
    assert run("test", "tools").exit_code == 0
    (row,) = json.loads(run("list", "--json").stdout)
    assert row["tools"] == 14


def test_warnings_go_to_standard_error(config: Path) -> None:
    configure(config, tools={**entry("echo"), "timeout": 3, "timeuot_s": 3})
    result = run("list", "--json")
    assert "warning: " in result.stderr
    assert json.loads(result.stdout)[0]["name"] == "tools"


def test_a_command_is_added_as_it_was_written_after_the_dashes(config: Path) -> None:
    result = run("add", "time", "--env", f"KEY={SECRET}=x", "--description", "Time.", "--json", "--", "uvx", "-q", "t")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"added": "time", "config": str(config)}
    assert configured(config) == {
        "time": {"command": "uvx", "args": ["-q", "t"], "env": {"KEY": f"{SECRET}=x"}, "description": "Time."}
    }
    assert SECRET not in result.output


def test_a_remote_server_is_added_with_its_headers(config: Path) -> None:
    result = run(
        "add", "docs", "--url", f"https://x.example/?k={SECRET}", "--header", f"Authorization: Bearer {SECRET}"
    )
    assert result.exit_code == 0, result.output
    assert configured(config)["docs"] == {
        "url": f"https://x.example/?k={SECRET}",
        "headers": {"Authorization": f"Bearer {SECRET}"},
    }
    assert SECRET not in result.output


def test_a_name_that_is_taken_is_replaced_only_when_wanted(config: Path) -> None:
    configure(config, time={"command": "old"}, other={"command": "o"})
    refused = run("add", "time", "--", "new")
    assert refused.exit_code == 1
    assert "already has a server 'time'" in str(refused.exception)
    assert configured(config)["time"] == {"command": "old"}
    assert run("add", "time", "--replace", "--", "new").exit_code == 0
    assert list(configured(config)) == ["time", "other"]
    assert configured(config)["time"]["command"] == "new"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x"], "either a command"),
        (["x", "--url", "https://x.example", "--", "uvx"], "either a command"),
        (["x", "--env", SECRET, "--", "uvx"], "--env NAME=VALUE"),
        (["x", "--url", "https://x.example", "--header", f"Bearer {SECRET}"], "--header 'Name: value'"),
        (["x", "--env", f"={SECRET}", "--", "uvx"], "--env NAME=VALUE"),
    ],
)
def test_what_cannot_be_added_is_refused_without_showing_a_secret(
    config: Path, arguments: list[str], said: str
) -> None:
    result = run("add", *arguments)
    assert result.exit_code == 1
    assert isinstance(result.exception, ConfigurationError)
    assert said in str(result.exception)
    assert SECRET not in str(result.exception)
    assert not config.exists()


def test_a_missing_variable_is_a_warning_since_it_may_be_set_later(config: Path) -> None:
    result = run("add", "x", "--env", "KEY=${TOOLATLAS_TEST_NOT_SET}", "--", "uvx")
    assert result.exit_code == 0
    assert "TOOLATLAS_TEST_NOT_SET" in result.stderr
    assert configured(config)["x"]["env"] == {"KEY": "${TOOLATLAS_TEST_NOT_SET}"}


def test_remove_takes_out_one_server_and_knows_the_nearest_name(config: Path) -> None:
    configure(config, time={"command": "a"}, weather={"command": "b"})
    unknown = run("remove", "wether")
    assert unknown.exit_code == 1
    assert "weather" in str(unknown.exception)
    result = run("remove", "weather", "--json")
    assert json.loads(result.stdout) == {"removed": "weather", "config": str(config)}
    assert list(configured(config)) == ["time"]


def test_another_file_is_used_when_it_is_named(config: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    assert run("add", "x", "--config", str(other), "--", "uvx").exit_code == 0
    assert [row["name"] for row in json.loads(run("list", "--json", "--config", str(other)).stdout)] == ["x"]
    assert not config.exists()


def test_test_lists_the_tools_and_problems_of_a_server_and_starts_no_other(config: Path, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    other = {"command": "sh", "args": ["-c", f"touch {mark}"]}
    configure(config, bad=entry("bad_schema"), other=other)
    answer = json.loads(run("test", "bad", "--json").stdout)
    assert answer["server"] == "bad"
    assert answer["protocol_version"].startswith("20")
    assert answer["tools"].count("fine") == 1
    assert any("listed twice" in problem for problem in answer["problems"])
    shown = run("test", "bad").stdout
    assert "bad works" in shown
    assert "problem: " in shown
    assert not mark.exists()


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (entry("exits"), "exited with code 1"),
        ({"command": "/nonexistent/server"}, "/nonexistent/server"),
        ({**dead_port_entry(), "headers": {"Authorization": SECRET}}, "nothing answers"),
        ({"url": f"http://127.0.0.1:1/mcp?key={SECRET}"}, "nothing answers"),
    ],
)
def test_a_server_that_does_not_work_fails_the_test_with_the_reason(
    config: Path, server: dict[str, Any], said: str
) -> None:
    configure(config, one=server)
    result = run("test", "one", "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert isinstance(result.exception, ServerDown)
    assert said in str(result.exception)
    assert SECRET not in str(result.exception)


def test_a_server_that_is_not_configured_or_switched_off_cannot_be_tested(config: Path) -> None:
    configure(config, off={**entry("echo"), "enabled": False})
    assert "there are off" in str(run("test", "on").exception)
    assert "switched off" in str(run("test", "off").exception)
    configure(config)
    assert "there are none" in str(run("test", "on").exception)


def test_wrong_usage_has_its_own_exit_code(config: Path) -> None:
    assert run("list", "--no-such-option").exit_code == 2
    assert run("add").exit_code == 2
    assert run("test").exit_code == 2
