"""What the log is told of calls: as they were sent and seen, whose episode they are, and how much may be written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp import types as t

from proxy.store.recorder import EndReason, Level, Outcome
from tests.fixtures.running import entry
from tests.proxy.endpoint.conftest import StartGateway
from tests.proxy.endpoint.test_http import serving
from tests.proxy.metatools.conftest import StartCoding, run, start_coding

__all__ = ["start_coding"]
pytestmark = pytest.mark.anyio
ERAS = ["legacy", "auto"]
PRIVATE = {**entry("echo"), "log": "metadata"}


async def ask(client: Client, name: str, **arguments: Any) -> str:
    with anyio.fail_after(30):
        result = await client.call_tool(name, arguments)
    return "\n".join(item.text for item in result.content if isinstance(item, t.TextContent))


def task_of(answer: str) -> dict[str, str]:
    named = re.search(r"\[task_id: (\w+);", answer)
    return {"task_id": named[1]} if named is not None else {}


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_is_logged_as_sent_as_passed_on_and_as_seen(start_gateway: StartGateway, era: str) -> None:
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server, mode=era) as client:
        await ask(client, "call_tool", tool="tools.add", arguments='{"a": 2, "b": 3}')
        step = running.steps.last
        assert step.arguments == {"tool": "tools.add", "arguments": '{"a": 2, "b": 3}'}
        assert step.call is not None
        assert (step.call.written, step.call.arguments) == ("tools.add", {"a": 2, "b": 3})
        assert step.call.result["content"] == [{"type": "text", "text": "5"}]
        assert step.result["content"][0] == {"type": "text", "text": "5"}
        assert 0 <= step.call.duration_ms <= step.duration_ms
        assert step.catalog == running.app.gateway.catalog.hash
        assert running.app.gateway.past_catalog(step.catalog) is running.app.gateway.catalog


async def test_a_result_that_the_agent_saw_unchanged_is_one_object(start_gateway: StartGateway) -> None:
    async with start_gateway({"tools": entry("echo")}, result_limit=2_000) as running:
        async with Client(running.app.server, mode="legacy") as client:
            await ask(client, "call_tool", tool="tools.add", arguments={"a": 2, "b": 3})
            same = running.steps.last
            await ask(client, "call_tool", tool="tools.big", arguments={"size": 9_000})
            cut = running.steps.last
    assert same.call is not None
    assert same.call.result is same.result
    assert cut.call is not None
    assert len(str(cut.call.result)) > 9_000 > len(str(cut.result))


async def test_a_call_that_never_reached_its_server_names_the_tool_all_the_same(start_gateway: StartGateway) -> None:
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server, mode="legacy") as client:
        await ask(client, "call_tool", tool="tools.add", arguments={"a": "x"})
        step = running.steps.last
        assert (step.outcome, step.tool) == (Outcome.INVALID_ARGUMENTS, "add")
        assert step.call is not None
        assert step.call.result is None
        assert step.error


async def test_what_was_revealed_is_logged_with_how_much_of_it(start_gateway: StartGateway) -> None:
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server, mode="legacy") as client:
        await ask(client, "list_tools", server="tools")
        assert {(shown.tool, shown.how) for shown in running.steps.last.revealed} == {
            (tool, "name") for tool in running.app.gateway.catalog.tools
        }
        await ask(client, "describe_tools", tools=["tools.add", "tools.nothing"])
        assert [(shown.tool, shown.how) for shown in running.steps.last.revealed] == [("tools.add", "definition")]
        await ask(client, "call_tool", tool="tools.add", arguments={"a": 1, "b": 2})
        assert running.steps.last.revealed == ()


async def test_a_search_is_logged_as_a_decision(start_gateway: StartGateway) -> None:
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server, mode="legacy") as client:
        await ask(client, "search_tools", query="add numbers or count", task="What is 2 and 3?", limit=1)
        step = running.steps.last
    decision = step.decision
    assert decision is not None
    assert (decision.policy, decision.query, decision.task) == ("lexical", "add numbers or count", "What is 2 and 3?")
    assert decision.shown == tuple(shown.tool for shown in step.revealed) == (decision.candidates[0][0],)
    assert len(decision.candidates) > 1
    scores = [score for _, score in decision.candidates]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("era", ERAS)
async def test_the_episode_ends_after_the_step_that_finishes_it(start_gateway: StartGateway, era: str) -> None:
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server, mode=era) as client:
        task = task_of(await ask(client, "search_tools", query="echo"))
        assert running.steps.endings == []
        await ask(client, "finish_task", outcome="done", answer="It is 5.", **task)
        (ending,) = running.steps.endings
        assert (ending.reason, ending.outcome, ending.answer) == (EndReason.FINISHED, "done", "It is 5.")
        assert {step.episode for step in running.steps.all} == {ending.episode}
        assert running.steps.last.name == "finish_task"
        assert ending.ended_at >= running.steps.last.started_at


async def test_the_episode_of_a_session_ends_with_it_and_says_whose_it_was(start_gateway: StartGateway) -> None:
    async with start_gateway({"tools": entry("echo")}) as running:
        info = t.Implementation(name="editor", version="7.1")
        async with Client(running.app.server, mode="legacy", client_info=info) as client:
            await ask(client, "list_servers")
        (ending,) = running.steps.endings
    assert ending.reason is EndReason.SESSION
    assert ending.episode.client == "editor 7.1"
    assert ending.episode.protocol == "2025-11-25"


@pytest.mark.parametrize("path", ["/mcp/tools", "/mcp?mode=direct"])
async def test_passed_through_calls_without_sessions_are_one_episode(tmp_path: Path, path: str) -> None:
    name = "add" if path == "/mcp/tools" else "tools__add"
    async with serving(tmp_path, {"tools": entry("echo")}) as (base, app, steps):
        await app.gateway.pool.wait_for_first_listings(20)
        for _ in range(2):
            async with Client(base + path) as client:
                for _ in range(2):
                    await ask(client, name, a=1, b=2)
        assert len(steps.all) == 4
        assert len({step.episode.id for step in steps.all}) == 1
        assert steps.last.episode.mode == steps.last.mode


async def test_a_passed_through_call_can_name_its_task_which_no_server_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path, {"tools": entry("echo")}) as (base, app, steps):
        await app.gateway.pool.wait_for_first_listings(20)
        async with Client(f"{base}/mcp") as client, Client(f"{base}/mcp/tools") as passed:
            task = task_of(await ask(client, "search_tools", query="add"))["task_id"]
            meta: Any = {"toolatlas/task_id": task}
            with anyio.fail_after(20):
                await passed.call_tool("add", {"a": 1, "b": 2}, meta=meta)
            assert steps.all[0].episode == steps.last.episode
            assert "toolatlas" not in str(steps.last.call)


@pytest.mark.parametrize("era", ERAS)
async def test_calls_that_fail_before_any_task_are_logged_too(start_gateway: StartGateway, era: str) -> None:
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server, mode=era) as client:
        await ask(client, "search_tools")
        await ask(client, "no_such_tool")
        outcomes = [step.outcome for step in running.steps.all]
        assert outcomes == [Outcome.INVALID_ARGUMENTS, Outcome.INVALID_ARGUMENTS]
        assert len({step.episode.id for step in running.steps.all}) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_after_a_private_server_was_called_no_contents_of_the_task_are_logged(
    start_gateway: StartGateway, era: str
) -> None:
    async with start_gateway({"tools": entry("echo"), "private": PRIVATE}) as running:
        async with Client(running.app.server, mode=era) as client:
            task = task_of(await ask(client, "search_tools", query="echo"))
            await ask(client, "call_tool", tool="private.echo", arguments={"text": "secret"}, **task)
            await ask(client, "call_tool", tool="tools.echo", arguments={"text": "secret"}, **task)
            await ask(client, "finish_task", outcome="done", answer="secret", **task)
            assert [step.level for step in running.steps.all] == [Level.FULL, *[Level.METADATA] * 3]
            assert [ending.level for ending in running.steps.endings] == [Level.METADATA]
            await ask(client, "call_tool", tool="tools.echo", arguments={"text": "open"})
            assert running.steps.last.level is Level.FULL


async def test_tools_that_are_off_leave_no_step_and_others_of_their_server_do(start_gateway: StartGateway) -> None:
    server = {**entry("echo"), "log": {"*": "full", "ec*": "off"}}
    async with start_gateway({"tools": server}) as running, Client(running.app.server, mode="legacy") as client:
        await ask(client, "call_tool", tool="tools.add", arguments={"a": 1, "b": 2})
        await ask(client, "call_tool", tool="tools.echo", arguments={"text": "secret"})
        await ask(client, "call_tool", tool="tools.whoami")
    assert [(step.tool, step.level) for step in running.steps.all] == [("add", Level.FULL), ("whoami", Level.METADATA)]


async def test_nothing_is_handed_on_where_the_gateway_logs_nothing(start_gateway: StartGateway) -> None:
    async with start_gateway({"tools": entry("echo")}, log=Level.OFF) as running:
        async with Client(running.app.server, mode="legacy") as client:
            await ask(client, "list_servers")
    assert running.steps.all == []


async def test_code_that_calls_a_private_server_is_logged_without_contents_and_so_are_later_runs(
    start_coding: StartCoding,
) -> None:
    async with start_coding({"tools": entry("echo"), "private": PRIVATE}) as coding:
        async with Client(coding.app.server, mode="legacy") as client:
            await run(client, "x = tools.echo(text='open')")
            await run(client, "x = private.echo(text='secret')")
            await run(client, "print(x)")
    assert [step.level for step in coding.runs] == [Level.FULL, Level.METADATA, Level.METADATA]
    assert [step.level for step in coding.calls] == [Level.FULL, Level.METADATA]
    assert {step.parent for step in coding.calls} == {step.id for step in coding.runs[:2]}


async def test_what_code_looks_up_is_revealed_by_its_run(start_coding: StartCoding) -> None:
    async with start_coding({"tools": entry("echo")}) as coding, Client(coding.app.server, mode="legacy") as client:
        await run(client, "print(describe('tools.add'))")
        assert [(shown.tool, shown.how) for shown in coding.runs[0].revealed] == [("tools.add", "definition")]
