"""The token bench counts what a client really receives, and its gate can fail."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from bench.__main__ import main
from bench.lean import Era, http_client, stdio_client
from bench.targets import catalog_server
from bench.targets.gateway import listings, stand_ins, start_gateway, write_catalog
from bench.targets.invented import invented_rows
from bench.tokens import Surface, by_bytes, compact, o200k, report, surface

SMALL = {"servers": 3, "tools": 9}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("tokens")
    catalog = write_catalog(folder, invented_rows(**SMALL))
    with start_gateway(folder / "gateway", stand_ins(catalog), listings(catalog)) as program:
        yield f"http://127.0.0.1:{program.wait().port}/mcp"


def test_a_token_is_four_bytes_of_utf8_and_a_rest_counts_whole() -> None:
    assert [by_bytes(text) for text in ("", "abcd", "abcde", "日本")] == [0, 1, 2, 2]


def test_tools_are_counted_as_compact_json() -> None:
    assert compact([{"name": "größe", "inputSchema": {}}]) == '[{"name":"größe","inputSchema":{}}]'


def test_the_larger_of_both_eras_is_reported_with_the_other_beside_it() -> None:
    shown = [Surface("2025-11-25", "x" * 40, ({"name": "a"},)), Surface("2026-07-28", "", ({"name": "a"},))]
    tools = [{"name": "a", "description": "b", "inputSchema": {"type": "object"}, "annotations": {"title": "no"}}]
    result = report(shown, tools, 1, len, [])
    assert (result["visible_tokens"], result["visible_tokens_other_era"]) == (14, 4)
    assert result["visible_tokens_o200k"] == 40 + len('[{"name":"a"}]')
    assert result["eager_tokens_o200k"] == len('[{"name":"a","description":"b","inputSchema":{"type":"object"}}]')


@pytest.mark.anyio
@pytest.mark.parametrize(("mode", "era"), [("legacy", Era.SESSION), ("auto", Era.STATELESS)])
async def test_what_is_counted_is_what_the_gateway_sent(
    gateway: str, mode: Literal["legacy", "auto"], era: Era
) -> None:
    shown = await surface(gateway, mode)
    async with http_client(gateway, era) as client:
        sent = await client.list_tools()
    assert shown.version == era.value
    assert shown.tokens(by_bytes) == by_bytes(shown.instructions) + by_bytes(compact(sent))
    assert all(name in shown.instructions for name in ("weather", "maps", "calendar"))


@pytest.mark.anyio
async def test_the_listings_known_beforehand_are_what_the_stand_ins_send(tmp_path: Path) -> None:
    catalog = write_catalog(tmp_path, invented_rows(**SMALL))
    known = listings(catalog)
    assert [len(listing.tools) for listing in known.values()] == [3, 3, 3]
    for name, listing in known.items():
        command = [sys.executable, str(Path(catalog_server.__file__)), str(catalog), name]
        async with stdio_client(command, Era.SESSION) as client:
            assert await client.list_tools() == list(listing.tools)
            assert await client.call(str(listing.tools[0]["name"]), {})


@pytest.mark.anyio
async def test_a_stand_in_starts_behind_the_gateway_when_it_is_called(gateway: str) -> None:
    async with http_client(gateway, Era.STATELESS) as client:
        result = await client.call("call_tool", {"tool": "weather.get_forecast", "arguments": {"id": "1"}})
    assert "get_forecast was called" in json.dumps(result)


def test_the_invented_catalogue_is_always_the_same_and_names_no_tool_twice() -> None:
    rows = invented_rows()
    assert rows == invented_rows()
    assert len(rows) == len({(row["server"], row["tool"]) for row in rows}) == 257
    assert len({row["server"] for row in rows}) == 28


def test_28_servers_cost_an_agent_at_most_1200_tokens_and_the_gate_fails_above_its_limit(tmp_path: Path) -> None:
    out = tmp_path / "tokens.json"
    assert main(["tokens", "--max", "10", "--json", str(out)]) == 1
    result = json.loads(out.read_text("utf-8"))
    assert 10 < result["visible_tokens"] <= 1200
    assert result["eager_tokens"] > 20 * result["visible_tokens"]
    assert result["machine"]["cpus"] >= 1


@pytest.mark.parametrize("content", [None, '{"name": "x"}\n'])
def test_a_catalogue_that_is_not_there_or_is_something_else_is_exit_code_2(
    tmp_path: Path, content: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "catalog.jsonl"
    if content is not None:
        path.write_text(content, "utf-8")
    assert main(["tokens", "--catalog", str(path)]) == 2
    assert str(path) in capsys.readouterr().err


def test_the_real_tokenizer_knows_its_vocabulary_without_the_network() -> None:
    pytest.importorskip("bpe_openai")
    count = o200k()
    assert count is not None
    assert count("hello world") == 2
