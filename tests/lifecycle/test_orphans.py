"""No server outlives the gateway: not a stubborn one with grandchildren, not after kill -9, not in a first instant."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import psutil
import pytest
from anyio.abc import Process
from mcp import Client

from proxy.servers.orphans import Orphans
from proxy.servers.process import GRACES_S, LastWords, child_environment, stdio_process
from tests.fixtures.running import entry
from tests.lifecycle.conftest import (
    SHORT_GRACES_S,
    StartGateway,
    StartProcess,
    ask,
    behind_a_shell,
    gone,
    servers_of,
    until,
    until_now,
)

pytestmark = pytest.mark.anyio

STUBBORN = behind_a_shell(entry("stubborn"))


@contextmanager
def nothing_left(pids: set[int]) -> Iterator[None]:
    """All these processes end after the block; killed if they do not."""
    try:
        yield
        until_now(lambda: all(map(gone, pids)), "the processes end")
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
async def orphans() -> AsyncGenerator[Orphans]:
    orphans = Orphans(SHORT_GRACES_S)
    with anyio.fail_after(60):
        yield orphans
    left = servers_of(os.getpid())
    for process in left:
        # A test that failed half way must not spoil the next one, which counts the processes.
        process.kill()
    assert not left, "servers are left"
    assert orphans.reaper_pid is None, "the reaper is left, though no server is"


async def started(orphans: Orphans, scenario: str = "stubborn") -> Process:
    server = entry(scenario)
    return await orphans.start(server["command"], tuple(server["args"]), child_environment({}, os.environ), None)


async def end(orphans: Orphans, process: Process) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    await until(lambda: process.returncode is not None)
    await process.aclose()
    await orphans.ended(process)


async def test_nothing_is_left_after_kill_9_of_the_gateway(gateway_process: StartProcess) -> None:
    with gateway_process({"stubborn": STUBBORN, "one": entry("echo"), "silent": entry("silent")}) as gateway:
        async with Client(gateway.url, mode="legacy") as client:
            child = int(await ask(client, "stubborn.child"))
            await ask(client, "one.echo", text="hi")
        everything = {each.pid for each in psutil.Process(gateway.process.pid).children(recursive=True)}
        # The shell, the server, its child; two plain ones; the reaper; the writer of the log.
        assert len(everything) == 7
        assert child in everything
        with nothing_left(everything):
            gateway.process.kill()
            gateway.process.wait()


KILLED_AT_ONCE = """
import os, signal, sys
import anyio
from proxy.servers.orphans import Orphans

opened = anyio.open_process
async def killed_as_soon_as_it_has_started_a_process(*args, **options):
    process = await opened(*args, **options)
    print(process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
anyio.open_process = killed_as_soon_as_it_has_started_a_process
anyio.run(Orphans((0.1, 0.1, 2.0)).start, sys.argv[1], tuple(sys.argv[2:]), dict(os.environ), None)
"""


async def test_nothing_is_left_when_the_gateway_is_killed_in_the_instant_of_a_start() -> None:
    server = entry("stubborn")
    command = [sys.executable, "-c", KILLED_AT_ONCE, server["command"], *server["args"]]
    done = await anyio.to_thread.run_sync(
        lambda: subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=Path(__file__).parents[2])
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    with nothing_left({int(done.stdout)}):
        pass


async def test_the_reaper_lives_as_long_as_there_are_servers(orphans: Orphans) -> None:
    first, second = await started(orphans), await started(orphans, "echo")
    reaper = orphans.reaper_pid
    assert reaper is not None
    await end(orphans, first)
    assert orphans.reaper_pid == reaper
    await end(orphans, second)
    assert orphans.reaper_pid is None
    assert gone(reaper)


async def test_a_reaper_that_was_killed_is_replaced_by_one_that_knows_the_servers(orphans: Orphans) -> None:
    first = await started(orphans)
    assert orphans.reaper_pid is not None
    os.kill(orphans.reaper_pid, signal.SIGKILL)
    await until(lambda: gone(orphans.reaper_pid or 0))
    second = await started(orphans)
    # As if this process were killed: the only other end of the pipe closes.
    os.close(orphans._pipe)
    await until(lambda: first.returncode is not None and second.returncode is not None, "both servers are ended")
    orphans._pipe = os.open(os.devnull, os.O_WRONLY)
    for process in (first, second):
        await process.aclose()
        await orphans.ended(process)


async def test_the_reaper_does_not_heed_signals_that_reach_the_whole_service(orphans: Orphans) -> None:
    process = await started(orphans)
    assert orphans.reaper_pid is not None
    reaper = psutil.Process(orphans.reaper_pid)
    # It ignores them once it has read its first line.
    await until(lambda: reaper.num_threads() == 1 and ignores(reaper.pid, signal.SIGTERM))
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        reaper.send_signal(sign)
    assert os.getsid(reaper.pid) == reaper.pid
    await end(orphans, process)
    assert gone(reaper.pid)


def ignores(pid: int, sign: signal.Signals) -> bool:
    """Whether a process ignores a signal (Linux)."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn:")]
    return bool(int(line.split()[1], 16) >> (sign - 1) & 1)


