from __future__ import annotations

import json
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from proxy.clients.base import Entry
from proxy.commands import connect, importing
from proxy.commands.connect import Count

URL = "http://127.0.0.1:8765/mcp"
CODEX = """\
# my settings
model = "gpt"

[mcp_servers.git]
command = "uvx"
args = ["mcp-server-git"]

[mcp_servers.git.env]
TOKEN = "s3cret"

# kept
[history]
persistence = "none"
"""


class Machine:
    """A home folder with the commands over it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "mcp.json"
        self.file = folder / "client-file"

    def run(
        self, *args: str, answer: str | None = None, command: str = "connect", count: Count | None = None
    ) -> Result:
        app = typer.Typer()
        connect.register(app, count)
        importing.register(app)
        environ = {
            "HOME": str(self.folder / "home"),
            "PATH": str(self.folder / "bin"),
            "TOOLATLAS_CONFIG": str(self.config),
            "TOOLATLAS_STATE_DIR": str(self.folder / "state"),
            **dict.fromkeys(("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR")),
        }
        return CliRunner().invoke(app, [command, *args], input=answer, env=environ)

    def at(self, client: str, *args: str, answer: str | None = None, count: Count | None = None) -> Result:
        return self.run(client, "--path", str(self.file), *args, answer=answer, count=count)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.chdir(tmp_path)
    return Machine(tmp_path)


def test_our_entry_goes_into_a_new_file_in_the_usual_place(machine: Machine) -> None:
    result = machine.run("cursor", "--yes")
    assert result.exit_code == 0, result.output
    path = machine.folder / "home" / ".cursor" / "mcp.json"
    assert json.loads(path.read_text()) == {"mcpServers": {"toolatlas": {"url": URL}}}
    assert not machine.config.exists()


def test_the_other_contents_of_the_file_stay(machine: Machine) -> None:
    machine.file.write_text('{\n\t"theme": "dark",\n\t"servers": {"a": {"command": "a"}}\n}')
    machine.file.chmod(0o644)
    assert machine.at("vscode", "--url", "https://gw.example/mcp", "--token-env", "TOK", "--yes").exit_code == 0
    own = {"type": "http", "url": "https://gw.example/mcp", "headers": {"Authorization": "Bearer ${env:TOK}"}}
    expected = {"theme": "dark", "servers": {"a": {"command": "a"}, "toolatlas": own}}
    assert json.loads(machine.file.read_text()) == expected
    assert machine.file.read_text().startswith('{\n\t"theme"')
    assert stat.S_IMODE(machine.file.stat().st_mode) == 0o644


def test_a_program_is_started_with_the_configuration_that_is_not_the_usual_one(machine: Machine) -> None:
    assert machine.at("claude-desktop", "--yes").exit_code == 0
    entry = json.loads(machine.file.read_text())["mcpServers"]["toolatlas"]
    assert entry == {"command": "toolatlas", "args": ["stdio", "--config", str(machine.config)]}


def test_a_program_is_named_with_its_folder_because_desktop_clients_have_another_path(machine: Machine) -> None:
    program = machine.folder / "bin" / "toolatlas"
    program.parent.mkdir()
    program.touch(mode=0o755)
    assert machine.at("codex", "--stdio", "--yes").exit_code == 0
    entry = tomllib.loads(machine.file.read_text())["mcp_servers"]["toolatlas"]
    assert entry["command"] == str(program)
    assert entry["args"][0] == "stdio"


def test_the_diff_is_shown_and_asked_about_without_secrets(machine: Machine) -> None:
    machine.file.write_text(CODEX)
    result = machine.at("codex", "--replace", answer="n\n")
    assert result.exit_code == 1
    assert '-TOKEN = "***"' in result.stderr
    assert "+[mcp_servers.toolatlas]" in result.stderr
    assert "s3cret" not in result.output
    assert f"Write this to {machine.file} and to {machine.config}?" in result.stderr
    assert result.stdout == ""
    assert machine.file.read_text() == CODEX
    assert not machine.config.exists()


def counted(seen: Mapping[str, Entry], behind: Mapping[str, Entry] | None, config: Path | None) -> int:
    """A thousand tokens a server, five hundred for the gateway."""
    return 1000 * len(seen) + (0 if behind is None else 500)


def test_replace_moves_the_other_servers_behind_the_gateway(machine: Machine) -> None:
    machine.file.write_text(CODEX)
    result = machine.at("codex", "--replace", "--yes", "--json", count=counted)
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["moved"] == ["git"]
    assert answer["tokens"] == {"before": 1000, "after": 500}
    assert answer["import"]["added"] == [{"name": "git", "written": "git", "from": str(machine.file)}]
    assert "s3cret" not in result.output
    text = machine.file.read_text()
    own = {"url": URL, "tool_timeout_sec": 300}
    assert tomllib.loads(text) == {
        "model": "gpt",
        "history": {"persistence": "none"},
        "mcp_servers": {"toolatlas": own},
    }
    assert text.startswith("# my settings\n")
    assert "# kept\n[history]" in text
    moved = {"command": "uvx", "args": ["mcp-server-git"], "env": {"TOKEN": "s3cret"}}
    assert json.loads(machine.config.read_text())["mcpServers"] == {"git": moved}


def test_tokens_are_shown_as_unknown_when_nobody_can_count_them(machine: Machine) -> None:
    machine.file.write_text(CODEX)
    assert "unknown now, unknown then" in machine.at("codex", "--replace", "--yes").stderr


def test_what_only_the_client_can_run_stays_with_it(machine: Machine) -> None:
    machine.file.write_text('{"servers": {"a": {"command": "a"}, "b": {"command": "b", "env": {"K": "${input:k}"}}}}')
    result = machine.at("vscode", "--replace", "--yes")
    assert "= b stays in the client's file: only VS Code can fill in ${input:k}" in result.stderr
    assert list(json.loads(machine.file.read_text())["servers"]) == ["b", "toolatlas"]
    assert list(json.loads(machine.config.read_text())["mcpServers"]) == ["a"]


@pytest.mark.parametrize("before", [CODEX.replace("\n", "\r\n").encode(), None])
def test_undo_brings_the_clients_file_back_byte_for_byte(machine: Machine, before: bytes | None) -> None:
    if before is not None:
        machine.file.write_bytes(before)
        machine.file.chmod(0o640)
    machine.at("codex", "--replace", "--yes")
    assert machine.file.read_bytes() != before
    if before is not None:
        machine.file.chmod(0o600)
    result = machine.at("codex", "--undo", "--json")
    assert json.loads(result.stdout) == {"path": str(machine.file), "undone": True}
    assert (machine.file.read_bytes() if machine.file.exists() else None) == before
    if before is not None:
        assert stat.S_IMODE(machine.file.stat().st_mode) == 0o640
        assert machine.run("--undo", command="import").exit_code == 0
        assert not machine.config.exists()
    assert machine.at("codex", "--undo").exit_code == 3


def test_undo_refuses_when_the_client_has_changed_its_file_since(machine: Machine) -> None:
    machine.file.write_text("{}")
    machine.at("cursor", "--yes")
    machine.file.write_text('{"new": 1}')
    refused = machine.at("cursor", "--undo")
    assert refused.exit_code == 1
    assert "--force" in str(refused.exception)
    assert machine.file.read_text() == '{"new": 1}'
    assert machine.at("cursor", "--undo", "--force").exit_code == 0
    assert machine.file.read_text() == "{}"


def test_connecting_twice_is_nothing_to_do_the_second_time(machine: Machine) -> None:
    machine.at("gemini", "--yes")
    before = machine.file.read_bytes()
    result = machine.at("gemini", "--yes", "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["done"] is False
    assert machine.file.read_bytes() == before


def test_another_url_takes_the_place_of_the_first(machine: Machine) -> None:
    machine.at("cursor", "--yes")
    machine.at("cursor", "--url", "https://gw.example/mcp", "--yes")
    assert json.loads(machine.file.read_text())["mcpServers"] == {"toolatlas": {"url": "https://gw.example/mcp"}}


@pytest.mark.parametrize(
    ("client", "content", "said"),
    [
        ("cursor", '{"mcpServers": ', "not valid JSON"),
        ("cursor", '{"mcpServers": {}} // mine', '"url": "http://127.0.0.1:8765/mcp"'),
        ("cursor", '{"mcpServers": []}', "has to be an object"),
        ("codex", "[mcp_servers", "not valid TOML"),
    ],
)
def test_a_file_that_cannot_be_changed_without_loss_is_left_untouched(
    machine: Machine, client: str, content: str, said: str
) -> None:
    machine.file.write_text(content)
    result = machine.at(client, "--yes")
    assert result.exit_code == 1
    assert said in str(result.exception)
    assert machine.file.read_text() == content


@pytest.mark.parametrize(
    "args",
    [
        ["emacs"],
        ["cursor", "--url", URL, "--stdio"],
        ["cursor", "--url", "gw.example"],
        ["cursor", "--token-env", "ta_not-a-name"],
        ["cursor", "--force"],
        ["cursor", "--undo", "--replace"],
    ],
)
def test_a_command_line_that_means_nothing_is_a_usage_error(machine: Machine, args: list[str]) -> None:
    result = machine.run(*args, "--yes")
    assert result.exit_code == 2
    assert "ta_not" not in result.output
    assert not (machine.folder / "home").exists()
