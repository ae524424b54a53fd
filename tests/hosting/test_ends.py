"""Whatever ends (a call, a server, the gateway, the host), nothing of a hosted server is left, and calls work again."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx2
import psutil
import pytest
from mcp import Client

from tests.fixtures.running import LOOPBACK, entry, free_port
from tests.hosting.conftest import Host, StartGateway, StartHost, gateway_process, prying_entry
from tests.lifecycle.conftest import ask, behind_a_shell, gone, until, until_now

pytestmark = pytest.mark.anyio

STUBBORN = behind_a_shell(entry("stubborn"))
REAPER = 1


@contextmanager
def nothing_left(pids: set[int]) -> Iterator[None]:
    """All these processes end after the block."""
    yield
    until_now(lambda: all(map(gone, pids)), "the processes end")


def ids(host: Host) -> set[int]:
    return {each.pid for each in host.servers()}


async def test_a_stubborn_server_with_grandchildren_is_ended_with_its_connection(
    start_host: StartHost, hosted_gateway: StartGateway
) -> None:
    with start_host() as host:
        async with hosted_gateway(host, {"stubborn": STUBBORN, "one": entry("echo")}) as running:
            async with Client(running.url, mode="legacy") as client:
                child = int(await ask(client, "stubborn.child"))
                assert child in ids(host)
                pids = ids(host)
                # The shell, the server, its child; the plain one; the reaper.
                assert len(pids) == 5
        with nothing_left(pids):
            pass
        await until(lambda: host.servers() == [], "no process waits to be collected")


async def test_kill_9_of_the_gateway_leaves_no_server(start_host: StartHost, tmp_path: Path) -> None:
    port = free_port()
    base = f"http://{LOOPBACK}:{port}"

    def answers() -> bool:
        try:
            return httpx2.get(f"{base}/healthz", timeout=5).status_code == 200
        except httpx2.TransportError:
            return False

    servers = {"stubborn": STUBBORN, "silent": entry("silent"), "one": entry("echo")}
    with start_host() as host, gateway_process(tmp_path, port, host, servers) as gateway:
        until_now(answers, "the gateway answers")
        async with Client(f"{base}/mcp", mode="legacy") as client:
            assert int(await ask(client, "stubborn.child")) in ids(host)
            await ask(client, "one.echo", text="hi")
        pids = ids(host)
        assert len(pids) == 5 + REAPER
        with nothing_left(pids):
            gateway.kill()
            gateway.wait()
        assert host.process.poll() is None, "the host serves the next gateway"


async def test_kill_9_of_the_host_leaves_no_server_and_the_next_host_starts_them_again(
    start_host: StartHost, hosted_gateway: StartGateway
) -> None:
    with start_host() as host:
        async with hosted_gateway(host, {"stubborn": STUBBORN, "one": entry("echo")}) as running:
            async with Client(running.url, mode="legacy") as client:
                assert await ask(client, "one.echo", text="hi") == "hi"
                await ask(client, "stubborn.child")
                with nothing_left(ids(host)):
                    host.process.kill()
                    host.process.wait()
                await until(lambda: running.app.gateway.pool.state("one").reason is not None, "the gateway notices")
                assert "the host of the servers at" in (running.app.gateway.pool.state("one").reason or "")
                failed = await client.call_tool("call_tool", {"tool": "one.echo", "arguments": {"text": "hi"}})
                assert failed.is_error
                assert "start it with `toolatlas host-servers`" in str(failed.content)
                with start_host() as again:
                    assert await until_answered(client, "one.echo", text="back") == "back"
                    child = int(await until_answered(client, "stubborn.child"))
                    assert child in ids(again)


async def test_a_call_in_flight_fails_when_the_host_is_killed_and_says_so(
    start_host: StartHost, hosted_gateway: StartGateway
) -> None:
    with start_host() as host:
        async with hosted_gateway(host, {"one": entry("echo")}) as running:
            async with Client(running.url, mode="legacy") as client, anyio.create_task_group() as tasks:
                (server,) = [each for each in host.servers() if "plain.py" in " ".join(each.cmdline())]
                outcome: list[str] = []

                async def call() -> None:
                    arguments = {"tool": "one.silent_slow", "arguments": {"seconds": 60}}
                    outcome.append(str((await client.call_tool("call_tool", arguments)).content))

                tasks.start_soon(call)
                # A thread of its own sleeps in the server once the call has arrived.
                await until(lambda: server.num_threads() > 1, "the call arrives")
                host.process.kill()
                host.process.wait()
                await until(lambda: bool(outcome), "the call ends")
    assert "the host of the servers at" in outcome[0]
    assert "whether the call took effect is not known" in outcome[0]


async def test_a_host_that_is_told_to_end_lets_its_servers_end_in_peace(
    start_host: StartHost, hosted_gateway: StartGateway
) -> None:
    with start_host() as host:
        async with hosted_gateway(host, {"one": entry("echo"), "stubborn": STUBBORN}) as running:
            async with Client(running.url, mode="legacy") as client:
                await ask(client, "stubborn.child")
            with nothing_left(ids(host)):
                host.process.terminate()
                await until(lambda: host.process.poll() is not None, "the host ends")
            assert host.process.returncode == 0
            assert not host.socket.exists()
            log = host.log.read_text()
            assert "has ended with code 0" in log, "the plain one saw the end of its stdin"


async def test_a_server_that_exits_is_quoted(start_host: StartHost, hosted_gateway: StartGateway) -> None:
    with start_host() as host:
        async with hosted_gateway(host, {"exits": entry("exits")}) as running:
            reason = running.app.gateway.pool.state("exits").reason or ""
    assert "exited with code 1" in reason
    assert "fatal: API_TOKEN is not set" in reason


async def test_a_command_that_is_not_there_is_said_with_the_place_where_it_is_missing(
    start_host: StartHost, hosted_gateway: StartGateway
) -> None:
    nowhere = {**entry("echo"), "cwd": "/no/such/folder"}
    with start_host() as host:
        async with hosted_gateway(host, {"no": {"command": "no-such-command"}, "nowhere": nowhere}) as running:
            reasons = {name: running.app.gateway.pool.state(name).reason or "" for name in ("no", "nowhere")}
        await until(lambda: host.servers() == [])
    assert "where it runs there is no such command or folder: 'no-such-command'" in reasons["no"]
    assert "'/no/such/folder'" in reasons["nowhere"]


async def test_a_folder_that_the_servers_user_may_not_enter_is_said(
    start_host: StartHost, hosted_gateway: StartGateway, tmp_path: Path
) -> None:
    with start_host() as host:
        async with hosted_gateway(host, {"closed": {**entry("echo"), "cwd": str(tmp_path)}}) as running:
            assert "Permission denied" in (running.app.gateway.pool.state("closed").reason or "")


async def test_twenty_servers_at_once_answer_and_end(start_host: StartHost, hosted_gateway: StartGateway) -> None:
    servers = {f"s{number}": prying_entry(NUMBER=str(number)) for number in range(20)}
    with start_host() as host:
        before = psutil.Process().num_fds()
        async with hosted_gateway(host, servers) as running:
            assert len(host.servers()) == 20 + REAPER
            numbers: dict[int, str] = {}
            async with Client(running.url, mode="legacy") as client, anyio.create_task_group() as tasks:

                async def ask_one(number: int) -> None:
                    numbers[number] = json.loads(await ask(client, f"s{number}.variables"))["NUMBER"]

                for number in range(20):
                    tasks.start_soon(ask_one, number)
            assert numbers == {number: str(number) for number in range(20)}
        await until(lambda: host.servers() == [], "all servers and the reaper are gone")
        await until(lambda: psutil.Process().num_fds() <= before, "the gateway's descriptors are closed")


async def test_no_descriptor_is_left_on_either_side_by_starts_and_failed_starts(
    start_host: StartHost, hosted_gateway: StartGateway
) -> None:
    fleeting = {**entry("echo"), "idle_s": 0.2}
    with start_host() as host:
        async with hosted_gateway(host, {"one": fleeting, "no": {"command": "no-such-command"}}) as running:
            daemon = psutil.Process(host.process.pid)
            async with Client(running.url, mode="legacy") as client:
                await until(lambda: host.servers() == [], "the idle server is ended")
                ours, theirs = psutil.Process().num_fds(), daemon.num_fds()
                for _ in range(5):
                    assert await ask(client, "one.echo", text="again") == "again"
                    await until(lambda: host.servers() == [], "the idle server is ended")
                await until(lambda: psutil.Process().num_fds() <= ours, "our descriptors are closed")
                await until(lambda: daemon.num_fds() <= theirs, "the host's descriptors are closed")


async def test_a_host_that_was_stopped_in_the_middle_does_not_hang_the_end_of_the_gateway(
    start_host: StartHost, hosted_gateway: StartGateway
) -> None:
    with start_host() as host:
        pids: set[int] = set()
        try:
            async with hosted_gateway(host, {"one": entry("echo")}) as running:
                assert running.app.gateway.pool.state("one").reason is None
                pids = ids(host)
                os.kill(host.process.pid, signal.SIGSTOP)
        finally:
            os.kill(host.process.pid, signal.SIGCONT)
        with nothing_left(pids):
            pass


async def until_answered(client: Client, tool: str, **arguments: object) -> str:
    """Call until it works: the gateway tries a server that is down no more often than its back-off allows."""
    with anyio.fail_after(20):
        while True:
            result = await client.call_tool("call_tool", {"tool": tool, "arguments": arguments})
            if not result.is_error:
                return result.content[0].text  # type: ignore[union-attr]
            await anyio.sleep(0.1)
