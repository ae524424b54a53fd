"""Many agents, refreshes and notices: what they leave behind, and that one bad server does not hold up the rest."""

from __future__ import annotations

import gc
import os
from typing import Any

import anyio
import anyio.lowlevel
import psutil
import pytest
from mcp import Client
from mcp.server.streamable_http import StreamableHTTPServerTransport

from bench.lean import Era, HttpWire, LeanClient
from proxy.servers.configfile import parse
from proxy.servers.supervisor import Phase
from proxy.tasks import Task
from tests.fixtures.running import entry, modern_entry, mute_server
from tests.fixtures.sessions import Sessions
from tests.lifecycle.conftest import ERAS, LIMIT_S, StartGateway, ask, behind_a_shell, gone, serving, until

pytestmark = pytest.mark.anyio


def alive(kind: type) -> int:
    """How many objects of a class there are."""
    gc.collect()
    return sum(type(each) is kind for each in gc.get_objects())


FEW = 4
"""What the last requests keep alive until the next ones come."""


async def test_200_agents_are_there_at_once_leave_and_leave_nothing(gateway: StartGateway) -> None:
    async with gateway({"one": entry("echo")}) as running:
        here, all_here = set[int](), anyio.Event()

        async def agent(number: int, crowd: int) -> None:
            era = (Era.SESSION, Era.STATELESS)[number % 2]
            wire = HttpWire(running.url, again=False)
            client = LeanClient(wire, era)
            try:
                await client.open()
                mark = f"agent {number}"
                result = await client.call("call_tool", {"tool": "one.echo", "arguments": {"text": mark}})
                assert result["content"][0]["text"] == mark
                here.add(number)
                if len(here) == crowd:
                    all_here.set()
                await all_here.wait()
                if era is Era.STATELESS:
                    await client.call("finish_task", {"outcome": "done", "task_id": task_of(result)})
                await wire.leave()
            finally:
                wire.close()

        async def come_and_go(crowd: int) -> int:
            nonlocal all_here
            here.clear()
            all_here = anyio.Event()
            most = 0
            with anyio.fail_after(2 * LIMIT_S):
                async with anyio.create_task_group() as agents:
                    for number in range(crowd):
                        agents.start_soon(agent, number, crowd)
                    await all_here.wait()
                    most = alive(StreamableHTTPServerTransport)
            return most

        await come_and_go(2)
        process = psutil.Process()
        sessions, tasks, descriptors = alive(StreamableHTTPServerTransport), alive(Task), process.num_fds()
        assert await come_and_go(200) >= 100
        assert len(running.children()) == 1
        await until(lambda: alive(StreamableHTTPServerTransport) <= sessions + FEW, "sessions are gone")
        await until(lambda: alive(Task) <= tasks + FEW, "tasks are over")
        await until(lambda: process.num_fds() <= descriptors, "connections are closed")


def task_of(result: dict[str, Any]) -> str:
    return result["_meta"]["toolatlas/task_id"]


async def test_agents_that_vanish_without_a_goodbye_are_forgotten_when_idle(gateway: StartGateway) -> None:
    """The task of an agent without sessions ends when nobody carries it on."""
    before = alive(Task)
    async with gateway({"one": entry("echo")}, task_idle_s=0.2) as running:
        async with Client(running.url) as client:
            for _ in range(30):
                await client.call_tool("list_servers", {})
            await anyio.sleep(0.3)
            # Idle ones go when the next comes.
            await client.call_tool("list_servers", {})
            assert alive(Task) <= before + FEW


@pytest.mark.usefixtures("short_graces")
async def test_ten_agents_with_twenty_calls_each_to_a_stubborn_server_of_their_own(gateway: StartGateway) -> None:
    stubborn = behind_a_shell(entry("stubborn")) | {"isolation": "session"}
    async with gateway({"stubborn": stubborn}) as running:
        before, pids = len(running.children()), set[int]()

        async def agent() -> None:
            async with Client(running.url, mode="legacy") as client:
                for count in range(1, 20):
                    assert await ask(client, "stubborn.counter") == str(count)
                pids.add(int(await ask(client, "stubborn.child")))

        with anyio.fail_after(2 * LIMIT_S):
            async with anyio.create_task_group() as agents:
                for _ in range(10):
                    agents.start_soon(agent)
        assert len(pids) == 10
        await until(lambda: len(running.children()) <= before, "process count is back, nothing is defunct")
        await until(lambda: all(map(gone, pids)), "their children are gone")


async def test_50_refreshes_keep_one_session_and_one_process_for_each_server(gateway: StartGateway) -> None:
    server = Sessions()
    async with serving(server) as base:
        servers = {"srv": {"url": f"{base}/mcp"}, "one": entry("echo"), "two": entry("grows")}
        async with gateway(servers) as running:
            for _ in range(50):
                for name in servers:
                    await running.app.gateway.pool.refresh(name)
            assert (server.opened, len(server.open)) == (1, 1)
            assert len(running.children()) == 2
        await until(lambda: not server.open, "the session is ended with the gateway")


