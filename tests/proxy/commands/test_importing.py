from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from proxy.commands import connect, importing
from proxy.servers.configfile import load

SECRETS = ("s3cret-env", "s3cret-header", "s3cret-query")


class Machine:
    """A home folder with the commands over it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.config = folder / "our" / "mcp.json"
        self.state = folder / "state"
        self.app = typer.Typer()
        importing.register(self.app)
        connect.register(self.app)

    def write(self, name: str, content: str | dict[str, Any]) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def run(self, *args: str, answer: str | None = None) -> Result:
        environ = {
            "HOME": str(self.home),
            "TOOLATLAS_CONFIG": str(self.config),
            "TOOLATLAS_STATE_DIR": str(self.state),
            **dict.fromkeys(("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR")),
        }
        return CliRunner().invoke(self.app, ["import", *args], input=answer, env=environ)

    def servers(self) -> dict[str, Any]:
        return json.loads(self.config.read_text())["mcpServers"]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    (tmp_path / "project").mkdir()
    machine.config.parent.mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return machine


def cursor(machine: Machine) -> Path:
    servers = {
        "git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"TOKEN": SECRETS[0]}},
        "docs": {"url": f"https://x.example/mcp?k={SECRETS[2]}", "headers": {"Authorization": SECRETS[1]}},
        "toolatlas": {"command": "toolatlas", "args": ["stdio"]},
    }
    return machine.write(".cursor/mcp.json", {"mcpServers": servers})


def test_a_client_is_imported_into_a_configuration_that_the_gateway_understands(machine: Machine) -> None:
    theirs = cursor(machine)
    before = theirs.read_bytes()
    result = machine.run("cursor", "--yes")
    assert result.exit_code == 0, result.output
    configuration = load(machine.config, {})
    assert [(server.name, server.usable) for server in configuration.servers] == [("git", True), ("docs", True)]
    assert configuration.servers[0].env == {"TOKEN": SECRETS[0]}
    assert stat.S_IMODE(machine.config.stat().st_mode) == 0o600
    assert theirs.read_bytes() == before


def test_the_preview_says_what_is_added_renamed_and_skipped_and_shows_no_secret(machine: Machine) -> None:
    cursor(machine)
    machine.config.write_text('{"mcpServers": {"git": {"command": "other"}}}')
    result = machine.run("cursor", "--yes")
    assert "+ git-2 (called git there; that name is taken): uvx mcp-server-git (env: TOKEN)" in result.stderr
    assert "+ docs: https://x.example/mcp?k=*** (headers: Authorization)" in result.stderr
    assert "- toolatlas: it is this gateway" in result.stderr
    assert not any(secret in result.output for secret in SECRETS)
    assert list(machine.servers()) == ["git", "git-2", "docs"]


def test_json_is_the_only_thing_on_stdout(machine: Machine) -> None:
    path = cursor(machine)
    machine.config.write_text('{"mcpServers": {"git": {"command": "other"}}}')
    result = machine.run("cursor", "--json", answer="y\n")
    answer = json.loads(result.stdout)
    kept = Path(answer.pop("backup"))
    assert kept.read_text() == '{"mcpServers": {"git": {"command": "other"}}}'
    assert answer == {
        "config": str(machine.config),
        "added": [
            {"name": "git", "written": "git-2", "from": str(path)},
            {"name": "docs", "written": "docs", "from": str(path)},
        ],
        "skipped": [{"name": "toolatlas", "reason": "it is this gateway", "from": str(path)}],
        "warnings": [],
        "unread": [],
        "done": True,
    }


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_without_agreement_nothing_is_written(machine: Machine, answer: str) -> None:
    cursor(machine)
    result = machine.run("cursor", answer=answer)
    assert result.exit_code == 1
    assert "Nothing was changed" in str(result.exception)
    assert not machine.config.exists()
    assert not machine.state.exists()


def test_a_second_import_has_nothing_to_do(machine: Machine) -> None:
    cursor(machine)
    machine.run("cursor", "--yes")
    before = machine.config.read_bytes()
    result = machine.run("cursor", "--yes", "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["done"] is False
    assert "- git: it is there already" in result.stderr
    assert machine.config.read_bytes() == before


def test_all_clients_are_imported_at_once_and_the_same_server_only_once(machine: Machine, tmp_path: Path) -> None:
    remote = "https://x.example/mcp"
    machine.write(".cursor/mcp.json", {"mcpServers": {"x": {"url": remote}, "git": {"command": "a"}}})
    machine.write(".claude.json", {"mcpServers": {"x": {"type": "http", "url": remote}}})
    machine.write(".codex/config.toml", f'[mcp_servers.x]\nurl = "{remote}"\n\n[mcp_servers.git]\ncommand = "b"\n')
    machine.write(".gemini/settings.json", {"mcpServers": {"x": {"httpUrl": remote}}})
    machine.write(".config/Claude/claude_desktop_config.json", {"mcpServers": {"desk": {"command": "d"}}})
    machine.write(".config/Code/User/mcp.json", {"servers": {"code": {"command": "c"}}})
    (tmp_path / "project" / ".mcp.json").write_text('{"mcpServers": {"mine": {"command": "./m"}}}')
    result = machine.run("--all", "--yes")
    assert result.exit_code == 0, result.output
    assert machine.servers() == {
        "desk": {"command": "d"},
        "x": {"type": "http", "url": remote},
        "mine": {"command": "./m", "cwd": str(tmp_path / "project")},
        "git": {"command": "a"},
        "code": {"command": "c"},
        "git-2": {"command": "b"},
    }


def test_one_broken_file_does_not_keep_the_other_clients_out(machine: Machine) -> None:
    machine.write(".cursor/mcp.json", '{"mcpServers": ')
    machine.write(".gemini/settings.json", {"mcpServers": {"a": {"command": "a"}}})
    result = machine.run("--all", "--yes", "--json")
    assert list(machine.servers()) == ["a"]
    assert ".cursor/mcp.json, line 1" in json.loads(result.stdout)["unread"][0]
    assert "not read" in result.stderr
    alone = machine.run("cursor", "--yes")
    assert alone.exit_code == 1
    assert "not valid JSON" in str(alone.exception)


def test_a_file_elsewhere_is_named_with_path(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "team.json"
    path.write_text('{"servers": {"a": {"command": "a"}}}')
    assert machine.run("vscode", "--path", str(path), "--yes").exit_code == 0
    assert list(machine.servers()) == ["a"]
    missing = machine.run("vscode", "--path", str(tmp_path / "none.json"), "--yes")
    assert missing.exit_code == 1
    assert "There is no file" in str(missing.exception)


def test_a_client_that_is_not_installed_is_nothing_to_do(machine: Machine) -> None:
    result = machine.run("cursor", "--yes")
    assert result.exit_code == 3
    assert str(machine.home / ".cursor" / "mcp.json") in result.stderr


@pytest.mark.parametrize("before", [b'{"mcpServers":\t{"git":{"command":"other"}}, "mine": 1.50}\r\n', None])
def test_undo_brings_our_file_back_byte_for_byte(machine: Machine, before: bytes | None) -> None:
    cursor(machine)
    if before is not None:
        machine.config.write_bytes(before)
        machine.config.chmod(0o640)
    machine.run("cursor", "--yes")
    assert machine.config.read_bytes() != before
    result = machine.run("--undo")
    assert result.exit_code == 0, result.output
    assert (machine.config.read_bytes() if machine.config.exists() else None) == before
    if before is not None:
        assert stat.S_IMODE(machine.config.stat().st_mode) == 0o640
    again = machine.run("--undo", "--json")
    assert again.exit_code == 3
    assert json.loads(again.stdout) == {"path": str(machine.config), "undone": False}


def test_undo_refuses_when_our_file_was_changed_since(machine: Machine) -> None:
    cursor(machine)
    machine.run("cursor", "--yes")
    machine.config.write_text('{"mcpServers": {"by-hand": {"command": "x"}}}')
    refused = machine.run("--undo")
    assert refused.exit_code == 1
    assert "--force" in str(refused.exception)
    assert list(machine.servers()) == ["by-hand"]
    assert machine.run("--undo", "--force").exit_code == 0
    assert not machine.config.exists()


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["cursor", "--all"],
        ["emacs"],
        ["--all", "--path", "x"],
        ["--undo", "cursor"],
        ["cursor", "--force"],
    ],
)
def test_a_command_line_that_means_nothing_is_a_usage_error(machine: Machine, args: list[str]) -> None:
    cursor(machine)
    assert machine.run(*args, "--yes").exit_code == 2
    assert not machine.config.exists()


def test_a_configuration_with_comments_is_refused_by_its_own_name(machine: Machine) -> None:
    cursor(machine)
    machine.config.write_text('{"mcpServers": {}} // mine')
    result = machine.run("cursor", "--yes")
    assert result.exit_code == 1
    assert f"{machine.config} has comments" in str(result.exception)
    assert machine.config.read_text() == '{"mcpServers": {}} // mine'


def test_another_configuration_can_be_named(machine: Machine, tmp_path: Path) -> None:
    cursor(machine)
    other = tmp_path / "new" / "other.json"
    assert machine.run("cursor", "--config", str(other), "--yes").exit_code == 0
    assert list(json.loads(other.read_text())["mcpServers"]) == ["git", "docs"]
    assert not machine.config.exists()
