"""Beside the result of a call: progress, log messages, and its cancellation, which ends that call and no other."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from tests.fixtures.primitives import VENDOR
from tests.primitives.agent import LIMIT_S, Agent, text_of, until
from tests.primitives.conftest import Place, Way, ways

pytestmark = pytest.mark.anyio
TOKENS = ("the agent's own token", 77)


@ways()
async def test_a_tool_is_called_and_what_the_protocol_does_not_know_arrives(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        result = await agent.call("echo", text="hello")
        assert result["content"][0] == {"type": "text", "text": "hello", **VENDOR}


@ways()
@pytest.mark.parametrize("token", TOKENS, ids=["text", "number"])
async def test_progress_carries_the_agents_own_token(shared: Place, way: Way, token: str | int) -> None:
    async with shared.agent(way) as agent:
        await agent.call("progress", meta={"progressToken": token})
        await until(lambda: len(agent.of("notifications/progress")) == 3, "three notices of progress")
        assert sorted(agent.of("notifications/progress"), key=lambda params: params["progress"]) == [
            {"progressToken": token, "progress": step, "total": 3, "message": f"step {step}"} for step in (1, 2, 3)
        ]


@ways()
async def test_progress_of_two_calls_at_once_stays_apart(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent, anyio.create_task_group() as tasks:
        for token in ("one", "two"):
            tasks.start_soon(lambda token=token: agent.call("progress", meta={"progressToken": token}))
        await until(lambda: len(agent.of("notifications/progress")) == 6, "three notices for each call")
        for token in ("one", "two"):
            heard = [each for each in agent.of("notifications/progress") if each["progressToken"] == token]
            assert sorted(each["progress"] for each in heard) == [1, 2, 3]


@ways()
async def test_no_progress_is_sent_to_who_did_not_ask_for_it(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        await agent.call("progress")
        await agent.call("echo", text="the end")
        assert agent.of("notifications/progress") == []


@ways()
async def test_logs_arrive_at_the_level_that_the_agent_asked_for(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        for level, lines in {"critical": [], "info": ["error", "info"], "debug": ["debug", "error", "info"]}.items():
            agent.told.clear()
            await agent.set_level(level)
            await agent.call("log")
            await until(lambda lines=lines: len(agent.of("notifications/message")) >= len(lines), "those lines")
            await agent.call("echo", text="the end")
            arrived = sorted(agent.of("notifications/message"), key=lambda params: params["level"])
            assert arrived == [
                {"level": line, "logger": "primitives", "data": {"line": line}, **VENDOR} for line in lines
            ]


@ways(agent="2026")
async def test_an_agent_of_the_newer_era_that_asks_for_no_logs_gets_none(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        await agent.call("log")
        await agent.call("echo", text="the end")
        assert agent.of("notifications/message") == []


@ways(server="2025", mode="search")
async def test_a_server_is_told_the_level_and_each_agent_gets_its_own(shared: Place, way: Way) -> None:
    server = shared.behind(way)
    async with shared.agent(way) as loud, shared.agent(way) as quiet:
        await loud.set_level("debug")
        await quiet.set_level("error")
        await loud.call("log")
        await quiet.call("log")
        await until(lambda: len(loud.of("notifications/message")) == 3, "all lines")
        await until(lambda: len(quiet.of("notifications/message")) == 1, "the error alone")
        set_to = [seen["params"]["level"] for seen in server.seen if seen["method"] == "logging/setLevel"]
        assert "debug" in set_to


@asynccontextmanager
async def waiting(agent: Agent, tag: str, results: dict[str, Any]) -> AsyncGenerator[anyio.CancelScope]:
    """A call of `wait` under way, seen at the server; yields what cancels it."""
    scope = anyio.CancelScope()

    async def call() -> None:
        with scope:
            results[tag] = await agent.call("wait", meta={"progressToken": tag}, tag=tag)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        began = {"progressToken": tag, "progress": 1, "message": f"{tag} waits"}
        await until(lambda: began in agent.of("notifications/progress"), f"{tag} has begun")
        yield scope


async def cancels_one_of_two(agent: Agent, other: Agent, way: Way, *, named: bool) -> None:
    """Cancel one of two calls of an agent, with a third of another agent beside them. `named`: the server is sent the
    id of the call, as it is not over HTTP since 2026-07-28."""
    tags = [f"{name} of {way}" for name in ("cancelled", "sibling", "other")]
    results: dict[str, Any] = {}
    async with (
        waiting(agent, tags[0], results) as scope,
        waiting(agent, tags[1], results),
        waiting(other, tags[2], results),
    ):
        scope.cancel()
        with anyio.fail_after(LIMIT_S):
            while not (calls := await agent.json("calls", tags=tags))["cancelled"]:
                await anyio.sleep(0.01)
        # The server knows the call by an id of the gateway's making.
        assert calls == {"cancelled": tags[:1], "named": tags[:1] if named else []}
        await agent.text("release", tag=tags[1])
        await other.text("release", tag=tags[2])
    assert tags[0] not in results
    assert [text_of(results[tag]) for tag in tags[1:]] == [f"{tag} was released" for tag in tags[1:]]


@ways()
async def test_cancelling_a_call_cancels_it_at_the_server_and_no_other(shared: Place, way: Way) -> None:
    # Agents that can be asked nothing share a connection, so the three calls are in one place.
    async with shared.agent(way, capabilities={}) as agent, shared.agent(way, capabilities={}) as other:
        # What is asked first shifts the ids, so that an agent's is never by chance the gateway's.
        await other.text("echo", text="one more")
        await cancels_one_of_two(agent, other, way, named=way.server == "2025")


@ways()
async def test_an_agent_that_can_be_asked_cancels_its_call_too(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        results: dict[str, Any] = {}
        tag = f"askable {way}"
        async with waiting(agent, tag, results) as scope:
            scope.cancel()
            server = shared.behind(way)
            await until(lambda: tag in server.cancelled, "the server hears of it")
        assert results == {}


@ways()
async def test_an_agent_that_leaves_in_the_middle_of_a_call_cancels_it(shared: Place, way: Way) -> None:
    server, tag = shared.behind(way), f"left {way}"

    async def call(agent: Agent) -> None:
        with pytest.raises(MCPError, match="Connection closed"):
            await agent.call("wait", tag=tag)

    async with anyio.create_task_group() as tasks:
        async with shared.agent(way) as agent:
            tasks.start_soon(call, agent)
            await until(lambda: tag in server.waiting, "the call has begun")
    await until(lambda: tag in server.cancelled, "the server hears of it")
