"""The broker's side of its socket: which connection may say what, and how much there may be of everything.

Above: commands/broker.py. Below: protocol.py, lease.py and a source of containers. A connection says one thing: it
opens a container, and lives as long as that, or it attaches to one. So no connection can name a container of another,
and none is left when its gateway is gone, however that ended.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing, suppress

import anyio
from anyio.abc import TaskGroup

from proxy.broker.lease import Lease
from proxy.broker.protocol import Refused, Request, Verb, attached, ended, opened, parse, refusal
from proxy.broker.stream import Gone, Stream
from proxy.errors import SandboxError
from proxy.sandbox.source import Source

FIRST_REQUEST_S = 10.0
"""From a connection to its request."""
REPLY_S = 10.0
"""For the other end to take a reply."""
STRANGERS = 32
"""Connections that have not said yet what they are, beyond two for each container."""
FULL_S = 0.2
"""Between two tries to accept a connection when this process may open no more files."""
NOTE_S = 1.0
"""Between two lines in the log about what was refused."""

logger = logging.getLogger("toolatlas.broker")


class Broker:
    """At most `most` containers at a time, out of a source that runs, for processes of `users`."""

    def __init__(self, source: Source, *, most: int, users: frozenset[int]) -> None:
        self._source = source
        self._most = most
        self._users = users
        self._leases: dict[str, Lease] = {}
        self._begun = 0
        """Containers that are starting, are there, or are being removed."""
        self._connections = 0
        self._refused = 0
        self._note_at = 0.0

    async def serve(self, listener: socket.socket) -> None:
        """Answer until cancelled. Containers that are left then are for the source to end."""
        listener.setblocking(False)
        async with anyio.create_task_group() as tasks:
            while True:
                await anyio.wait_readable(listener)
                try:
                    connected, _ = listener.accept()
                except (BlockingIOError, ConnectionAbortedError):
                    continue
                except OSError as error:
                    logger.warning("no connection can be accepted: %s", error)
                    await anyio.sleep(FULL_S)
                    continue
                self._begin(connected, tasks)

    def _begin(self, connected: socket.socket, tasks: TaskGroup) -> None:
        if self._connections >= 2 * self._most + STRANGERS:
            full = Refused("the broker has too many connections", busy=True)
            with connected, suppress(OSError):
                connected.setblocking(False)
                connected.send(refusal(full))
            self._note(str(full))
            return
        self._connections += 1
        tasks.start_soon(self._answer, Stream(connected))

    async def _answer(self, stream: Stream) -> None:
        try:
            with closing(stream), suppress(Gone):
                try:
                    await self._converse(stream)
                except Refused as error:
                    self._note(str(error))
                    await self._reply(stream, refusal(error))
        finally:
            self._connections -= 1

    async def _converse(self, stream: Stream) -> None:
        """Raises Refused and Gone."""
        if (user := stream.user()) not in self._users:
            raise Refused(f"the user {user} may not use this broker: start it with --user {user}")
        request: Request | None = None
        with anyio.move_on_after(FIRST_REQUEST_S):
            request = parse(await stream.line())
        if request is None:
            raise Refused(f"no request came within {FIRST_REQUEST_S:g} s")
        match request.verb:
            case Verb.OPEN:
                async with self._lease(user) as lease:
                    await self._keep(stream, lease)
            case Verb.ATTACH:
                lease = self._leases.get(request.id)
                if lease is None or not lease.take(user):
                    raise _unknown(request)
                await self._reply(stream, attached())
                await lease.relay(stream)
            case Verb.CLOSE:
                raise _unknown(request)

    @asynccontextmanager
    async def _lease(self, user: int) -> AsyncGenerator[Lease]:
        """A new container, removed at the end. Raises Refused."""
        if self._begun >= self._most:
            raise Refused(
                f"all {self._most} containers of the broker are in use; try again later, or start it with "
                "--sandbox-limit interpreters=N and a larger N",
                busy=True,
            )
        self._begun += 1
        try:
            try:
                started = await self._source.start()
            except SandboxError as error:
                raise Refused(str(error)) from error
            lease = Lease(started, self._source, user)
            self._leases[lease.id] = lease
            try:
                yield lease
            finally:
                lease.close()
                del self._leases[lease.id]
                try:
                    await self._source.remove(lease.container)
                except SandboxError as error:
                    logger.warning("a container may be left until the broker ends: %s", error)
        finally:
            self._begun -= 1

    async def _keep(self, stream: Stream, lease: Lease) -> None:
        """Raises Refused and Gone."""
        await self._reply(stream, opened(lease.id))
        request: Request | None = None
        with lease.until_attached:
            request = parse(await stream.line())
        if request is None:
            raise Refused("nobody attached to the container in time")
        if request != Request(Verb.CLOSE, lease.id):
            raise _unknown(request)
        await self._reply(stream, ended(await lease.fate()))

    async def _reply(self, stream: Stream, reply: bytes) -> None:
        """Raises Gone."""
        with anyio.move_on_after(REPLY_S) as limit:
            await stream.send(reply)
        if limit.cancelled_caught:
            raise Gone

    def _note(self, why: str) -> None:
        """Say in the log what was refused, without letting whoever asks fill it."""
        self._refused += 1
        if (now := anyio.current_time()) >= self._note_at:
            logger.warning("refused %d request(s), at last because %s", self._refused, why)
            self._refused, self._note_at = 0, now + NOTE_S


def _unknown(request: Request) -> Refused:
    """The same whether there is such a container or not."""
    return Refused(f"this connection has nothing to {request.verb} under that name")
