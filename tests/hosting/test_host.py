"""A host as whoever connects sees it: what it starts, what it refuses, and that it believes nothing it is told."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.errors import ConfigurationError, ServerDown
from proxy.hosting import host as hosts
from proxy.hosting.client import HostClient
from proxy.hosting.host import Host
from proxy.hosting.listening import listening
from proxy.hosting.messages import MAX_START_BYTES
from proxy.hosting.pipes import Pipes
from proxy.servers.config import ServerConfig, TransportKind
from proxy.servers.process import Running
from tests.lifecycle.conftest import SHORT_GRACES_S, gone, servers_of, until

pytestmark = pytest.mark.anyio

ANSWER_S = 20.0
REQUEST: dict[str, Any] = {"command": "cat", "args": [], "env": {}, "cwd": None}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for the path of a socket."""
    with tempfile.TemporaryDirectory(prefix="hosting-") as made:
        yield Path(made)


@asynccontextmanager
async def hosting(path: Path, allowed: frozenset[int] | None = None) -> AsyncGenerator[Path]:
    """A host in this process; afterwards nothing of it is left."""
    users = allowed if allowed is not None else frozenset({os.geteuid()})
    with anyio.fail_after(60):
        async with listening(path, users, None) as listener, anyio.create_task_group() as tasks:
            tasks.start_soon(Host(users, {"PATH": os.defpath, "SECRET": "x"}, SHORT_GRACES_S).serve, listener)
            yield path
            tasks.cancel_scope.cancel()
    assert servers_of(os.getpid()) == []


@contextmanager
def connected(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_S)
        connection.connect(str(path))
        yield connection


@contextmanager
def piped() -> Iterator[list[int]]:
    """The server's ends of three pipes, whose other ends nobody reads."""
    with ExitStack() as stack:
        ends = [os.pipe() for _ in range(3)]
        for end in [each for both in ends for each in both]:
            stack.callback(os.close, end)
        yield [ends[0][0], ends[1][1], ends[2][1]]


def said(connection: socket.socket) -> str:
    """All that the host says until it closes; blocks."""
    text = b""
    with suppress(ConnectionResetError):
        while data := connection.recv(65536):
            text += data
    return text.decode()


async def refusal(path: Path, content: bytes, descriptors: list[int] | None = None) -> str:
    """What the host answers to this content, sent with these descriptors, or else with three pipes."""

    def exchange() -> str:
        with connected(path) as connection, piped() as pipes:
            socket.send_fds(connection, [content[:1]], pipes if descriptors is None else descriptors)
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(content[1:])
                connection.shutdown(socket.SHUT_WR)
            return said(connection)

    return await anyio.to_thread.run_sync(exchange)


def config(command: str, *args: str, **more: Any) -> ServerConfig:
    return ServerConfig(name="one", transport=TransportKind.STDIO, command=command, args=args, **more)


def line(**changed: Any) -> bytes:
    return json.dumps({**REQUEST, **changed}).encode() + b"\n"


async def test_what_goes_in_comes_out_and_the_end_is_reported(folder: Path) -> None:
    async with hosting(folder / "s") as path:
        server = await HostClient(path).start(config("sh", "-c", "cat; echo last words >&2; exit 5"))
        big = os.urandom(300_000)
        received = b""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.stdin.send, big)
            while len(received) < len(big):
                received += await server.stdout.receive()
        assert received == big
        await server.stdin.aclose()
        await server.ended()
        assert (server.exit_code, server.lost) == (5, "")
        assert await server.stderr.receive() == b"last words\n"
        with pytest.raises(anyio.EndOfStream):
            await server.stdout.receive()
        await server.end()


async def test_a_server_gets_exactly_what_the_request_and_the_safe_base_say(folder: Path) -> None:
    async with hosting(folder / "s") as path:
        wanted = config("sh", "-c", "env; pwd", env={"with.dot": "1", "HOME": "/own"}, cwd="/")
        server = await HostClient(path).start(wanted)
        shown = b"".join([chunk async for chunk in server.stdout]).decode().splitlines()
        await server.end()
    variables = dict(each.split("=", 1) for each in shown[:-1])
    assert shown[-1] == "/"
    assert (variables["HOME"], variables["PATH"].split(":")[0]) == ("/own", os.defpath.split(":")[0])
    assert variables.keys() <= {"HOME", "PATH", "with.dot", "PWD", "OLDPWD", "SHLVL", "_"}, "SECRET is the host's own"


