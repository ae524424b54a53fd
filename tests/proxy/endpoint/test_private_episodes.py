"""No way around the levels of the log: what is said to and by a server that is not logged in full is written nowhere,
and every call that began is over at some time, so that its episode can end."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp import types as t

from proxy.store.recorder import Level, Outcome
from tests.fixtures.running import entry
from tests.proxy.endpoint.conftest import StartGateway
from tests.proxy.endpoint.test_http import serving
from tests.proxy.endpoint.test_logged_steps import ERAS, PRIVATE, ask, task_of
from tests.proxy.metatools.conftest import StartCoding, run, start_coding

__all__ = ["start_coding"]
pytestmark = pytest.mark.anyio
PRIMITIVES = {"command": sys.executable, "args": ["-m", "tests.fixtures.primitives", "--era", "2025", "--stdio"]}
SECRET = "the-merger-with-acme"


@pytest.mark.parametrize("era", ERAS)
async def test_the_level_of_the_gateway_holds_for_the_answer_too(start_gateway: StartGateway, era: str) -> None:
    async with start_gateway({"tools": entry("echo")}, log=Level.METADATA) as running:
        async with Client(running.app.server, mode=era) as client:
            task = task_of(await ask(client, "search_tools", query="echo"))
            await ask(client, "finish_task", outcome="done", answer=SECRET, **task)
    assert [ending.level for ending in running.steps.endings] == [Level.METADATA]


@pytest.mark.parametrize("era", ERAS)
async def test_the_end_of_an_episode_is_not_told_where_nothing_is_logged(start_gateway: StartGateway, era: str) -> None:
    async with start_gateway({"tools": entry("echo")}, log=Level.OFF) as running:
        async with Client(running.app.server, mode=era) as client:
            task = task_of(await ask(client, "search_tools", query="echo"))
            await ask(client, "finish_task", outcome="done", answer=SECRET, **task)
    assert running.steps.endings == []


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("call_tool", {"tool": "private.ecko", "arguments": {"text": SECRET}}),
        ("call_tool", {"tool": "private", "arguments": {"text": SECRET}}),
        ("call_tool", {"tool": "private__echo_it", "arguments": {"text": SECRET}}),
        ("call_tool", {"tool": "private.echo", "arguments": f"{{{SECRET}"}),
        ("call_tool", {"tool": "private.denied", "arguments": {"text": SECRET}}),
        ("call_tool", {"tool": "ecko", "arguments": {"text": SECRET}}),
        ("private.echo", {"text": SECRET}),
        ("private__echo", {"text": SECRET}),
    ],
)
async def test_a_call_that_fails_before_it_comes_to_a_private_server_is_not_written_either(
    start_gateway: StartGateway, era: str, name: str, arguments: dict[str, Any]
) -> None:
    private = {**PRIVATE, "tools": {"deny": ["whoami"]}}
    async with start_gateway({"tools": entry("echo"), "private": private}) as running:
        async with Client(running.app.server, mode=era) as client:
            await ask(client, name, **arguments)
            assert running.steps.last.outcome is Outcome.INVALID_ARGUMENTS
            assert running.steps.last.level is Level.METADATA
            # Nothing was said to the server, so the rest is as open as before.
            await ask(client, "call_tool", tool="tools.echo", arguments={"text": "open"})
            assert running.steps.last.level is Level.FULL
            await ask(client, "call_tool", tool="tools.ecko", arguments={"text": "open"})
            assert running.steps.last.level is Level.FULL


@pytest.mark.parametrize("era", ERAS)
async def test_a_refused_tool_of_a_private_server_is_not_written(start_gateway: StartGateway, era: str) -> None:
    private = {**PRIVATE, "tools": {"deny": ["echo"]}}
    async with start_gateway({"private": private}) as running, Client(running.app.server, mode=era) as client:
        await ask(client, "call_tool", tool="private.echo", arguments={"text": SECRET})
        assert (running.steps.last.outcome, running.steps.last.level) == (Outcome.DENIED, Level.METADATA)


@pytest.mark.parametrize("era", ERAS)
async def test_a_mistake_in_a_private_task_is_logged_in_it(start_gateway: StartGateway, era: str) -> None:
    async with start_gateway({"private": PRIVATE}) as running, Client(running.app.server, mode=era) as client:
        task = task_of(await ask(client, "search_tools", query="echo"))
        await ask(client, "call_tool", tool="private.echo", arguments={"text": SECRET}, **task)
        await ask(client, "search_tools", query=SECRET, limit="many", **task)
        assert running.steps.last.outcome is Outcome.INVALID_ARGUMENTS
        assert {step.episode.id for step in running.steps.all} == {running.steps.all[0].episode.id}
        assert running.steps.last.level is Level.METADATA


async def test_what_is_said_in_a_task_that_is_over_is_not_written(start_gateway: StartGateway) -> None:
    async with start_gateway({"private": PRIVATE}) as running, Client(running.app.server) as client:
        task = task_of(await ask(client, "search_tools", query="echo"))
        await ask(client, "call_tool", tool="private.echo", arguments={"text": SECRET}, **task)
        await ask(client, "finish_task", outcome="done", **task)
        assert "no running task" in await ask(client, "search_tools", query=SECRET, **task)
        assert running.steps.last.level is Level.METADATA


async def test_a_task_is_private_from_the_moment_that_its_private_server_asks(start_gateway: StartGateway) -> None:
    server = {**PRIVATE, "approve": "always"}
    async with start_gateway({"tools": entry("echo"), "private": server}) as running:

        async def other_call(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
            if not running.steps.all:
                with anyio.fail_after(20):
                    await client.call_tool("call_tool", {"tool": "tools.echo", "arguments": {"text": SECRET}})
            return t.ElicitResult(action="accept", content={})

        async with Client(running.app.server, mode="legacy", elicitation_callback=other_call) as client:
            await ask(client, "call_tool", tool="private.echo", arguments={"text": "x"})
    assert [(step.tool, step.level) for step in running.steps.all] == [("echo", Level.METADATA)] * 2


async def test_a_question_that_is_the_answer_of_a_call_leaves_nothing_open(start_gateway: StartGateway) -> None:
    """The agent may answer it, in a further request that is a call of its own, or never."""
    server = {**entry("echo"), "approve": "always"}
    async with start_gateway({"tools": server}) as running:

        async def answer(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
            return t.ElicitResult(action="accept", content={})

        async with Client(running.app.server, elicitation_callback=answer) as client:
            task = task_of(await ask(client, "search_tools", query="echo"))
            assert "hi" in await ask(client, "call_tool", tool="tools.echo", arguments={"text": "hi"}, **task)
            assert [each.open_calls for each in running.app.service.tasks.running] == [0]
            await ask(client, "finish_task", outcome="done", **task)
        assert len(running.steps.endings) == 1


@pytest.mark.parametrize("path", ["/mcp/private", "/mcp?mode=direct"])
async def test_an_unknown_tool_of_a_private_server_is_not_written_in_the_other_modes(tmp_path: Path, path: str) -> None:
    name = "ecko" if path == "/mcp/private" else "private__ecko"
    async with serving(tmp_path, {"tools": entry("echo"), "private": PRIVATE}) as (base, app, steps):
        await app.gateway.pool.wait_for_first_listings(20)
        for mode in ERAS:
            async with Client(base + path, mode=mode) as client:
                with anyio.fail_after(20), suppress(MCPError):
                    await client.call_tool(name, {"text": SECRET})
                assert steps.last.level is Level.METADATA


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "code",
    [
        f"private.ecko(text='{SECRET}')",
        f"if False:\n    private.echo(text='{SECRET}')",
        f"private.echo(text='{SECRET}'",
    ],
)
async def test_code_that_was_to_call_a_private_server_is_not_written(
    start_coding: StartCoding, era: str, code: str
) -> None:
    async with start_coding({"tools": entry("echo"), "private": PRIVATE}) as coding:
        async with Client(coding.app.server, mode=era) as client:
            await run(client, code)
            assert {step.level for step in coding.steps.all} == {Level.METADATA}
            await run(client, "tools.echo(text='open')")
            assert coding.steps.last.level is Level.FULL


@pytest.mark.parametrize("request_name", ["resources/read", "prompts/get"])
async def test_a_session_that_read_from_a_private_server_goes_on_without_contents(
    start_gateway: StartGateway, request_name: str
) -> None:
    servers = {"tools": entry("echo"), "private": {**PRIMITIVES, "log": "metadata"}}
    async with start_gateway(servers) as running, Client(running.app.server, mode="legacy") as client:
        with anyio.fail_after(30):
            if request_name == "resources/read":
                await client.read_resource((await client.list_resources()).resources[0].uri)
            else:
                prompt = (await client.list_prompts()).prompts[0]
                await client.get_prompt(prompt.name, {each.name: "Ann" for each in prompt.arguments or ()})
        await ask(client, "call_tool", tool="tools.echo", arguments={"text": SECRET})
        assert running.steps.last.level is Level.METADATA


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("by_code", [False, True])
async def test_what_a_private_task_passes_on_is_no_example_for_others(
    start_coding: StartCoding, era: str, by_code: bool
) -> None:
    open_too = {"tools": entry("echo"), "private": PRIVATE}
    async with start_coding(open_too) as coding, Client(coding.app.server, mode=era) as client:
        told = json.dumps({"plan": SECRET})
        if by_code:
            await run(client, f"private.echo(text={told!r})\ntools.echo(text={told!r})")
        else:
            task = task_of(await ask(client, "search_tools", query="echo"))
            await ask(client, "call_tool", tool="private.echo", arguments={"text": told}, **task)
            await ask(client, "call_tool", tool="tools.echo", arguments={"text": told}, **task)
            await ask(client, "finish_task", outcome="done", **task)
        assert SECRET not in await ask(client, "describe_tools", tools=["tools.echo"])


async def test_no_examples_are_kept_where_contents_are_not_logged(start_gateway: StartGateway) -> None:
    async with start_gateway({"tools": entry("echo")}, log=Level.METADATA) as running:
        async with Client(running.app.server, mode="legacy") as client:
            await ask(client, "call_tool", tool="tools.echo", arguments={"text": json.dumps({"plan": SECRET})})
            assert SECRET not in await ask(client, "describe_tools", tools=["tools.echo"])


@pytest.mark.parametrize("level", ["metadata", "off"])
async def test_the_last_words_of_a_private_server_are_told_to_the_agent_and_not_to_the_log(
    start_gateway: StartGateway, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    dying = [sys.executable, "-c", f"import sys; sys.exit('{SECRET}')"]
    private = {"command": dying[0], "args": dying[1:], "log": level}
    async with start_gateway({"tools": entry("echo"), "private": private}) as running:
        async with Client(running.app.server, mode="legacy") as client:
            assert SECRET in await ask(client, "list_servers")
            assert SECRET in await ask(client, "list_tools", server="private")
            assert [step.level for step in running.steps.all] == [Level.METADATA] * 2
            await ask(client, "list_tools", server="tools")
            assert running.steps.last.level is Level.FULL
    assert SECRET not in caplog.text
    assert "server 'private'" in caplog.text


async def test_a_run_that_called_a_server_that_is_off_is_there_for_its_other_calls(start_coding: StartCoding) -> None:
    silent = {**entry("echo"), "log": "off"}
    async with start_coding({"tools": entry("echo"), "a": entry("echo"), "silent": silent}) as coding:
        async with Client(coding.app.server, mode="legacy") as client:
            await run(client, f"tools.echo(text='open')\nsilent.echo(text='{SECRET}')")
            assert [(step.name, step.level) for step in coding.steps.all] == [
                ("tools.echo", Level.FULL), ("run_python", Level.METADATA),
            ]  # fmt: skip
            # Of no server that is known, so that it may be the silent one's.
            await ask(client, "call_tool", tool="absolve", arguments={"text": SECRET})
            assert len(coding.steps.all) == 2
