"""delegate_task: offered only of a model that passed, worked with what the agent may see, logged as an episode."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp import types as t
from starlette.responses import Response

from bench.targets.gateway import listings, stand_ins, write_catalog
from bench.targets.invented import invented_rows
from bench.tokens import by_bytes, compact
from proxy.app import App
from proxy.catalog.cache import ListingCache
from proxy.endpoint.tokens import TokenStore
from proxy.errors import ConfigurationError
from proxy.policy.probe import Probed, keep
from proxy.sandbox.gaps import LANGUAGE
from proxy.servers.configfile import parse
from proxy.settings import ModelSettings
from proxy.store.recorder import EndReason, Level, Outcome
from tests.fixtures.openai_server import Answering, Asked, OpenAIServer, failure, openai_server
from tests.fixtures.running import entry
from tests.fixtures.threads import ThreadBackend
from tests.proxy.endpoint.conftest import Steps
from tests.proxy.endpoint.test_http import serving, texts
from tests.proxy.endpoint.test_token_servers import agent
from tests.proxy.policy.scripted import done, in_order, observations, saying, settings_of

pytestmark = pytest.mark.anyio
ERAS = ["legacy", "auto"]
SERVERS = {"tools": entry("echo")}
ADD = ("call_tool", {"tool": "tools.add", "arguments": {"a": 2, "b": 40}})


@asynccontextmanager
async def delegating(
    folder: Path,
    answering: Answering,
    servers: Mapping[str, Any] = SERVERS,
    *,
    passed: bool = True,
    **changed: Any,
) -> AsyncGenerator[tuple[str, App, Steps, OpenAIServer]]:
    async with openai_server(answering) as served:
        settings = settings_of(served)
        keep(folder / "state", Probed(model=settings.identity, at="2026", passed=passed, tried=()))
        async with serving(folder, dict(servers), agent=settings, **changed) as (base, app, steps):
            await app.gateway.pool.wait_for_first_listings(20)
            yield base, app, steps, served


async def delegate(client: Client, **more: Any) -> t.CallToolResult:
    with anyio.fail_after(30):
        return await client.call_tool("delegate_task", {"task": "Add 2 and 40."}, **more)


@pytest.mark.parametrize("era", ERAS)
async def test_a_task_is_worked_and_its_answer_told(tmp_path: Path, era: Any) -> None:
    script = in_order(("search_tools", {"query": "add"}), ADD, done("The sum is 42."))
    async with delegating(tmp_path, script) as (base, _, steps, served):
        async with Client(f"{base}/mcp", mode=era) as client:
            result = await delegate(client)
    assert not result.is_error
    assert texts(result).startswith("The sum is 42.\n[3 turns, 2 calls, ")
    assert served.asked[0].user == "Add 2 and 40."
    assert observations(served.asked[2])[1] == "42"
    delegated, own = steps.all[:-1], steps.all[-1]
    assert (own.name, own.outcome) == ("delegate_task", Outcome.OK)
    assert [step.name for step in delegated] == ["search_tools", "call_tool", "finish_task"]
    assert len({step.episode.id for step in steps.all}) == 2
    episode = delegated[0].episode
    assert (episode.client, episode.agent, episode.mode) == ("delegate_task", "local", "search")
    assert (episode.parent_step, own.episode.parent_step) == (own.id, None)
    assert f"episode {episode.id}]" in texts(result)
    assert {step.parent for step in steps.all} == {None}
    ending = next(each for each in steps.endings if each.episode.id == episode.id)
    assert (ending.reason, ending.outcome, ending.answer) == (EndReason.FINISHED, "done", "The sum is 42.")


async def test_the_model_cannot_delegate_once_more(tmp_path: Path) -> None:
    script = in_order(("delegate_task", {"task": "Do it."}), done("x"))
    async with delegating(tmp_path, script) as (base, _, steps, served):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            await delegate(client)
    assert "delegate_task" not in {each["function"]["name"] for each in served.asked[0].body["tools"]}
    assert "there is no action 'delegate_task'" in observations(served.asked[1])[0]
    assert [step.name for step in steps.all] == ["finish_task", "delegate_task"]


@pytest.mark.parametrize("passed", [True, False])
async def test_it_is_offered_only_of_a_model_that_passed(tmp_path: Path, passed: bool) -> None:
    async with delegating(tmp_path, in_order(done("")), passed=passed) as (base, _, _, _):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            offered = "delegate_task" in {tool.name for tool in (await client.list_tools()).tools}
    assert offered is passed


async def test_it_is_not_offered_where_no_model_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path, SERVERS) as (base, _, _), Client(f"{base}/mcp", mode="legacy") as client:
        assert "delegate_task" not in {tool.name for tool in (await client.list_tools()).tools}


async def test_a_model_without_an_endpoint_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="needs --agent-url"):
        async with serving(tmp_path, SERVERS, agent=ModelSettings(model="/models/small")):
            pass


@pytest.mark.parametrize("wrong", [{"agent_variant": "all"}, {"agent_limits": ("turns=none",)}])
async def test_settings_of_the_agent_that_cannot_be_meant_are_refused_at_the_start(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError):
        async with serving(tmp_path, SERVERS, **wrong):
            pass


async def test_only_what_the_agents_token_names_is_seen_and_called(tmp_path: Path) -> None:
    servers = {"open": entry("echo"), "closed": entry("echo")}
    token = TokenStore(tmp_path / "state" / "tokens.json").create("narrow", None, servers=["open"])
    closed = ("call_tool", {"tool": "closed.add", "arguments": {"a": 2, "b": 40}})
    script = in_order(("list_servers", {}), closed, done("x"))
    url = "https://tools.example.com"
    async with delegating(tmp_path, script, servers, public_url=url) as (base, _, steps, served):
        async with agent(f"{base}/mcp", token, "legacy") as client:
            await delegate(client)
    assert "closed" not in served.asked[0].body["messages"][0]["content"]
    assert "closed" not in observations(served.asked[1])[0]
    assert observations(served.asked[2])[1].startswith("[error]")
    assert [step.call for step in steps.all] == [None] * 4
    assert {step.episode.agent for step in steps.all} == {"narrow"}


async def test_each_step_is_told_as_progress(tmp_path: Path) -> None:
    told: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async with delegating(tmp_path, in_order(ADD, done("42"))) as (base, _, _, _):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            await delegate(client, progress_callback=on_progress)
    assert [number for number, _ in told] == [1, 2]
    assert (told[0][1] or "").startswith('call_tool {"tool": "tools.add"')


async def test_a_task_that_a_limit_ends_is_an_error_that_says_what_was_done(tmp_path: Path) -> None:
    async with delegating(tmp_path, in_order(ADD), agent_limits=("turns=2",)) as (base, _, steps, _):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            result = await delegate(client)
            assert [each.reason for each in steps.endings] == [EndReason.SESSION]
    assert result.is_error
    assert "not finished: it took as many turns as it may. What it did may have had effects:\n1. call_tool" in texts(
        result
    )
    assert steps.all[-1].outcome is Outcome.TOOL_ERROR


async def test_a_model_that_says_that_it_failed_is_an_error_to_the_agent(tmp_path: Path) -> None:
    script = in_order(("finish_task", {"outcome": "failed", "answer": "No such tool."}))
    async with delegating(tmp_path, script) as (base, _, _, _), Client(f"{base}/mcp", mode="legacy") as client:
        result = await delegate(client)
    assert result.is_error
    assert texts(result).startswith("The model says failed: No such tool.")


async def test_a_model_that_cannot_be_asked_is_told_as_the_gateways_trouble(tmp_path: Path) -> None:
    async with delegating(tmp_path, lambda _: failure(401, "no")) as (base, _, steps, _):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            result = await delegate(client)
            assert [each.reason for each in steps.endings] == [EndReason.SESSION] * len(steps.endings)
    assert result.is_error
    assert "does not accept the key" in texts(result)
    assert steps.all[-1].outcome is Outcome.SERVER_DOWN


async def test_a_cancelled_delegation_ends_its_task(tmp_path: Path) -> None:
    asked, over = anyio.Event(), anyio.Event()

    async def waiting(request: Asked) -> Response:
        asked.set()
        await over.wait()
        return saying("late")

    async with delegating(tmp_path, waiting) as (base, app, steps, _):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(delegate, client)
                with anyio.fail_after(20):
                    await asked.wait()
                assert len(app.service.tasks.running) == 2
                tasks.cancel_scope.cancel()
            with anyio.fail_after(20):
                while len(app.service.tasks.running) == 2:
                    await anyio.sleep(0.01)
            with anyio.fail_after(20):
                while not steps.all:
                    await anyio.sleep(0.01)
        over.set()
    assert (steps.all[0].name, steps.all[0].outcome) == ("delegate_task", Outcome.CANCELLED)


async def test_more_tasks_than_can_be_worked_are_refused_at_once(tmp_path: Path) -> None:
    over, waiting = anyio.Event(), 0

    async def answering(request: Asked) -> Response:
        nonlocal waiting
        waiting += 1
        await over.wait()
        return in_order(done("x"))(request)  # pyright: ignore[reportReturnType]

    async with delegating(tmp_path, answering) as (base, _, _, _):
        async with Client(f"{base}/mcp", mode="legacy") as client, anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(delegate, client)
            with anyio.fail_after(20):
                while waiting < 4:
                    await anyio.sleep(0.01)
            refused = await delegate(client)
            over.set()
    assert refused.is_error
    assert "4 delegated tasks are being worked" in texts(refused)


async def test_words_of_a_private_server_leave_neither_episode_with_contents(tmp_path: Path) -> None:
    servers = {"private": {**entry("echo"), "log": "metadata"}}
    call = ("call_tool", {"tool": "private.echo", "arguments": {"text": "the-merger"}})
    async with delegating(tmp_path, in_order(call, done("the-merger")), servers) as (base, _, steps, _):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            await delegate(client)
            await client.call_tool("list_servers", {})
    assert [step.name for step in steps.all] == ["call_tool", "finish_task", "delegate_task", "list_servers"]
    assert {step.level for step in steps.all} == {Level.METADATA}
    assert {each.level for each in steps.endings} == {Level.METADATA}


async def test_a_delegation_without_private_servers_in_it_is_logged_in_full(tmp_path: Path) -> None:
    servers = {**SERVERS, "private": {**entry("echo"), "log": "off"}}
    async with delegating(tmp_path, in_order(ADD, done("42")), servers) as (base, _, steps, _):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            await delegate(client)
    assert [step.name for step in steps.all] == ["call_tool", "finish_task", "delegate_task"]
    assert {step.level for step in steps.all} == {Level.FULL}


@pytest.mark.parametrize("task", ["", "  \n", "x" * 20_001])
async def test_a_task_that_says_nothing_or_too_much_is_refused(tmp_path: Path, task: str) -> None:
    async with delegating(tmp_path, in_order(done(""))) as (base, _, _, served):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            result = await client.call_tool("delegate_task", {"task": task})
    assert result.is_error
    assert served.asked == []


@pytest.mark.parametrize(("servers", "most"), [(28, 1_200), (800, 1_600)])
async def test_all_meta_tools_together_stay_within_their_tokens(tmp_path: Path, servers: int, most: int) -> None:
    catalog = write_catalog(tmp_path, invented_rows(servers=servers, tools=servers * 9))
    entries, store = stand_ins(catalog), ListingCache(tmp_path / "cache" / "listings")
    for name, listing in listings(catalog).items():
        (config,) = parse({"mcpServers": {name: entries[name]}}, {}).servers
        store.store(config.identity, listing)
    backend = ThreadBackend(language=LANGUAGE)
    async with delegating(tmp_path, in_order(done("")), entries, backend=backend) as (base, _, _, _):
        for era in ERAS:
            async with Client(f"{base}/mcp", mode=era) as client:
                tools = [
                    tool.model_dump(by_alias=True, mode="json", exclude_unset=True)
                    for tool in (await client.list_tools()).tools
                ]
                instructions = client.instructions or ""
            assert {"run_python", "delegate_task"} <= {tool["name"] for tool in tools}
            # The limit is 750; each further word of a definition is to be a decision, not an accident.
            assert by_bytes(compact(tools)) <= 740, {tool["name"]: by_bytes(compact([tool])) for tool in tools}
            assert by_bytes(compact(tools)) + by_bytes(instructions) <= most