async def test_an_end_is_not_over_before_the_group_is_gone(folder: Path) -> None:
    async with hosting(folder / "s") as path:
        # The leader ends with its stdin, the child it leaves behind heeds neither that nor SIGTERM.
        child = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(120)"
        script = f'{sys.executable} -I -S -c "{child}" </dev/null & echo $!; cat >/dev/null'
        server = await HostClient(path).start(config("sh", "-c", script))
        text = b""
        while text.count(b"\n") < 2:
            text += await server.stdout.receive()
        pid = max(map(int, text.split()))
        await server.stdin.aclose()
        await server.ended()
        assert not gone(pid), "its end is the leader's alone"
        await server.end()
        assert gone(pid)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"x\n", "Invalid JSON"),
        (b"{}\n", "command: Field required"),
        (b"[1]\n", "request: Input should be"),
        (b'"\xff"\n', "Invalid JSON"),
        (line(command=""), "command: Value error, is empty"),
        (line(command="a\0b"), "command: Value error, has a null character"),
        (line(command=["cat"]), "command: Input should be a valid string"),
        (line(args="-n"), "args: Input should be a valid"),
        (line(args=[1]), "args.0: Input should be a valid string"),
        (line(args=["x"] * 5000), "args: Tuple should have at most 4096 items"),
        (line(env={"": "x"}), "is no name of a variable"),
        (line(env={"A=B": "x"}), "is no name of a variable"),
        (line(env={"A": "x\0"}), "has a null character"),
        (line(cwd=""), "cwd: Value error, is empty"),
        (line(uid=0), "uid: Extra inputs are not permitted"),
        (b"{" + b" " * (MAX_START_BYTES + 70_000), f"a message of more than {MAX_START_BYTES} bytes"),
    ],
)
async def test_what_is_no_request_is_refused_with_a_reason(folder: Path, content: bytes, problem: str) -> None:
    async with hosting(folder / "s") as path:
        answer = json.loads(await refusal(path, content))
        assert answer["kind"] == "refused"
        assert problem in answer["text"]
        # And the host goes on.
        assert '"started"' in await refusal(path, line())


async def test_a_refusal_quotes_no_value(folder: Path) -> None:
    async with hosting(folder / "s") as path:
        assert "hunter2" not in await refusal(path, line(env={"TOKEN": "hunter2\0"}))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300))
def test_no_bytes_whatever_start_something_or_end_the_host(content: bytes) -> None:
    async def check() -> None:
        with tempfile.TemporaryDirectory(prefix="hosting-") as folder:
            async with hosting(Path(folder) / "s") as path:
                for each in (content + b"\n", content or b"x"):
                    answer = await refusal(path, each)
                    assert "started" not in answer
                assert '"started"' in await refusal(path, line())

    anyio.run(check)


async def test_other_descriptors_than_three_pipes_are_refused(folder: Path) -> None:
    with piped() as pipes, ExitStack() as stack:
        file = os.open(os.devnull, os.O_RDONLY)
        stack.callback(os.close, file)
        wrong = [pipes[:2], pipes[::-1], [file, *pipes[1:]], [pipes[0], pipes[0], pipes[2]]]
        async with hosting(folder / "s") as path:
            for descriptors in wrong:
                assert "three pipes" in await refusal(path, line(), descriptors)

            def without_any() -> str:
                with connected(path) as connection:
                    connection.sendall(line())
                    return said(connection)

            assert "three pipes" in await anyio.to_thread.run_sync(without_any)


async def test_whoever_says_nothing_is_not_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "REQUEST_S", 0.2)
    async with hosting(folder / "s") as path:

        def silent(start: bytes) -> str:
            with connected(path) as connection, piped() as pipes:
                if start:
                    socket.send_fds(connection, [start], pipes)
                return said(connection)

        for start in (b"", b"{"):
            assert "no request came within 0.2 s" in await anyio.to_thread.run_sync(silent, start)


