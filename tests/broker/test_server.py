"""The broker's socket with containers that only echo: who may say what, when, and how much there may be of it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from proxy.broker import lease, server
from proxy.broker.client import BrokerSource
from proxy.broker.listening import listening
from proxy.broker.server import Broker
from proxy.errors import SandboxBusy, SandboxError
from proxy.sandbox.source import State
from tests.broker.running import Echoes, at_its_end, echo_broker, reply, say, short_folder
from tests.sandbox.conftest import until

pytestmark = pytest.mark.anyio

SOON = 0.2


async def in_thread(call: Callable[..., Any], *arguments: Any) -> Any:
    return await anyio.to_thread.run_sync(call, *arguments)


async def opened(path: Path) -> tuple[str, socket.socket]:
    answer, keeper = await in_thread(say, path, b"open\n")
    return answer["id"], keeper


async def attached(path: Path, id: str) -> socket.socket:
    answer, streams = await in_thread(say, path, f"attach {id}\n".encode())
    assert answer == {"attached": True}
    return streams


async def refusal(path: Path, request: bytes) -> str:
    """Of a connection that is then at its end."""
    answer, connected = await in_thread(say, path, request)
    with connected:
        assert set(answer) == {"error", "busy"}
        assert await in_thread(at_its_end, connected)
    return answer["error"]


async def test_a_container_is_opened_attached_and_closed() -> None:
    echoes = Echoes()
    async with echo_broker(echoes) as path:
        id, keeper = await opened(path)
        assert id not in echoes.started
        with keeper, await attached(path, id) as streams:
            await in_thread(streams.sendall, b"to and fro")
            assert await in_thread(streams.recv, 100) == b"to and fro"
            await in_thread(keeper.sendall, f"close {id}\n".encode())
            assert await in_thread(reply, keeper) == {"ended": None}
            assert await in_thread(at_its_end, keeper)
            assert await in_thread(at_its_end, streams)
        assert echoes.removed == echoes.started


async def test_a_container_that_ended_by_itself_is_told_with_its_close() -> None:
    async with echo_broker(Echoes()) as path:
        source = BrokerSource(path)
        async with source.running():
            started = await source.start()
            with closing(started):
                await in_thread(started.socket.sendall, b"\0")
                assert await in_thread(at_its_end, started.socket)
            assert await source.fate(started.id) == State(running=False, out_of_memory=True, exit_code=137)
            assert await source.fate(started.id) is None
            await source.remove(started.id)


async def test_the_end_of_a_container_is_passed_on_before_it_is_known_how_it_ended() -> None:
    echoes = Echoes()
    echoes.fate_known = anyio.Event()
    async with echo_broker(echoes) as path:
        id, keeper = await opened(path)
        with keeper, await attached(path, id) as streams:
            await in_thread(streams.sendall, b"\0")
            assert await in_thread(at_its_end, streams)
            await in_thread(keeper.sendall, f"close {id}\n".encode())
            echoes.fate_known.set()
            assert (await in_thread(reply, keeper))["ended"]["exit_code"] == 137


async def test_nothing_is_kept_of_containers_that_were() -> None:
    with short_folder() as folder, listening(folder / "b.sock", None) as listener:
        broker = Broker(Echoes(), most=1, users=frozenset({os.geteuid()}))
        source = BrokerSource(folder / "b.sock")
        async with anyio.create_task_group() as tasks, source.running():
            tasks.start_soon(broker.serve, listener)
            for _ in range(3):
                started = await source.start()
                assert len(broker._leases) == 1
                started.close()
                await source.remove(started.id)
            await until(lambda: (broker._leases, broker._connections) == ({}, 0), "all is forgotten")
            tasks.cancel_scope.cancel()


async def test_what_was_said_before_the_end_is_delivered() -> None:
    async with echo_broker(Echoes()) as path:
        id, keeper = await opened(path)
        with keeper, await attached(path, id) as streams:
            await in_thread(streams.sendall, b"x" * 100_000)
            await in_thread(streams.sendall, b"\0")
            received = b""
            while part := await in_thread(streams.recv, 65536):
                received += part
            assert received == b"x" * 100_000


async def test_one_connection_attaches_and_no_other() -> None:
    async with echo_broker(Echoes()) as path:
        id, keeper = await opened(path)
        with keeper:
            with await attached(path, id):
                assert "nothing to attach" in await refusal(path, f"attach {id}\n".encode())
            assert "nothing to attach" in await refusal(path, f"attach {id}\n".encode())


async def test_the_end_of_either_connection_is_the_end_of_the_container() -> None:
    echoes = Echoes()
    async with echo_broker(echoes) as path:
        id, keeper = await opened(path)
        with await attached(path, id) as streams:
            keeper.close()
            assert await in_thread(at_its_end, streams)
        await until(lambda: echoes.removed == echoes.started, "it is removed")
        assert "nothing to attach" in await refusal(path, f"attach {id}\n".encode())


@pytest.mark.parametrize("verb", ["attach", "close"])
async def test_a_container_of_another_cannot_be_named(verb: str) -> None:
    echoes = Echoes()
    async with echo_broker(echoes) as path:
        first, keeper = await opened(path)
        second, other = await opened(path)
        with keeper, other, await attached(path, first):
            # Not on a connection of its own, nor on that of another container; nor by the engine's name.
            for name in (first, echoes.started[0], "f" * 64):
                assert f"nothing to {verb}" in await refusal(path, f"{verb} {name}\n".encode())
            await in_thread(other.sendall, f"{verb} {first}\n".encode())
            assert f"nothing to {verb}" in (await in_thread(reply, other))["error"]
            assert await in_thread(at_its_end, other)
            await until(lambda: echoes.removed == [echoes.started[1]], "only its own container is removed")
        assert second != first


@pytest.mark.parametrize("request_", [b"open\n", b"attach " + b"0" * 64 + b"\n", b"exec\n", b"x" * 200 + b"\n"])
async def test_a_connection_that_keeps_a_container_says_nothing_but_its_close(request_: bytes) -> None:
    echoes = Echoes()
    async with echo_broker(echoes) as path:
        id, keeper = await opened(path)
        with keeper, await attached(path, id) as streams:
            await in_thread(keeper.sendall, request_)
            assert "error" in await in_thread(reply, keeper)
            assert await in_thread(at_its_end, streams)
        await until(lambda: echoes.removed == echoes.started, "it is removed")
        assert len(echoes.started) == 1


async def test_nothing_is_read_behind_a_request_before_its_reply() -> None:
    echoes = Echoes()
    async with echo_broker(echoes) as path:
        for request in (b"open\nopen\n", b"open\n\n", b"open\nclose " + b"0" * 60):
            assert "only be sent after the reply" in await refusal(path, request)
        assert echoes.started == []


async def test_half_a_request_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "FIRST_REQUEST_S", SOON)
    echoes = Echoes()
    async with echo_broker(echoes) as path:
        assert "no request came" in await refusal(path, b"")
        assert "no request came" in await refusal(path, b"open")
        with socket.socket(socket.AF_UNIX) as gone:
            await in_thread(gone.connect, str(path))
            gone.send(b"open")
        assert echoes.started == []
        _, keeper = await opened(path)
        keeper.close()
        await until(lambda: echoes.removed == echoes.started, "it still serves")


async def test_a_container_that_nobody_attaches_to_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "ATTACH_S", SOON)
    echoes = Echoes()
    async with echo_broker(echoes) as path:
        _, keeper = await opened(path)
        with keeper:
            assert "nobody attached" in (await in_thread(reply, keeper))["error"]
            assert await in_thread(at_its_end, keeper)
        assert echoes.removed == echoes.started
        # And one that has been attached to stays.
        id, keeper = await opened(path)
        with keeper, await attached(path, id) as streams:
            await anyio.sleep(2 * SOON)
            await in_thread(streams.sendall, b"still here")
            assert await in_thread(streams.recv, 100) == b"still here"


async def test_there_are_so_many_containers_and_no_more() -> None:
    echoes = Echoes()
    async with echo_broker(echoes, most=2) as path:
        source = BrokerSource(path)
        async with source.running():
            held = [await source.start(), await source.start()]
            with pytest.raises(SandboxBusy, match="all 2 containers of the broker are in use"):
                await source.start()
            assert len(echoes.started) == 2
            await source.remove(held[0].id)
            held.append(await source.start())
            for each in held:
                each.close()


async def test_there_are_so_many_connections_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STRANGERS", 3)
    async with echo_broker(Echoes(), most=1) as path:
        with ExitStack() as held:
            for _ in range(5):
                idle = held.enter_context(socket.socket(socket.AF_UNIX))
                await in_thread(idle.connect, str(path))
            assert "too many connections" in await refusal(path, b"open\n")
        _, keeper = await opened_when_there_is_room(path)
        keeper.close()


async def opened_when_there_is_room(path: Path) -> tuple[str, socket.socket]:
    """The broker notices the end of connections a moment after their other side."""
    with anyio.fail_after(10):
        while True:
            answer, keeper = await in_thread(say, path, b"open\n")
            if "id" in answer:
                return answer["id"], keeper
            keeper.close()


async def test_a_slow_reader_holds_up_itself_alone() -> None:
    async with echo_broker(Echoes()) as path:
        slow_id, slow_keeper = await opened(path)
        quick_id, quick_keeper = await opened(path)
        with slow_keeper, quick_keeper, await attached(path, slow_id) as slow, await attached(path, quick_id) as quick:
            slow.settimeout(1.0)
            sent = 0
            with suppress(TimeoutError):
                while sent < 64 * 2**20:
                    sent += await in_thread(slow.send, b"s" * 65536)
            assert sent < 16 * 2**20, "it is kept somewhere"
            await in_thread(quick.sendall, b"quick")
            assert await in_thread(quick.recv, 100) == b"quick"
            received = 0
            while received < sent:
                received += len(await in_thread(slow.recv, 65536))
            assert received == sent


async def test_another_user_is_refused() -> None:
    echoes = Echoes()
    async with echo_broker(echoes, users=frozenset({os.geteuid() + 1})) as path:
        assert await refusal(path, b"open\n") == (
            f"the user {os.geteuid()} may not use this broker: start it with --user {os.geteuid()}"
        )
        source = BrokerSource(path)
        async with source.running():
            with pytest.raises(SandboxError, match="may not use this broker"):
                await source.start()
        assert echoes.started == []


AS_ANOTHER = """
import contextlib, os, socket, sys
os.setgroups([])
os.setgid(54322)
os.setuid(54321)
with socket.socket(socket.AF_UNIX) as connected:
    try:
        connected.connect(sys.argv[1])
        with contextlib.suppress(BrokenPipeError):
            connected.sendall(sys.argv[2].encode() + b"\\n")
        print(connected.recv(1000).decode())
    except PermissionError:
        print("closed to this user")
