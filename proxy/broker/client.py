"""The gateway's end of the broker's socket: a source of containers that knows no engine and loads no library of one.

Above: app.py, which hands it to the backend. Below: protocol.py. Requests block and run in worker threads. Each
container has two connections: one that keeps it, and one that is its streams. Both end with this process.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from proxy.broker.protocol import MAX_REPLY, Request, Verb, read_attached, read_ended, read_opened
from proxy.errors import SandboxError
from proxy.sandbox.source import Started, State

REQUEST_S = 90.0
"""For a reply: the broker waits for the engine, which may be slow."""
THREADS = 8
"""Requests at a time."""

T = TypeVar("T")


class BrokerSource:
    """A `Source`: the broker that listens at `path`."""

    name = "the Docker engine or its broker"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._keepers: dict[str, socket.socket] = {}
        """The connection that keeps each container."""
        self._threads = anyio.CapacityLimiter(THREADS)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Nothing is asked of the broker before the first container is wanted: it may come later than the gateway."""
        try:
            yield
        finally:
            while self._keepers:
                self._keepers.popitem()[1].close()

    async def start(self) -> Started:
        """See `Source`."""
        id, keeper, streams = await self._do(self._start)
        self._keepers[id] = keeper
        return Started(id, streams, streams.close)

    async def fate(self, container: str) -> State | None:
        """See `Source`. It is removed with that."""
        keeper = self._keepers.pop(container, None)
        return None if keeper is None else await self._do(lambda: self._end(keeper, container), abandon=True)

    async def remove(self, container: str) -> None:
        """See `Source`."""
        keeper = self._keepers.pop(container, None)
        if keeper is not None:
            await self._do(lambda: self._end(keeper, container, wait=True))

    async def _do(self, call: Callable[[], T], *, abandon: bool = False) -> T:
        """Raises SandboxError. Whoever may not abandon it waits for it even when cancelled."""
        return await anyio.to_thread.run_sync(call, limiter=self._threads, abandon_on_cancel=abandon)

    def _start(self) -> tuple[str, socket.socket, socket.socket]:
        keeper = self._connect()
        try:
            id = read_opened(self._ask(keeper, Request(Verb.OPEN)))
            streams = self._connect()
            try:
                read_attached(self._ask(streams, Request(Verb.ATTACH, id)))
            except BaseException:
                streams.close()
                raise
        except BaseException:
            keeper.close()
            raise
        return id, keeper, streams

    def _end(self, keeper: socket.socket, container: str, *, wait: bool = False) -> State | None:
        with keeper:
            state = read_ended(self._ask(keeper, Request(Verb.CLOSE, container)))
            if wait:
                # The broker ends the connection when the container is removed.
                with suppress(OSError):
                    keeper.recv(1)
            return state

    def _connect(self) -> socket.socket:
        connected = socket.socket(socket.AF_UNIX)
        connected.settimeout(REQUEST_S)
        try:
            connected.connect(str(self._path))
        except OSError as error:
            connected.close()
            raise SandboxError(self._explained(error)) from error
        return connected

    def _ask(self, connected: socket.socket, request: Request) -> bytes:
        reply = bytearray()
        try:
            with suppress(BrokenPipeError):  # Who refuses a connection has said so before.
                connected.sendall(request.line())
            # A byte at a time: what comes behind the reply to `attach` belongs to the container.
            while not reply.endswith(b"\n") and len(reply) < MAX_REPLY:
                if not (byte := connected.recv(1)):
                    raise ConnectionResetError("it ended the connection")
                reply += byte
        except OSError as error:
            raise SandboxError(self._explained(error)) from error
        return bytes(reply)

    def _explained(self, error: OSError) -> str:
        there = f"the broker of the Docker engine at {self._path}"
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            return (
                f"{there} does not run: start it with `toolatlas broker --socket {self._path}`, where it can reach "
                "the engine"
            )
        if isinstance(error, PermissionError):
            return (
                f"this user may not use {there}: start that with --group and a group of this user, and with --user "
                "and this user's number"
            )
        if isinstance(error, BlockingIOError):
            return f"more connections wait for {there} than it can take; try again later"
        if isinstance(error, TimeoutError):
            return f"{there} did not answer within {REQUEST_S:g} s: see its log"
        return f"{there} broke off ({error.strerror or error}): see its log, and start it again if it has ended"