async def test_more_servers_than_it_can_look_after_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "MAX_SERVERS", 2)
    async with hosting(folder / "s") as path:
        servers = [await HostClient(path).start(config("cat")) for _ in range(2)]
        with pytest.raises(ServerDown, match="2 servers run here already"):
            await HostClient(path).start(config("cat"))
        await servers.pop().end()
        servers.append(await HostClient(path).start(config("cat")))
        for server in servers:
            await server.end()


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """This process can open nothing more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 20, limits[1]))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        with suppress(OSError):
            while True:
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        yield


async def test_a_host_that_can_open_nothing_more_keeps_its_servers_and_goes_on_later(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosting(folder / "s") as path:
        server = await HostClient(path).start(config("cat"))
        with socket.socket(socket.AF_UNIX) as waiting:
            with no_descriptor_left():
                waiting.connect(str(path))
                await until(lambda: "no connection can be accepted" in caplog.text)
            await (await HostClient(path).start(config("cat"))).end()
        await server.stdin.send(b"still here")
        assert await server.stdout.receive() == b"still here"
        await server.end()


async def test_whoever_speaks_after_the_request_loses_the_server(folder: Path) -> None:
    async with hosting(folder / "s") as path:

        def talkative() -> str:
            with connected(path) as connection, piped() as pipes:
                socket.send_fds(connection, [line()], pipes)
                assert b"started" in connection.recv(100)
                connection.sendall(b"signal 9\n")
                return said(connection)

        assert '"ended"' in await anyio.to_thread.run_sync(talkative)


async def test_neither_side_keeps_a_descriptor(folder: Path) -> None:
    async with hosting(folder / "s") as path:
        await (await HostClient(path).start(config("cat"))).end()
        await until(lambda: servers_of(os.getpid()) == [])
        before = psutil.Process().num_fds()
        for _ in range(3):
            await (await HostClient(path).start(config("cat"))).end()
            with pytest.raises(ServerDown):
                await HostClient(path).start(config("no-such-command"))
            await refusal(path, b"{}\n")
            await refusal(path, line(), [0, 1])
        await until(lambda: psutil.Process().num_fds() <= before, "descriptors are closed")


@pytest.mark.parametrize("ticks", range(0, 40, 3))
async def test_a_start_that_is_cancelled_in_the_middle_leaves_nothing(folder: Path, ticks: int) -> None:
    async with hosting(folder / "s") as path:
        before = psutil.Process().num_fds()
        started: list[Running] = []

        async def start() -> None:
            started.append(await HostClient(path).start(config("sleep", "60")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(start)
            for _ in range(ticks):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        for server in started:
            # On a slow machine it was there already.
            await server.end()
        await until(lambda: servers_of(os.getpid()) == [], "the server is ended")
        await until(lambda: psutil.Process().num_fds() <= before, "descriptors are closed")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "has ended"),
        (b'{"kind":"started"', "has ended"),
        (b"hello\n", "answers with something else than a host does"),
        (b'{"kind":"started","pid":1}\n', "answers with something else than a host does"),
        (b'{"kind":"ended","code":0}\n', "ended before it was started"),
        (b"x" * 70_000, "answers with something else than a host does"),
        (b'{"kind":"refused","text":"a\\u001b[31m\\nb"}\n', r"does not start it: a\S* ?b"),
    ],
)
async def test_a_host_that_is_none_is_not_believed(folder: Path, answer: bytes, problem: str) -> None:
    async def speak(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            with suppress(anyio.BrokenResourceError):
                await stream.send(answer)

    before = psutil.Process().num_fds()
    async with await anyio.create_unix_listener(folder / "s") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, speak)
        with pytest.raises(ServerDown, match=problem) as caught:
            await HostClient(folder / "s").start(config("cat"))
        assert "\x1b" not in str(caught.value)
        tasks.cancel_scope.cancel()
    assert psutil.Process().num_fds() <= before


async def test_without_a_host_it_is_said_how_to_start_one(folder: Path) -> None:
    with pytest.raises(ServerDown, match="toolatlas host-servers"):
        await HostClient(folder / "nobody").start(config("cat"))


async def test_what_no_process_can_be_given_is_said_without_its_value(folder: Path) -> None:
    client = HostClient(folder / "nobody")
    for wrong in (
        replace(config("cat"), env={"TOKEN": "hunter2\0"}),
        config("cat", "hunter2\0"),
        config("cat", "hunter2" * MAX_START_BYTES),
    ):
        with pytest.raises(ServerDown) as caught:
            await client.start(wrong)
        assert "hunter2" not in str(caught.value)
        assert "host-servers" not in str(caught.value), "it is not the host's fault"


async def test_the_socket_is_open_to_those_who_may_use_it(folder: Path) -> None:
    own, other = frozenset({os.geteuid()}), frozenset({os.geteuid() + 1})

    async def mode(allowed: frozenset[int], group: str | None) -> tuple[int, int]:
        async with listening(folder / "s", allowed, group):
            status = os.stat(folder / "s")
        return stat.S_IMODE(status.st_mode), status.st_gid

    assert await mode(own, None) == (0o600, os.getegid())
    assert await mode(other, None) == (0o666, os.getegid())
    assert await mode(other, str(os.getegid())) == (0o660, os.getegid())
    assert not (folder / "s").exists()
    with pytest.raises(ConfigurationError, match="--group"):
        await mode(own, "no such group")


async def test_one_socket_has_one_host_and_a_dead_one_is_replaced(folder: Path) -> None:
    own = frozenset({os.geteuid()})
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "s"))
    async with hosting(folder / "s"):
        with pytest.raises(ConfigurationError, match="another host listens"):
            async with listening(folder / "s", own, None):
                pass
        await (await HostClient(folder / "s").start(config("cat"))).end()
    (folder / "file").write_text("precious")
    for wrong in (folder / "file", folder / "no" / "s", folder / ("s" * 200)):
        with pytest.raises(ConfigurationError, match="cannot listen"):
            async with listening(wrong, own, None):
                pass
    assert (folder / "file").read_text() == "precious"


def test_pipes_that_were_closed_say_so_and_reach_no_other_descriptor() -> None:
    async def check() -> None:
        before = psutil.Process().num_fds()
        pipes = Pipes()
        async with anyio.create_task_group() as tasks:
            failed: list[type[BaseException]] = []

            async def wait() -> None:
                try:
                    await pipes.stdout.receive()
                except anyio.ClosedResourceError as error:
                    failed.append(type(error))

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await pipes.aclose()
        assert failed == [anyio.ClosedResourceError]
        with pytest.raises(anyio.ClosedResourceError):
            await pipes.stdin.send(b"x")
        with pipes.handed_over() as ends:
            assert all(stat.S_IMODE(os.fstat(end).st_mode) == 0o666 for end in ends)
            assert not any(fcntl.fcntl(end, fcntl.F_GETFL) & os.O_NONBLOCK for end in ends)
        assert psutil.Process().num_fds() == before

    for uvloop in (False, True):
        anyio.run(check, backend_options={"use_uvloop": uvloop})


UNDER_UVLOOP = """
import os, sys
import anyio
from proxy.servers.orphans import Orphans

async def main():
    orphans = Orphans((0.1, 0.1, 2.0))
    process = await orphans.start("sleep", ("60",), {"PATH": os.defpath}, None)
    while os.readlink(f"/proc/{process.pid}/exe").startswith(os.path.realpath(sys.executable)):
        await anyio.sleep(0.01)
    def open_now():
        return sorted(os.listdir(f"/proc/{process.pid}/fd"))
    # It opens and closes its libraries while it starts; what was left to it would stay.
    with anyio.move_on_after(20):
        while open_now() != ["0", "1", "2"]:
            await anyio.sleep(0.01)
    print(open_now())
    process.kill()
    await process.wait()
    await process.aclose()
    await orphans.ended(process)

anyio.run(main, backend_options={"use_uvloop": True})
"""


def test_no_descriptor_that_the_gateway_inherited_reaches_a_server_under_uvloop_either() -> None:
    with open(os.devnull) as inherited:
        done = subprocess.run(
            [sys.executable, "-c", UNDER_UVLOOP],
            pass_fds=(inherited.fileno(),),
            capture_output=True,
            text=True,
            timeout=40,
            cwd=Path(__file__).parents[2],
        )
    assert done.stdout.strip() == "['0', '1', '2']", done.stderr
