"""The whole way of an agent in `search` mode: find, describe, call, read on, finish; every outcome recorded."""

from __future__ import annotations

import json
import re
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp import types as t

from proxy.store.recorder import Outcome
from tests.fixtures.running import entry
from tests.proxy.endpoint.conftest import StartGateway

pytestmark = pytest.mark.anyio
ERAS = ["legacy", "auto"]


async def ask(client: Client, name: str, **arguments: Any) -> tuple[str, bool]:
    """The joined text of an answer, and whether it is an error."""
    with anyio.fail_after(30):
        result = await client.call_tool(name, arguments)
    assert result.structured_content is None or name == "call_tool"
    texts = [item.text for item in result.content if isinstance(item, t.TextContent)]
    return "\n".join(texts), bool(result.is_error)


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_finds_describes_and_calls_a_tool(start_gateway: StartGateway, era: str) -> None:
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server, mode=era) as client:
        found, _ = await ask(client, "search_tools", query="add two numbers")
        assert found.startswith("tools.add(")
        described, _ = await ask(client, "describe_tools", tools=["tools.add"])
        assert "def add(*, a: int, b: int)" in described
        result, failed = await ask(client, "call_tool", tool="tools.add", arguments={"a": 2, "b": 3})
        assert (result, failed) == ("5", False)
        step = running.steps.last
        assert (step.name, step.server, step.tool, step.outcome) == ("call_tool", "tools", "add", Outcome.OK)


async def test_the_index_names_every_server_and_the_way_on(start_gateway: StartGateway) -> None:
    async with start_gateway({"tools": entry("echo"), "names": entry("names")}) as running:
        async with Client(running.app.server) as client:
            assert client.instructions is not None
            assert "search_tools" in client.instructions
            assert re.search(r"^tools - .+ \(14\)$", client.instructions, re.MULTILINE)
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert "tools, names" in (tools["search_tools"].description or "")


@pytest.mark.parametrize("era", ERAS)
async def test_meta_tools_suit_the_limits_of_clients(start_gateway: StartGateway, era: str) -> None:
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server, mode=era) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [
        "search_tools", "list_servers", "list_tools", "describe_tools", "call_tool", "read_result", "finish_task",
    ]  # fmt: skip
    for tool in tools:
        assert re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_-]{0,39}", tool.name)
        assert tool.output_schema is None
        assert set(tool.input_schema) <= {"type", "properties", "required"}
        assert all("type" in schema for schema in tool.input_schema["properties"].values())
        offers_task = era == "auto" and not tool.name.startswith("list_")
        assert ("task_id" in tool.input_schema["properties"]) == offers_task
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (None if tool.name == "call_tool" else True)
        assert tool.annotations.destructive_hint is (True if tool.name == "call_tool" else None)
        assert (tool.meta or {})["anthropic/alwaysLoad"] is True


@pytest.mark.parametrize("form", ["json text", "nested", "plain"])
async def test_arguments_are_understood_in_the_forms_that_models_send(start_gateway: StartGateway, form: str) -> None:
    arguments = {"text": "hi"}
    sent = {"json text": json.dumps(arguments), "nested": {"arguments": arguments}, "plain": arguments}[form]
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server) as client:
        assert await ask(client, "call_tool", tool="tools.echo", arguments=sent) == ("hi", False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "a: required"),
        ({"a": 1, "b": "2"}, 'b: expected integer, got the string "2"'),
        ({"a": 1, "bb": 2}, "b: required"),
    ],
)
async def test_wrong_arguments_are_explained_and_do_not_reach_the_server(
    start_gateway: StartGateway, arguments: dict[str, Any], said: str
) -> None:
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server) as client:
        text, failed = await ask(client, "call_tool", tool="tools.add", arguments=arguments)
        assert failed
        assert said in text
        assert running.steps.last.outcome is Outcome.INVALID_ARGUMENTS


async def test_an_unknown_tool_is_answered_with_the_nearest_name(start_gateway: StartGateway) -> None:
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server) as client:
        text, failed = await ask(client, "call_tool", tool="tools.ecko", arguments={})
        assert failed
        assert "did you mean tools.echo" in text


async def test_a_tools_own_failure_is_recorded_as_such(start_gateway: StartGateway) -> None:
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server) as client:
        _, failed = await ask(client, "call_tool", tool="tools.fail", arguments={})
        assert failed
        assert running.steps.last.outcome is Outcome.TOOL_ERROR