async def test_a_storm_of_notices_costs_few_listings_and_few_notices_to_agents(gateway: StartGateway) -> None:
    told: list[str] = []

    async def note(message: Any) -> None:
        told.append(type(message).__name__)

    async with gateway({"srv": entry("grows", STORM="1000")}) as running:
        async with Client(f"{running.url}/srv", mode="legacy", message_handler=note) as client:
            before = int((await client.call_tool("listings", {})).content[0].text)
            for _ in range(3):
                await client.call_tool("grow", {})
            await until(lambda: len(running.app.gateway.catalog.tools) >= 19, "all three are known")

            async def listings() -> int:
                return int((await client.call_tool("listings", {})).content[0].text)

            # Quiet when two looks in a row, one debounce apart, see the same.
            seen = await listings()
            while True:
                await anyio.sleep(0.5)
                if seen == (seen := await listings()):
                    break
            assert 1 <= seen - before <= 8
            assert {tool.name for tool in (await client.list_tools()).tools} >= {"grown_1", "grown_2", "grown_3"}
            notices = [name for name in told if name == "ToolListChangedNotification"]
            assert 1 <= len(notices) <= 8


@ERAS
async def test_servers_that_never_answer_do_not_hold_up_the_others(gateway: StartGateway, era: str) -> None:
    async with mute_server() as mute:
        servers = {
            "mute": {"url": mute},
            "sleeper": entry("slow_start", SECONDS="20"),
            **{f"good{number}": entry("echo") for number in range(3)},
        }
        async with gateway(servers, listed=False) as running:
            async with Client(running.url, mode=era) as client:
                # Neither of the two has answered when all of this has been.
                instructions = client.instructions or ""
                assert all(name in instructions for name in servers)
                assert len((await client.list_tools()).tools) >= 7
                assert await ask(client, "good0.echo", text="hi") == "hi"
                listed = (await client.call_tool("list_servers", {})).content[0].text
                assert all(name in listed for name in servers)
                found = (await client.call_tool("search_tools", {"query": "echo text"})).content[0].text
                assert "good0.echo" in found
                pool = running.app.gateway.pool
                assert pool.state("sleeper").phase is Phase.STARTING
                assert pool.state("mute").phase is Phase.STARTING


async def test_reload_under_load_loses_no_call(gateway: StartGateway) -> None:
    """Calls in flight on servers whose entry did not change end as if nothing had happened."""
    async with gateway({"one": entry("echo"), "two": entry("echo")}) as running:
        done, answers = anyio.Event(), list[str]()

        async def agent(era: str, number: int) -> None:
            async with Client(running.url, mode=era) as client:
                count = 0
                while not done.is_set():
                    count += 1
                    text = f"{era} {number} {count}"
                    assert await ask(client, "one.echo", text=text) == text
                    answers.append(text)

        async def whoami() -> str:
            async with Client(running.url, mode="legacy") as client:
                return await ask(client, "one.whoami")

        slow: list[str] = []

        async def slow_agent() -> None:
            async with Client(running.url, mode="legacy") as client:
                slow.append(await ask(client, "one.slow", seconds=1.5))

        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as agents:
                agents.start_soon(slow_agent)
                for number in range(5):
                    agents.start_soon(agent, "legacy", number)
                    agents.start_soon(agent, "auto", number)
                process = await whoami()
                for turn in range(10):
                    changed = {
                        "one": entry("echo") | {"description": f"turn {turn}"},
                        "two": entry("echo", TURN=str(turn)),
                        f"new{turn}": entry("echo"),
                    }
                    enough = len(answers) + 20
                    await running.app.gateway.apply(parse({"mcpServers": changed}, os.environ))
                    await until(lambda enough=enough: len(answers) >= enough, "calls go on")
                await until(lambda: bool(slow), "the slow one ends")
                done.set()
            assert await whoami() == process
        assert slow == ["slept 1.5 s"]
        await until(lambda: len(running.children()) <= 3, "servers that are configured no more are gone")


@pytest.mark.parametrize("server", [entry("echo"), modern_entry()], ids=["initialize era", "both eras"])
async def test_agents_of_both_eras_share_one_stdio_server_at_the_same_time(
    gateway: StartGateway, server: dict[str, Any]
) -> None:
    async with gateway({"srv": server}) as running:
        async with Client(running.url, mode="legacy") as old, Client(running.url) as new:
            together, begun, answers = anyio.Event(), set[str](), dict[str, str]()

            async def call(client: Client, name: str) -> None:
                async def note(progress: float, total: float | None, message: str | None) -> None:
                    begun.add(name)
                    if len(begun) == 2:
                        together.set()
                    await together.wait()

                arguments = {"tool": "srv.slow", "arguments": {"seconds": 0.2}}
                result = await client.call_tool("call_tool", arguments, progress_callback=note)
                answers[name] = result.content[0].text

            with anyio.fail_after(LIMIT_S):
                async with anyio.create_task_group() as calling:
                    calling.start_soon(call, old, "old")
                    calling.start_soon(call, new, "new")
            assert answers == {"old": "slept 0.2 s", "new": "slept 0.2 s"}
            assert len(running.children()) == 1


async def test_a_stateful_server_of_its_own_counts_for_each_agent(gateway: StartGateway) -> None:
    servers = {"own": entry("echo") | {"isolation": "session"}, "shared": entry("echo")}
    async with gateway(servers) as running:
        async with Client(running.url, mode="legacy") as a, Client(running.url, mode="legacy") as b:
            seen = [await ask(client, "own.counter") for client in (a, a, b, a, b)]
            assert seen == ["1", "2", "1", "3", "2"]
            assert [await ask(client, "shared.counter") for client in (a, b)] == ["1", "2"]
