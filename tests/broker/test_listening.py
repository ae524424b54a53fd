"""The socket in the file system, and what a gateway says of a broker that it does not find there."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.broker.client import BrokerSource
from proxy.broker.listening import listening
from proxy.errors import ConfigurationError, SandboxError
from tests.broker.running import short_folder


@pytest.fixture
def path() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder / "deep" / "b.sock"


def test_it_is_open_to_its_user_alone_and_gone_at_the_end(path: Path) -> None:
    mask = os.umask(0)
    try:
        with listening(path, None):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not path.exists()
    finally:
        os.umask(mask)


def test_with_a_group_it_is_open_to_that_too(path: Path) -> None:
    with listening(path, os.getegid()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert path.stat().st_gid == os.getegid()


def test_a_socket_that_a_dead_broker_left_is_replaced(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with listening(path, None), socket.socket(socket.AF_UNIX) as connected:
        connected.connect(str(path))


def test_a_broker_that_lives_keeps_its_socket(path: Path) -> None:
    with listening(path, None):
        with pytest.raises(ConfigurationError, match="another broker listens at"), listening(path, None):
            pass
        with socket.socket(socket.AF_UNIX) as connected:
            connected.connect(str(path))


def test_what_is_no_socket_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("precious")
    with pytest.raises(ConfigurationError, match="is no socket: choose another --socket"), listening(path, None):
        pass
    assert path.read_text() == "precious"


def test_a_path_that_no_socket_can_have_is_said(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot listen at"), listening(path.parent / ("x" * 120), None):
        pass


@pytest.mark.anyio
@pytest.mark.parametrize("left", [False, True], ids=["never there", "left by one that died"])
async def test_a_gateway_without_a_broker_is_told_how_to_start_one(left: bool, path: Path) -> None:
    if left:
        path.parent.mkdir()
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
    source = BrokerSource(path)
    async with source.running():
        with pytest.raises(SandboxError, match=f"does not run: start it with `toolatlas broker --socket {path}`"):
            await source.start()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "words"),
    [(b"", "broke off"), (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is no broker"), (b"x" * 10_000, "is no broker")],
)
async def test_something_else_at_that_path_is_said(answer: bytes, words: str, path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer_once() -> None:
            connected, _ = listener.accept()
            with connected:
                connected.recv(100)
                connected.sendall(answer)

        answering = threading.Thread(target=answer_once)
        answering.start()
        source = BrokerSource(path)
        async with source.running():
            with pytest.raises(SandboxError, match=words):
                await source.start()
        answering.join()
