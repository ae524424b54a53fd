"""The servers of a catalogue in one process, asked without a gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bench.targets.catalog_server import tool_of
from bench.targets.gateway import listings, write_catalog
from bench.targets.invented import invented_rows
from bench.traffic.canned import CannedServer, application, numbered
from bench.traffic.poison import PRAISE, STUFFER, stuffed_rows
from bench.traffic.tasks import work_task
from bench.traffic.worlds import Worlds

ROWS = invented_rows(servers=4, tools=60)
TASK = work_task({"text": "What is the weather in Oslo?", "needed_tools": ["weather:get_forecast"]}, "1")
WORLDS = Worlds([TASK], {})


def server(name: str) -> CannedServer:
    return next(CannedServer(name, rows, WORLDS) for each, rows in numbered(ROWS) if each == name)


async def ask(path: str, method: str, **params: Any) -> httpx2.Response:
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    transport = httpx2.ASGITransport(app=application(ROWS, WORLDS))
    async with httpx2.AsyncClient(transport=transport, base_url="http://canned") as client:
        return await client.post(path, json=message)


@pytest.mark.anyio
async def test_each_server_lists_its_own_tools_exactly(tmp_path: Path) -> None:
    known = listings(write_catalog(tmp_path, ROWS))
    for number, (name, rows) in enumerate(numbered(ROWS)):
        hello = (await ask(f"/{number}/mcp", "initialize", protocolVersion="2025-11-25")).json()["result"]
        listed = (await ask(f"/{number}/mcp", "tools/list")).json()["result"]["tools"]
        assert listed == [tool_of(dict(row)) for row in rows] == list(known[name].tools)
        # Another word than in the cache would have the gateway build its catalogue anew.
        assert (hello["serverInfo"], hello["instructions"], hello["capabilities"], hello["protocolVersion"]) == (
            known[name].server_info,
            known[name].instructions,
            known[name].capabilities,
            known[name].protocol_version,
        )


@pytest.mark.anyio
async def test_a_call_is_answered_and_what_is_not_there_is_refused() -> None:
    number = [name for name, _ in numbered(ROWS)].index("weather")
    answer = await ask(f"/{number}/mcp", "tools/call", name="get_forecast", arguments={"id": "Oslo"})
    assert answer.json()["id"] == 7
    assert json.loads(answer.json()["result"]["content"][0]["text"])["subject"] == "Oslo"
    assert (await ask(f"/{number}/mcp", "nothing")).json()["error"]["code"] == -32601
    assert (await ask("/99/mcp", "tools/list")).status_code == 404
    assert (await ask("/x", "tools/list")).status_code == 404


def test_results_are_always_the_same_and_wrong_tools_visibly_know_nothing() -> None:
    text, failed = server("weather").call("get_forecast", {"id": "Oslo"})
    assert (text, failed) == server("weather").call("get_forecast", {"id": "OSLO today"})
    assert not failed
    refusals = [
        server(name).call(tool, {first(name, tool): "Oslo"}) for name, _ in numbered(ROWS) for tool in tools(name)
    ]
    unknown = [each for each in refusals if each[0] != text]
    assert len(unknown) == len(refusals) - 1
    assert {each for each in unknown if each[1]} == {("not found: Oslo", True)}
    assert {each for each in unknown if not each[1]} == {('{"results": []}', False)}


def test_arguments_that_do_not_fit_are_an_error() -> None:
    text, failed = server("weather").call("get_forecast", {"id": 5})
    assert failed
    assert text.startswith("invalid arguments: ")
    assert server("weather").call("get_nothing", {}) == ("there is no tool get_nothing", True)


def test_the_server_that_praises_itself_answers_whatever_it_is_asked() -> None:
    rows = stuffed_rows(ROWS)
    stuffer = CannedServer(STUFFER, rows, WORLDS)
    assert {row["server"] for row in rows} == {STUFFER}
    for tool in stuffer.tools:
        text, failed = stuffer.call(tool, {"query": "anything"})
        assert not failed
        assert json.loads(text)["result"] == PRAISE
    assert "forecast" in " ".join(str(row["tool_description"]) for row in rows)


def tools(name: str) -> list[str]:
    return list(server(name).tools)


def first(name: str, tool: str) -> str:
    return next(iter(server(name).tools[tool]["inputSchema"]["properties"]))
