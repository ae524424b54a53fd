"""The log of a running gateway: what agents did is in the tables, what was deleted goes from memory too."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest
from mcp import Client
from mcp import types as t

from proxy.app import App, build
from proxy.servers.configfile import parse
from proxy.settings import Settings
from proxy.store.database import Database
from proxy.store.decisions import decided
from proxy.store.deletions import Selection, delete
from proxy.store.filters import Filters
from proxy.store.recorder import EndReason, Level
from proxy.store.trajectories import stream
from proxy.store.trajectory import Trajectory
from tests.fixtures.running import entry
from tests.fixtures.threads import ThreadBackend
from tests.lifecycle.conftest import serving, until

pytestmark = pytest.mark.anyio
LIMIT_S = 60.0
ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])


async def ask(client: Client, name: str, **arguments: Any) -> str:
    with anyio.fail_after(LIMIT_S):
        result = await client.call_tool(name, arguments)
    return "\n".join(item.text for item in result.content if isinstance(item, t.TextContent))


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'state' / 'toolatlas.db'}"


@asynccontextmanager
async def logged(folder: Path, servers: dict[str, Any], **changed: Any) -> AsyncGenerator[tuple[App, str]]:
    settings = Settings(
        config=folder / "mcp.json",
        state_dir=folder / "state",
        cache_dir=folder / "cache",
        database=url_of(folder),
        **changed,
    )
    configuration = parse({"mcpServers": servers}, os.environ)
    backend = ThreadBackend("")
    app = build(settings, os.environ, configuration=configuration, recorders=(), backend=backend)
    async with serving(app.http) as base:
        await app.gateway.pool.wait_for_first_listings(LIMIT_S)
        yield app, base


async def trajectories(folder: Path) -> list[Trajectory]:
    database = Database(url_of(folder))
    try:
        return [each async for each in stream(database, Filters())]
    finally:
        await database.close()


def contents(folder: Path) -> bytes:
    """Of all files."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@ERAS
async def test_what_an_agent_did_is_a_trajectory_with_all_that_training_needs(tmp_path: Path, era: str) -> None:
    async with logged(tmp_path, {"tools": entry("echo")}) as (app, base):
        async with Client(f"{base}/mcp", mode=era) as client:
            found = await ask(client, "search_tools", query="add numbers", task="What is 2 and 3?")
            named = re.search(r"\[task_id: (\w+);", found)
            task = {"task_id": named[1]} if named is not None else {}
            await ask(client, "describe_tools", tools=["tools.add"], **task)
            await ask(client, "call_tool", tool="tools.add", arguments={"a": 2, "b": 3}, **task)
            await ask(client, "run_python", code="print(tools.add(a=2, b=3))", **task)
            await ask(client, "finish_task", outcome="done", answer="It is 5.", **task)
        assert app.logbook is not None
        assert await app.logbook.recorder.flushed(LIMIT_S)
        (trajectory,) = await trajectories(tmp_path)
    assert [step.name for step in trajectory.steps] == [
        "search_tools", "describe_tools", "call_tool", "run_python", "finish_task",
    ]  # fmt: skip
    assert trajectory.ending is not None
    assert (trajectory.ending.task, trajectory.ending.answer) == ("What is 2 and 3?", "It is 5.")
    assert trajectory.ending.reason is EndReason.FINISHED
    assert trajectory.ending.tokens_eager
    search, described, called, ran, _ = trajectory.steps
    assert search.decision is not None
    assert search.decision.shown[0] == "tools.add"
    assert [(each.tool, each.how) for each in described.revealed] == [("tools.add", "definition")]
    assert called.call is not None
    assert called.call.arguments == {"a": 2, "b": 3}
    assert [each.name for each in ran.code_calls] == ["tools.add"]
    assert all(step.observation_tokens for step in trajectory.steps)


async def test_the_end_of_the_gateway_ends_the_episodes_that_run(tmp_path: Path) -> None:
    async with logged(tmp_path, {"tools": entry("echo")}) as (_, base):
        async with Client(f"{base}/mcp") as client:
            await ask(client, "search_tools", query="add")
    (trajectory,) = await trajectories(tmp_path)
    assert trajectory.ending is not None
    assert trajectory.ending.reason is EndReason.SHUTDOWN


async def test_a_deleted_episode_goes_from_memory_with_its_variables_and_kept_results(tmp_path: Path) -> None:
    async with logged(tmp_path, {"tools": entry("echo")}, result_limit=2_000) as (app, base):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            cut = await ask(client, "call_tool", tool="tools.big", arguments={"size": 9_000})
            kept = re.search(r'id="(\w+)"', cut)
            assert kept is not None
            await ask(client, "run_python", code="x = 5")
            assert app.logbook is not None
            assert await app.logbook.recorder.flushed(LIMIT_S)
            (running,) = app.service.tasks.running
            await delete(app.logbook.database, Selection(episodes=(running.episode.id,)))
            await until(lambda: not app.service.tasks.running, "the task ends")
            assert "no result" in await ask(client, "read_result", id=kept[1])
            assert "NameError" in await ask(client, "run_python", code="print(x)")
            assert await app.logbook.recorder.flushed(LIMIT_S)
    (later,) = await trajectories(tmp_path)
    assert later.id != running.episode.id