async def test_a_denied_tool_is_neither_found_nor_listed_nor_described_nor_called(start_gateway: StartGateway) -> None:
    denied = {**entry("echo"), "tools": {"deny": ["add"]}}
    async with start_gateway({"tools": denied}) as running, Client(running.app.server) as client:
        assert "tools.add" not in (await ask(client, "search_tools", query="add two numbers"))[0]
        assert "tools.add" not in (await ask(client, "list_tools", server="tools"))[0]
        assert "tools.deny" in (await ask(client, "describe_tools", tools=["tools.add"]))[0]
        text, failed = await ask(client, "call_tool", tool="tools.add", arguments={"a": 1, "b": 2})
        assert failed
        assert "tools.deny" in text
        assert running.steps.last.outcome is Outcome.DENIED


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("action", "runs"), [("accept", True), ("decline", False)])
async def test_the_user_is_asked_before_a_destructive_tool_runs(
    start_gateway: StartGateway, era: str, action: str, runs: bool
) -> None:
    asked: list[str] = []

    async def answer(context: Any, params: Any) -> t.ElicitResult:
        asked.append(params.message)
        return t.ElicitResult(action=action, content={})

    async with (
        start_gateway({"tools": entry("echo")}) as running,
        Client(running.app.server, mode=era, elicitation_callback=answer) as client,
    ):
        _, failed = await ask(client, "call_tool", tool="tools.delete_file", arguments={"path": "x"})
        assert failed is not runs
        assert len(asked) == 1
        assert "tools.delete_file" in asked[0]
        outcomes = [step.outcome for step in running.steps.all]
        assert outcomes == [Outcome.OK if runs else Outcome.DENIED]


@pytest.mark.parametrize("era", ERAS)
async def test_where_the_client_cannot_ask_the_answer_names_the_setting(start_gateway: StartGateway, era: str) -> None:
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server, mode=era) as client:
        text, failed = await ask(client, "call_tool", tool="tools.delete_file", arguments={"path": "x"})
        assert failed
        assert '"approve": "never"' in text
        assert running.steps.last.outcome is Outcome.DENIED


async def test_approve_never_runs_it_unasked(start_gateway: StartGateway) -> None:
    trusted = {**entry("echo"), "approve": "never"}
    async with start_gateway({"tools": trusted}) as running, Client(running.app.server) as client:
        _, failed = await ask(client, "call_tool", tool="tools.delete_file", arguments={"path": "x"})
        assert not failed


@pytest.mark.parametrize("era", ERAS)
async def test_a_long_result_is_cut_and_can_be_read_to_its_end(start_gateway: StartGateway, era: str) -> None:
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server, mode=era) as client:
        whole = running.app.gateway.catalog.tool("tools.big")
        assert whole.name == "big"
        cut, _ = await ask(client, "call_tool", tool="tools.big", arguments={"size": 30000})
        note = re.match(r"\[toolatlas: 30,000 characters.*read_result\(id=\"(r_\w+)\", offset=(\d+)\)", cut)
        assert note is not None
        task = re.search(r"\[task_id: (\w+);", cut)
        more = {"task_id": task[1]} if task else {}
        read, failed = await ask(client, "read_result", id=note[1], offset=int(note[2]), **more)
        assert not failed
        assert read.startswith(f"[characters {note[2]}-")
        assert len(cut) < 11_000


@pytest.mark.parametrize("era", ERAS)
async def test_a_result_of_another_task_cannot_be_read(start_gateway: StartGateway, era: str) -> None:
    async with start_gateway({"tools": entry("echo")}) as running:
        async with Client(running.app.server, mode=era) as one, Client(running.app.server, mode=era) as other:
            cut, _ = await ask(one, "call_tool", tool="tools.big", arguments={"size": 30000})
            result_id = re.search(r"r_\w+", cut)
            assert result_id is not None
            _, failed = await ask(other, "read_result", id=result_id[0])
            assert failed


async def test_a_session_has_one_task_until_it_is_finished(start_gateway: StartGateway) -> None:
    async with (
        start_gateway({"tools": entry("echo")}) as running,
        Client(running.app.server, mode="legacy") as client,
    ):
        for _ in range(2):
            await ask(client, "search_tools", query="echo")
        await ask(client, "finish_task", outcome="done")
        await ask(client, "search_tools", query="echo")
        tasks = [step.episode.id for step in running.steps.all]
        assert tasks[0] == tasks[1] == tasks[2] != tasks[3]


async def test_a_sessionless_agent_keeps_its_task_by_id(start_gateway: StartGateway) -> None:
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server) as client:
        text, _ = await ask(client, "search_tools", query="echo")
        task = re.search(r"\[task_id: (t0_[0-9a-f]{24});", text)
        assert task is not None
        again, _ = await ask(client, "search_tools", query="echo", task_id=task[1])
        assert "task_id" not in again
        assert len({step.episode.id for step in running.steps.all}) == 1
        unknown, failed = await ask(client, "search_tools", query="echo", task_id="t0_000000000000000000000000")
        assert failed
        assert "no running task" in unknown


