"""From a real gateway's log: what an agent did over MCP, was judged, and became rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from proxy.store.database import Database
from proxy.store.filters import Filters
from proxy.store.trajectories import heads
from tests.fixtures import judged
from tests.fixtures.running import entry
from tests.proxy.test_logbook import LIMIT_S, ask, logged, url_of
from trainer.data.collecting import collect, collected_policy_rows
from trainer.data.judged import LeftOut
from trainer.data.policy_rows import PolicySettings
from trainer.data.settings import DataSettings
from trainer.data.tokens import Reader
from trainer.rows import SegmentKind

pytestmark = pytest.mark.anyio
SECRET = "the-merger-with-acme"


async def test_what_an_agent_did_becomes_rows_and_what_it_told_a_private_server_does_not(
    tmp_path: Path, reader: Reader, tokenizer: Any
) -> None:
    servers = {"tools": entry("echo"), "private": {**entry("echo"), "log": "metadata"}}
    async with logged(tmp_path, servers) as (app, base):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            await ask(client, "search_tools", query="add numbers", task="What is 2 and 3?", servers=["tools"])
            await ask(client, "call_tool", tool="tools.add", arguments={"a": 2, "b": "three"})
            await ask(client, "call_tool", tool="tools.add", arguments={"a": 2, "b": 3})
            await ask(client, "search_tools", query="say it again", servers=["tools"], limit=3)
            await ask(client, "call_tool", tool="tools.echo", arguments={"text": "5"})
            await ask(client, "finish_task", outcome="done", answer="It is 5.")
            await ask(client, "search_tools", query="add numbers", task=f"What is {SECRET}?")
            await ask(client, "call_tool", tool="private.echo", arguments={"text": SECRET})
            await ask(client, "finish_task", outcome="done", answer=SECRET)
        assert app.logbook is not None
        assert await app.logbook.recorder.flushed(LIMIT_S)
    database = Database(url_of(tmp_path))
    try:
        ids = [head.id for head in await heads(database, Filters(), 10, newest_first=False)]
        await judged.write(database, [judged.rubric()], [judged.judgement(each, 0.75) for each in ids])
        found = await collect(database, DataSettings())
        policy = [row async for row in collected_policy_rows(database, found, reader, PolicySettings())]
    finally:
        await database.close()
    assert found.tally.left_out == {LeftOut.PRIVATE: 1}
    first, second = found.rows
    assert first.origin.task == "What is 2 and 3?"
    assert first.origin.servers == frozenset({"tools"})
    assert [(use.tool, use.ok) for use in first.used][:1] == [("tools.add", True)]
    assert second.query.history.searched == ("add numbers",)
    assert second.query.history.called == ("tools.add",)
    assert set(first.shown) <= set(second.query.history.revealed)
    (row,) = policy
    acts = [segment for segment in row.segments if segment.kind is SegmentKind.ACT]
    written = [tokenizer.decode(act.tokens[:-1]) for act in acts]
    assert json.loads(written[2].removeprefix("call_tool ")) == {"tool": "tools.add", "arguments": {"a": 2, "b": 3}}
    assert [bool(act.weights) for act in acts] == [True, False, True, True, True, True]
    read = tokenizer.decode(row.segments[0].tokens)
    assert "search_tools {" in read
    assert "tools - " in read
    assert "What is 2 and 3?" in read
    assert "run_python" not in read.partition("Actions:")[2]
    assert SECRET not in repr(found)
    assert SECRET not in "".join(tokenizer.decode(segment.tokens) for segment in row.segments)
