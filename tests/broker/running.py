"""A broker as a process, the engine it reaches, and one in the test's own loop whose containers are echoes."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from proxy.broker.listening import listening
from proxy.broker.server import Broker
from proxy.errors import SandboxError
from proxy.sandbox.engine import Engine
from proxy.sandbox.source import Started, State

START_S = 60.0
REPLY_S = 30.0
ROOT = Path(__file__).parents[2]
PROGRAM = "import typer; from proxy.commands.broker import broker; typer.run(broker)"


class BrokerProcess:
    """`toolatlas broker` with a state and a socket of its own below `folder`."""

    def __init__(self, folder: Path, *options: str, **environ: str) -> None:
        self.path = folder / "broker.sock"
        self._state = folder / "state"
        self._command = [sys.executable, "-c", PROGRAM, "--socket", str(self.path), *options]
        self._environ = {**os.environ, **environ, "TOOLATLAS_STATE_DIR": str(self._state)}
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=self._environ)
        assert self._process.stderr is not None
        said: list[str] = []
        timer = threading.Timer(START_S, self._process.kill)
        timer.start()
        for line in self._process.stderr:
            said.append(line)
            if "gives containers" in line:
                break
        else:
            self.stop()
            raise AssertionError("".join(said))
        timer.cancel()
        # Nobody reads on; what it says later fits into the pipe.

    def stop(self) -> None:
        """In order."""
        self._end("terminate")

    def kill(self) -> None:
        """As the system does."""
        self._end("kill")

    def containers(self, engine: Engine) -> set[str]:
        """The engine's ids of all that it has made and that are left."""
        return set(engine.owned((self._state / "broker" / "owner").read_text()))

    def _end(self, how: str) -> None:
        if self._process is not None:
            with self._process as process:
                getattr(process, how)()
                process.wait(START_S)
            self._process = None


@contextmanager
def broker_process(folder: Path, *options: str, **environ: str) -> Iterator[BrokerProcess]:
    process = BrokerProcess(folder, *options, **environ)
    process.start()
    try:
        yield process
    finally:
        process.stop()


class WatchedEngine:
    """A way to the engine that notes what is asked of it."""

    def __init__(self, folder: Path) -> None:
        self.url = f"unix://{folder / 'engine.sock'}"
        self.asked = bytearray()
        self._sockets: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "engine.sock"))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                front, _ = self._listener.accept()
                back = socket.socket(socket.AF_UNIX)
                back.connect("/var/run/docker.sock")
                self._sockets += front, back
                threading.Thread(target=self._copy, args=(front, back, True), daemon=True).start()
                threading.Thread(target=self._copy, args=(back, front, False), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket, note: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if note:
                    self.asked += data
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def say(path: Path, request: bytes) -> tuple[dict[str, Any], socket.socket]:
    """The reply to a request on a connection of its own, which is the caller's to close."""
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.settimeout(REPLY_S)
        limit = time.monotonic() + REPLY_S
        while (refused := connected.connect_ex(str(path))) == errno.EAGAIN and time.monotonic() < limit:
            pass  # More connections wait than may.
        assert refused == 0, os.strerror(refused)
        with suppress(BrokenPipeError, ConnectionResetError):
            connected.sendall(request)
        return reply(connected), connected
    except BaseException:
        connected.close()
        raise


def reply(connected: socket.socket) -> dict[str, Any]:
    line = b""
    while not line.endswith(b"\n"):
        byte = connected.recv(1)
        assert byte, f"it ended after {line!r}"
        line += byte
    return json.loads(line)


def at_its_end(connected: socket.socket) -> bool:
    """Whether nothing comes any more."""
    try:
        return connected.recv(1) == b""
    except ConnectionResetError:
        return True


class Echoes:
    """A `Source` whose containers send back what they get, and end by themselves at a byte of zero."""

    name = "the echoes"

    def __init__(self) -> None:
        self.started: list[str] = []
        self.removed: list[str] = []
        self.problem: str | None = None
        """Why none can be started now."""
        self.fate_known = anyio.Event()
        """Set where nothing depends on how long that takes."""
        self.fate_known.set()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        yield

    async def start(self) -> Started:
        if self.problem is not None:
            raise SandboxError(self.problem)
        ours, theirs = socket.socketpair()
        self.started.append(id := f"{len(self.started):064x}")
        threading.Thread(target=self._echo, args=(ours,), daemon=True).start()
        return Started(id, theirs, theirs.close)

    async def fate(self, container: str) -> State | None:
        await self.fate_known.wait()
        return State(running=False, out_of_memory=True, exit_code=137)

    async def remove(self, container: str) -> None:
        self.removed.append(container)

    @staticmethod
    def _echo(ours: socket.socket) -> None:
        with ours, suppress(OSError):
            while data := ours.recv(65536):
                before, end, _ = data.partition(b"\0")
                ours.sendall(before)
                if end:
                    break


@contextmanager
def short_folder() -> Generator[Path]:
    """The path of a socket has about a hundred characters at most; those of test folders may be longer."""
    with tempfile.TemporaryDirectory(prefix="broker-") as folder:
        yield Path(folder)


@asynccontextmanager
async def echo_broker(
    source: Echoes, *, most: int = 4, users: frozenset[int] | None = None, group: int | None = None
) -> AsyncGenerator[Path]:
    """The path of a broker in this process."""
    with short_folder() as folder, listening(folder / "b.sock", group) as listener:
        async with anyio.create_task_group() as tasks:
            broker = Broker(source, most=most, users=frozenset({os.geteuid()}) if users is None else users)
            tasks.start_soon(broker.serve, listener)
            yield folder / "b.sock"
            tasks.cancel_scope.cancel()
