"""A catalogue on its way into the log."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from proxy.store.snapshots import CatalogView, records_of

pytestmark = pytest.mark.anyio


def view_of(count: int, **changed: Any) -> CatalogView:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string", "description": "x" * 40} for n in range(10)}}
    tools = [(f"s.t{n}", "s", f"t{n}", {"name": f"t{n}", "inputSchema": schema, **changed}) for n in range(count)]
    servers = [{"name": "s", "written": "s", "purpose": "p"}]
    return CatalogView(hash="h", servers=servers, tools=tools, introduction="hello")


async def records(view: CatalogView, known: set[str]) -> list[dict[str, Any]]:
    return [json.loads(line) async for line in records_of(view, known)]


async def test_definitions_come_before_the_snapshot_that_names_them() -> None:
    *definitions, snapshot = await records(view_of(3), set())
    assert [each["kind"] for each in definitions] == ["definition"] * 3
    assert snapshot["kind"] == "snapshot"
    assert snapshot["tools"] == [[f"s.t{n}", each["hash"]] for n, each in enumerate(definitions)]
    assert definitions[1]["definition"]["name"] == "t1"
    assert (definitions[1]["server"], definitions[1]["tool"]) == ("s", "t1")


async def test_a_definition_is_sent_once_and_again_when_it_changed() -> None:
    known: set[str] = set()
    assert len(await records(view_of(3), known)) == 4
    assert len(await records(view_of(4), known)) == 2
    assert len(await records(view_of(3, title="new"), known)) == 4


async def test_a_tool_that_is_no_json_is_left_out() -> None:
    view = view_of(2)
    broken = [*view.tools, ("s.bad", "s", "bad", {"name": object()})]
    found = await records(CatalogView(hash="h", servers=[], tools=broken, introduction=""), set())
    assert [written for written, _ in found[-1]["tools"]] == ["s.t0", "s.t1"]


async def test_others_run_in_between_while_a_large_catalogue_is_encoded() -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turn)
        count = len(await records(view_of(2_000), set()))
        tasks.cancel_scope.cancel()
    assert count == 2_001
    assert turns > 3