async def test_a_server_that_is_down_is_shown_with_its_reason_and_hurts_no_other(start_gateway: StartGateway) -> None:
    async with (
        start_gateway({"tools": entry("echo"), "broken": entry("exits")}) as running,
        Client(running.app.server) as client,
    ):
        servers, _ = await ask(client, "list_servers")
        assert re.search(r"^broken - .*\[down: .*exited with code 1", servers, re.MULTILINE)
        assert (await ask(client, "call_tool", tool="tools.echo", arguments={"text": "x"})) == ("x", False)


async def test_a_server_that_dies_in_a_call_is_said_to_and_works_again(start_gateway: StartGateway) -> None:
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server) as client:
        text, failed = await ask(client, "call_tool", tool="tools.crash", arguments={})
        assert failed
        assert "exited with code 3" in text
        assert running.steps.last.outcome is Outcome.SERVER_DOWN
        assert (await ask(client, "call_tool", tool="tools.echo", arguments={"text": "x"})) == ("x", False)


async def test_a_call_past_its_time_limit_is_a_timeout(start_gateway: StartGateway) -> None:
    hasty = {**entry("echo"), "timeout_s": 0.3}
    async with start_gateway({"tools": hasty}) as running, Client(running.app.server) as client:
        text, failed = await ask(client, "call_tool", tool="tools.slow", arguments={"seconds": 30})
        assert failed
        assert "timeout_s" in text
        assert running.steps.last.outcome is Outcome.TIMEOUT


@pytest.mark.parametrize("era", ERAS)
async def test_progress_of_a_called_tool_reaches_the_agent(start_gateway: StartGateway, era: str) -> None:
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server, mode=era) as client:
        with anyio.fail_after(20):
            await client.call_tool(
                "call_tool", {"tool": "tools.slow", "arguments": {"seconds": 0.5}}, progress_callback=on_progress
            )
    assert seen or era == "auto"  # in memory the SDK's direct dispatch carries no progress token


async def test_a_cancelled_call_is_recorded_as_cancelled(start_gateway: StartGateway) -> None:
    async with (
        start_gateway({"tools": entry("echo")}) as running,
        Client(running.app.server, mode="legacy") as client,
    ):
        with anyio.move_on_after(0.5):
            await client.call_tool("call_tool", {"tool": "tools.slow", "arguments": {"seconds": 30}})
        with anyio.fail_after(10):
            while not running.steps.all:
                await anyio.sleep(0.01)
        assert running.steps.last.outcome is Outcome.CANCELLED


async def test_calling_a_servers_tool_as_if_it_were_ours_is_answered_with_the_right_way(
    start_gateway: StartGateway,
) -> None:
    async with start_gateway({"tools": entry("echo")}) as running, Client(running.app.server) as client:
        text, failed = await ask(client, "tools.echo", text="hi")
        assert failed
        assert "call_tool(tool='tools.echo'" in text


async def test_two_sessionless_tasks_have_a_stateful_server_each(start_gateway: StartGateway) -> None:
    stateful = {**entry("echo"), "isolation": "session"}
    async with start_gateway({"tools": stateful}) as running, Client(running.app.server) as client:
        tasks: list[str] = []
        for _ in range(2):
            text, _ = await ask(client, "search_tools", query="counter")
            named = re.search(r"\[task_id: (\w+);", text)
            assert named is not None
            tasks.append(named[1])
        counted = [
            (await ask(client, "call_tool", tool="tools.counter", arguments={}, task_id=task))[0]
            for task in (tasks[0], tasks[0], tasks[1])
        ]
        assert counted == ["1", "2", "1"]


async def test_the_same_search_again_puts_first_what_the_task_does_not_know_yet(start_gateway: StartGateway) -> None:
    async with start_gateway({"tools": entry("echo")}) as running:

        async def search(client: Client) -> tuple[str, ...]:
            await ask(client, "search_tools", query="a tool", limit=20)
            assert running.steps.last.decision is not None
            return running.steps.last.decision.shown

        async with Client(running.app.server, mode="legacy") as client:
            await ask(client, "search_tools", query="add two numbers", limit=1)
            assert running.steps.last.decision is not None
            assert running.steps.last.decision.shown == ("tools.add",)
            knowing = await search(client)
        async with Client(running.app.server, mode="legacy") as client:
            fresh = await search(client)
        assert sorted(knowing) == sorted(fresh)
        assert knowing.index("tools.add") > fresh.index("tools.add")