async def test_learned_examples_go_with_what_was_deleted(tmp_path: Path) -> None:
    async with logged(tmp_path, {"tools": entry("echo")}) as (app, base):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            await ask(client, "call_tool", tool="tools.whoami")
            assert app.logbook is not None
            assert await app.logbook.recorder.flushed(LIMIT_S)
            shapes = app.service.shapes
            assert shapes._books
            with anyio.fail_after(LIMIT_S):
                # The first look at the deletions takes what it finds for older than the gateway.
                while shapes._books:
                    await delete(app.logbook.database, Selection(agent="somebody else"))
                    await anyio.sleep(0.1)


async def test_a_private_server_leaves_neither_contents_nor_examples(tmp_path: Path) -> None:
    private = {**entry("echo"), "log": "metadata"}
    async with logged(tmp_path, {"private": private}) as (_, base):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            await ask(client, "call_tool", tool="private.echo", arguments={"text": "very private"})
            await ask(client, "run_python", code="print(private.echo(text='very private'))")
            await ask(client, "finish_task", outcome="done", answer="very private")
    (trajectory,) = await trajectories(tmp_path)
    assert {step.level for step in trajectory.steps} == {Level.METADATA}
    kept = contents(tmp_path)
    assert b"very private" not in kept
    assert b"private.echo" in kept


async def test_the_pages_show_the_episode(tmp_path: Path) -> None:
    async with logged(tmp_path, {"tools": entry("echo")}) as (app, base):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            await ask(client, "search_tools", query="add", task="Sum it up")
        assert app.logbook is not None
        assert await app.logbook.recorder.flushed(LIMIT_S)
        async with httpx2.AsyncClient(base_url=base, follow_redirects=True) as http:
            assert "Sum it up" in (await http.get("/ui/")).text
            assert "ready" in (await http.get("/ui/servers")).text


async def test_without_a_database_nothing_is_kept_and_there_are_no_pages(tmp_path: Path) -> None:
    settings = Settings(config=tmp_path / "mcp.json", state_dir=tmp_path / "state", cache_dir=tmp_path / "cache")
    app = build(settings, os.environ, configuration=parse({"mcpServers": {}}, os.environ))
    assert app.logbook is None
    async with serving(app.http) as base, httpx2.AsyncClient(base_url=base) as http:
        assert (await http.get("/ui/")).status_code == 404
    assert b"SQLite format" not in contents(tmp_path)


async def test_what_a_search_decided_is_logged_with_what_it_left_to_chance(tmp_path: Path) -> None:
    async with logged(tmp_path, {"tools": entry("echo")}, explore=0.5) as (app, base):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            for number in range(20):
                await ask(client, "search_tools", query=f"echo a text, number {number}", limit=4)
        assert app.logbook is not None
        assert await app.logbook.recorder.flushed(LIMIT_S)
        (trajectory,) = await trajectories(tmp_path)
    made = decided(trajectory)
    assert len(made) == 20
    for one in made:
        decision = one.decision
        assert (decision.asked, decision.cut) == (4, len(one.shown))
        assert decision.entropy is not None
        ranked = tuple(tool for tool, _ in decision.candidates or ())[: len(one.shown)]
        assert decision.explored is (decision.shown != ranked)
        assert one.propensity == pytest.approx(0.5 / (len(ranked) - 1) if decision.explored else 0.5)
    assert {one.decision.explored for one in made} == {True, False}, "1 in 500,000 times they are all alike"


async def test_a_log_that_is_not_full_leaves_nothing_to_chance(tmp_path: Path) -> None:
    async with logged(tmp_path, {"tools": entry("echo")}, explore=0.5, log=Level.METADATA) as (app, base):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            for number in range(20):
                await ask(client, "search_tools", query=f"echo {number}", limit=4)
        assert app.logbook is not None
        assert await app.logbook.recorder.flushed(LIMIT_S)
        (trajectory,) = await trajectories(tmp_path)
    decisions = [step.decision for step in trajectory.steps if step.decision is not None]
    assert {(each.explored, each.shown, each.asked) for each in decisions} == {(False, None, 4)}


async def test_the_next_gateway_introduces_first_the_servers_that_were_used(tmp_path: Path) -> None:
    servers = {name: entry("echo") for name in ("a", "b", "c")}

    async def introduced(base: str) -> list[str]:
        async with Client(f"{base}/mcp", mode="legacy") as client:
            index = (client.instructions or "").partition("Servers (tools):\n")[2]
            return [line.partition(" - ")[0] for line in index.split("\n")]

    async with logged(tmp_path, servers) as (app, base):
        assert await introduced(base) == ["a", "b", "c"]
        for used in ("c", "c", "b"):
            async with Client(f"{base}/mcp", mode="legacy") as client:
                await ask(client, "call_tool", tool=f"{used}.add", arguments={"a": 1, "b": 2})
        assert app.logbook is not None
        assert await app.logbook.recorder.flushed(LIMIT_S)
    async with logged(tmp_path, servers) as (_, base):
        assert await introduced(base) == ["c", "b", "a"]
