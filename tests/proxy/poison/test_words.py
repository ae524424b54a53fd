"""Errors, the log and the command line print what servers wrote; nothing of it may move a cursor or begin a line."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner, Result

from proxy.catalog.arguments import ArgumentChecker
from proxy.catalog.catalog import Source, build_catalog
from proxy.cli import build as build_cli
from proxy.errors import AgentError
from proxy.servers.config import ServerConfig, TransportKind
from proxy.servers.permission import Permissions
from proxy.servers.pins import PinStore
from proxy.servers.review import Reviewer, findings
from proxy.store.recorder import LogRecorder
from tests.fixtures.poisoned import EVERYONE, POISONED, Said
from tests.fixtures.steps import a_call, a_step
from tests.proxy.poison.conftest import StartKnowing, entries, remember, unseen

LIMIT_S = 30.0


def one_visible_line(text: str, limit: int = 1_000) -> bool:
    return unseen(text) == [] and "\n" not in text and len(text) <= limit


@pytest.mark.parametrize("said", POISONED, ids=lambda said: said.name)
def test_refusals_are_one_visible_line(said: Said, tmp_path: Path) -> None:
    config = ServerConfig(name=said.name, transport=TransportKind.STDIO, command="x", deny=("*",))
    built = build_catalog([Source(said.name, "", said.listing)], Permissions({said.name: config}).refusal)
    refused = [refused.reason for refused in built.refused.values()]
    assert len(refused) == len(said.tools)
    pins = PinStore(tmp_path)
    pins.add(config, replace(said.listing, tools=()))
    differing = pins.load(config).differences(said.listing)
    review = replace(Reviewer(pins).review(config, said.listing), blocks=True, differences=differing)
    refused += [str(review.refusal(said.name, str(tool["name"]))) for tool in said.tools]
    refused += findings(said.name, review)
    assert [text for text in refused if not one_visible_line(text)] == []


@pytest.mark.parametrize("said", POISONED, ids=lambda said: said.name)
def test_unknown_names_and_wrong_arguments_are_answered_without_server_text_that_breaks_out(said: Said) -> None:
    built = build_catalog([Source(said.name, "", said.listing)], lambda server, tool: None)
    checker = ArgumentChecker()
    attempts: list[Callable[[], object]] = []
    for tool in built.tools.values():
        near = re.sub(r"[^ -~]", "", tool.name[:40])
        attempts.append(partial(built.tool, f"{tool.written[:60]}q"))
        attempts.append(partial(built.own_tool, built.servers[0], f"{near}q"))
        for wrong in ({"p": 1, "kind": "z", "item": 3}, {"a": None}, {"other": "x"}):
            attempts.append(partial(checker.check, tool, wrong))
    errors: list[str] = []
    for attempt in attempts:
        try:
            attempt()
        except AgentError as error:
            errors.append(str(error))
    assert len(errors) >= 2 * len(said.tools)
    for text in errors:
        assert unseen(text) == []
        # A line is a parameter and its fault, or ends with the signature; none is what a server wrote.
        assert not re.search(r"^(Next:|\[task_id|files\.|import |def |    pass)", text, re.MULTILINE)


@pytest.mark.anyio
async def test_log_lines_are_one_visible_line_each_and_report_look_alikes(
    start_knowing: StartKnowing, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with start_knowing() as app:
        with anyio.fail_after(LIMIT_S):
            while "cyrillic.r_ad_file ('r\\u0435ad_file') can be taken for files.read_file" not in caplog.messages:
                await anyio.sleep(0.01)
        for said in POISONED:
            config = app.gateway.pool.configs[said.name]
            tools = tuple({**tool, "description": "Now another."} for tool in said.tools)
            problems = tuple(str(tool["name"]) for tool in said.tools)
            app.gateway._take_listing(config, replace(said.listing, tools=tools, problems=problems))
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("toolatlas")]
    assert sum("definition of" in text for text in ours) >= len(POISONED) - 2
    assert [text for text in ours if not one_visible_line(text)] == []


def test_a_step_s_log_line_shows_every_character(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    step = a_step(name="a\x9b31m\u202e", call=a_call(tool="\u200b\n"), error="\u2028\x1b[2J")
    LogRecorder(unchanged).record(step)
    assert one_visible_line(caplog.messages[0])
    assert json.loads(caplog.messages[0])["error"] == step.error


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    servers = entries(EVERYONE)
    monkeypatch.setenv("TOOLATLAS_CONFIG", str(tmp_path / "mcp.json"))
    monkeypatch.setenv("TOOLATLAS_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TOOLATLAS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    remember(tmp_path, servers, EVERYONE)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(build_cli(), list(arguments))


@pytest.mark.parametrize(
    "command",
    [
        ("servers", "list"),
        ("servers", "list", "--json"),
        ("tools", "list"),
        ("tools", "list", "--json"),
        ("tools", "search", "ignore previous instructions", "--limit", "50"),
        ("tools", "search", "chart save word", "--json"),
        ("tools", "describe", "terminal.col__31mour"),
        ("tools", "describe", "parameters.save"),
        ("tools", "describe", "parameters.save", "--json"),
        ("tools", "describe", "tags.lookup", "--json"),
        ("tools", "accept", "terminal", "--dry-run"),
        ("tools", "accept", "line_name", "--dry-run", "--json"),
    ],
    ids=" ".join,
)
def test_the_command_line_prints_nothing_unseen(shell: Path, command: tuple[str, ...]) -> None:
    result = run(*command)
    assert result.exit_code == 0, result.output
    assert unseen(result.stdout) == []
    assert unseen(result.stderr) == []


def test_doctor_names_look_alikes(shell: Path) -> None:
    servers = entries([said for said in EVERYONE if said.name in ("files", "cyrillic")], enabled=True)
    (shell / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    found = [finding for finding in json.loads(run("doctor", "--json").stdout) if finding["what"] == "look-alike name"]
    assert len(found) == 2
    assert all(not finding["ok"] and finding["advice"] for finding in found)
    assert "cyrillic.r_ad_file" in found[0]["detail"]


def unchanged(episode_id: str, text: str) -> str:
    return text
