"""`toolatlas tools`: search, describe and call from the shell, under the same permissions as agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from proxy.cli import build
from proxy.errors import Denied, GatewayError, InvalidArguments, UnknownName
from tests.fixtures.running import entry


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "mcp.json"
    monkeypatch.setenv("TOOLATLAS_CONFIG", str(file))
    monkeypatch.setenv("TOOLATLAS_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TOOLATLAS_CACHE_DIR", str(tmp_path / "cache"))
    configure(file, tools=entry("echo"))
    return file


def configure(config: Path, **servers: Any) -> None:
    config.write_text(json.dumps({"mcpServers": servers}))


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(build(), ["tools", *arguments])
    assert result.exception is None or isinstance(result.exception, GatewayError | SystemExit), result.exception
    return result


def test_search_finds_tools_best_first() -> None:
    result = run("search", "add two numbers", "--limit", "3", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert (rows[0]["tool"], rows[0]["purpose"]) == ("tools.add", "Add two whole numbers.")
    assert rows[0]["signature"].startswith("add(")
    assert len(rows) <= 3
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    assert run("search", "add two numbers").stdout.startswith("tools.add\n")


def test_a_search_that_finds_nothing_has_its_own_exit_code() -> None:
    result = run("search", "zzzz", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (3, [])
    said = run("search", "zzzz")
    assert (said.exit_code, said.stdout) == (3, "")
    assert "nothing found" in said.stderr


def test_describe_gives_the_stub_or_the_definition_as_the_server_gave_it() -> None:
    assert "def add(*, a: int, b: int)" in run("describe", "tools.add").stdout
    definition = json.loads(run("describe", "tools.add", "--json").stdout)
    assert definition["name"] == "add"
    assert definition["inputSchema"]["required"] == ["a", "b"]


def test_an_unknown_tool_fails_with_the_nearest_name() -> None:
    for command in ("describe", "call"):
        result = run(command, "tools.ad")
        assert result.exit_code == 1
        assert isinstance(result.exception, UnknownName)
        assert "tools.add" in str(result.exception)


def test_a_call_prints_the_result() -> None:
    result = run("call", "tools.add", "--args", '{"a": 2, "b": 3}')
    assert (result.exit_code, result.stdout) == (0, "5\n")
    whole = json.loads(run("call", "tools.structured", "--json").stdout)
    assert whole["structuredContent"] == {"celsius": 21.5}
    assert run("call", "tools.image").stdout == "[image]\n"


def test_a_tool_that_fails_makes_the_command_fail_and_is_printed_all_the_same() -> None:
    result = run("call", "tools.fail")
    assert (result.exit_code, result.stdout) == (1, "The disk is full.\n")
    as_json = run("call", "tools.fail", "--json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)["isError"] is True


@pytest.mark.parametrize(
    ("arguments", "said"),
    [('{"a": 2}', "b: required"), ('{"a": 2, "b": "x"}', "b: expected integer"), ("{a: 2}", "--args is not JSON")],
)
def test_wrong_arguments_are_explained(arguments: str, said: str) -> None:
    result = run("call", "tools.add", "--args", arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert isinstance(result.exception, InvalidArguments)
    assert said in str(result.exception)


def test_a_destructive_tool_runs_only_when_allowed() -> None:
    arguments = ("call", "tools.delete_file", "--args", '{"path": "x"}')
    refused = run(*arguments)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert isinstance(refused.exception, Denied)
    allowed = run(*arguments, "--yes")
    assert (allowed.exit_code, allowed.stdout) == (0, "deleted x\n")


def test_a_denied_tool_is_neither_found_nor_described_nor_called(config: Path) -> None:
    configure(config, tools={**entry("echo"), "tools": {"deny": ["add"]}})
    found = run("search", "add two whole numbers", "--json").stdout
    assert "tools.add" not in found
    for arguments in (["describe", "tools.add"], ["call", "tools.add", "--args", '{"a": 2, "b": 3}', "--yes"]):
        result = run(*arguments)
        assert result.exit_code == 1
        assert isinstance(result.exception, Denied)
        assert "tools.deny" in str(result.exception)


@pytest.mark.timeout(30)
def test_a_known_tool_does_not_wait_for_a_silent_server(config: Path) -> None:
    assert run("call", "tools.echo", "--args", '{"text": "x"}').exit_code == 0
    configure(config, tools=entry("echo"), silent=entry("silent"))
    assert run("call", "tools.echo", "--args", '{"text": "hi"}').stdout == "hi\n"
    assert "def echo" in run("describe", "tools.echo").stdout


def test_a_server_that_dies_in_the_call_makes_the_command_fail_with_the_reason() -> None:
    result = run("call", "tools.crash")
    assert result.exit_code == 1
    assert "exited with code 3" in str(result.exception)


def test_wrong_usage_has_its_own_exit_code() -> None:
    assert run("search", "x", "--limit", "0").exit_code == 2
    assert run("call").exit_code == 2