"""


def as_another(path: Path, request: str) -> str:
    """What is said to a request of the user 54321 of the group 54322."""
    path.parent.chmod(0o755)
    command = [sys.executable, "-I", "-S", "-c", AS_ANOTHER, str(path), request]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=30, check=True).stdout


ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


@ROOT_ONLY
@pytest.mark.parametrize(
    ("group", "users", "says"),
    [
        (None, {54321}, "closed to this user"),
        (54322, {54321}, '"id"'),
        (54322, set[int](), "the user 54321 may not use this broker"),
        (54323, {54321}, "closed to this user"),
    ],
)
async def test_a_user_needs_the_group_of_the_socket_and_to_be_named(
    group: int | None, users: set[int], says: str
) -> None:
    async with echo_broker(Echoes(), users=frozenset(users), group=group) as path:
        assert says in await in_thread(as_another, path, "open")


@ROOT_ONLY
async def test_a_container_of_another_user_cannot_be_attached_to_even_if_its_id_is_known() -> None:
    async with echo_broker(Echoes(), users=frozenset({os.geteuid(), 54321}), group=54322) as path:
        id, keeper = await opened(path)
        with keeper:
            assert "nothing to attach" in await in_thread(as_another, path, f"attach {id}")
            (await attached(path, id)).close()


async def test_an_engine_that_cannot_start_one_is_said_in_its_words() -> None:
    echoes = Echoes()
    async with echo_broker(echoes, most=1) as path:
        source = BrokerSource(path)
        async with source.running():
            echoes.problem = "the engine has no room"
            for _ in range(3):
                with pytest.raises(SandboxError, match=r"^the engine has no room$"):
                    await source.start()
            echoes.problem = None
            (await source.start()).close()