async def test_a_command_that_is_not_there_is_said_as_without_a_launcher(orphans: Orphans) -> None:
    for command in ("no-such-command", "/no/such/command"):
        with pytest.raises(FileNotFoundError, match=command):
            await orphans.start(command, (), {"PATH": os.defpath}, None)
    with pytest.raises(PermissionError):
        await orphans.start(__file__, (), {}, None)
    with pytest.raises(FileNotFoundError, match="no/such/folder"):
        await orphans.start("true", (), {"PATH": os.defpath}, "/no/such/folder")


async def test_a_server_gets_exactly_its_environment_and_the_default_signals(orphans: Orphans) -> None:
    shown = "import json, os, signal; print(json.dumps([dict(os.environ), os.getpid() == os.getpgid(0)]))"
    # `env` shows what it was given; an interpreter would add to it.
    given = {"PATH": os.defpath, "with.dot": "1"}
    process = await orphans.start("env", (), given, None)
    assert process.stdout
    lines = b"".join([chunk async for chunk in process.stdout]).decode().splitlines()
    assert dict(line.split("=", 1) for line in lines) == given
    await orphans.ended(process)
    await process.wait()
    process = await orphans.start(sys.executable, ("-I", "-S", "-c", shown), given, None)
    assert process.stdout
    _, leads = json.loads(b"".join([chunk async for chunk in process.stdout]))
    assert leads
    await process.wait()
    await orphans.ended(process)
    process = await orphans.start("sleep", ("60",), given, None)
    assert not ignores(process.pid, signal.SIGPIPE)
    await end(orphans, process)


async def test_no_descriptor_is_left_over_by_a_start(orphans: Orphans) -> None:
    before = psutil.Process().num_fds()
    for _ in range(3):
        await end(orphans, await started(orphans, "echo"))
        with pytest.raises(FileNotFoundError):
            await orphans.start("no-such-command", (), {"PATH": os.defpath}, None)
    await until(lambda: psutil.Process().num_fds() <= before, "descriptors are closed")


async def test_a_server_has_no_descriptor_of_the_gateway(orphans: Orphans) -> None:
    process = await started(orphans, "echo")
    server = psutil.Process(process.pid)
    # It opens and closes its own modules while it starts; what the gateway left to it would stay.
    await until(lambda: server.num_fds() == 3, "the server has its three standard streams and nothing else")
    await end(orphans, process)


@pytest.mark.usefixtures("short_graces")
async def test_ended_in_the_usual_way_the_group_is_gone_and_the_reaper_with_it(orphans: Orphans) -> None:
    last_words, environment = LastWords(), child_environment({}, os.environ)
    async with stdio_process(
        STUBBORN["command"], tuple(STUBBORN["args"]), env=environment, cwd=None, last_words=last_words, orphans=orphans
    ):
        assert orphans.reaper_pid is not None
        await until(lambda: len(servers_of(os.getpid())) == 3, "the shell, the server and its child")
        pids = {each.pid for each in servers_of(os.getpid())}
    assert all(map(gone, pids))


@pytest.mark.usefixtures("short_graces")
async def test_a_stubborn_group_is_gone_after_idleness_and_no_process_is_left_defunct(gateway: StartGateway) -> None:
    async with gateway({"stubborn": {**STUBBORN, "idle_s": 0.3}}) as running:
        async with Client(running.url, mode="legacy") as client:
            child = int(await ask(client, "stubborn.child"))
            await until(lambda: not running.children() and gone(child), "the idle group is ended and collected")
            # And it is there again for the next call.
            assert await ask(client, "stubborn.echo", text="again") == "again"


async def test_a_stubborn_group_is_gone_after_its_entry_was_taken_away(gateway_process: StartProcess) -> None:
    with gateway_process({"stubborn": STUBBORN, "one": entry("echo")}) as gateway:
        async with Client(gateway.url, mode="legacy") as client:
            child = int(await ask(client, "stubborn.child"))
            assert await ask(client, "one.echo", text="hi") == "hi"
            gateway.configure({"one": entry("echo")})
            await until(lambda: len(servers_of(gateway.process.pid)) == 1, "only the other server is left")
            await until(lambda: gone(child), "the shell's grandchild is gone too")
            assert await ask(client, "one.echo", text="hi") == "hi"


@pytest.mark.usefixtures("short_graces")
async def test_a_stubborn_group_of_a_session_is_gone_after_its_agent_left(gateway: StartGateway) -> None:
    async with gateway({"stubborn": {**STUBBORN, "isolation": "session"}}) as running:
        shared = len(running.children())
        async with Client(running.url, mode="legacy") as client:
            child = int(await ask(client, "stubborn.child"))
            assert len(running.children()) == shared + 3
        await until(lambda: len(running.children()) == shared, "the session's group is ended and collected")
        await until(lambda: gone(child), "the shell's grandchild is gone too")


def test_the_graces_of_the_reaper_are_those_of_an_ordinary_end() -> None:
    assert len(GRACES_S) == 3
    assert sum(GRACES_S) < 10, "whoever ends a container waits ten seconds"
