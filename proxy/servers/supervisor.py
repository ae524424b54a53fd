"""Keeps one connection alive: starts it when it is needed, restarts it with back-off, ends it when idle or sick.

Above: pool.py, one supervisor per server (or per server and agent session). Below: connection.py. One task owns the
connection from opening to closing, as anyio's scopes demand.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Set
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup

from proxy.errors import ServerDown, ServerError
from proxy.servers.config import ServerConfig
from proxy.servers.connection import ServerConnection, SessionLost, Terms, connect, innermost
from proxy.servers.flights import Call
from proxy.servers.oauth_tokens import LoginNeeded
from proxy.servers.origin import Origin
from proxy.servers.permission import least_level
from proxy.servers.transports import OpenTransport
from proxy.store.recorder import Level

logger = logging.getLogger("toolatlas.servers")

FIRST_BACKOFF_S = 1.0
MAX_BACKOFF_S = 60.0
PING_AFTER_S = 60.0
PING_TIMEOUT_S = 20.0
END_WAIT_S = 10.0
BROKEN_WAIT_S = 1.0
SHORT_WAIT_S = 2.0
"""A back-off shorter than this is waited out rather than answered with an error."""


class Phase(StrEnum):
    ASLEEP = "asleep"
    """Not started, or stopped for idleness; starts on the next call."""
    STARTING = "starting"
    READY = "ready"
    DOWN = "down"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class ServerState:
    phase: Phase
    reason: str | None = None


class Supervisor:
    """The only way to a connection of its server."""

    def __init__(
        self,
        config: ServerConfig,
        tasks: TaskGroup,
        open_transport: OpenTransport,
        terms: Terms,
        on_ready: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._tasks = tasks
        self._open_transport = open_transport
        self._terms = terms
        self._on_ready = on_ready
        self._clock = clock
        self._connection: ServerConnection | None = None
        self._settled: anyio.Event | None = None
        """Fires when the start under way has succeeded or failed; None when none is under way."""
        self._start = anyio.CancelScope()
        self._stop = anyio.Event()
        self._ended = anyio.Event()
        self._ended.set()
        self._failure: str | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._answered = False
        """Whether this connection has answered anything since it was opened: if so, its end was no failed start."""
        self._refused = False
        """Whether the connection ended because nothing listened at the address, so that nothing can have arrived."""
        self._in_flight = 0
        self._sent = 0
        """How many of those wait for the answer of the connection, not for a connection."""
        self._last_used = clock()
        self._subscriptions: set[str] = set()
        """Resources that agents follow: the connection stays open for them and is opened again after a failure."""
        self._over = False

    @property
    def state(self) -> ServerState:
        if self._connection is not None:
            return ServerState(Phase.READY)
        if self._settled is not None:
            return ServerState(Phase.STARTING)
        if self._failure is not None:
            return ServerState(Phase.DOWN, self._failure)
        return ServerState(Phase.ASLEEP)

    @property
    def owner(self) -> Origin | None:
        """The agent whose own this is."""
        return self._terms.owner

    @property
    def unused(self) -> bool:
        """Nobody waits for it and nothing would be lost with it but the server's memory of its agent."""
        return not self._in_flight and not self._subscriptions

    @property
    def last_used(self) -> float:
        return self._last_used

    @property
    def retry_in_s(self) -> float:
        """Seconds until a failed server may be tried again."""
        return max(0.0, self._retry_at - self._clock())

    async def connection(self) -> ServerConnection:
        """The live connection, started if need be.

        Raises:
            ServerDown: It could not be started, or failed a moment ago and its back-off is not over.
        """
        while self._settled is None:
            if self._over:
                raise ServerDown(self._config.name, f"server '{self._config.name}' was stopped")
            if self._connection is not None and not (self._stop.is_set() or self._connection.channel.closed.is_set()):
                return self._connection
            if not self._ended.is_set():
                # Two connections of one server at a time would be two servers.
                await self._ended.wait()
                continue
            if self.retry_in_s > SHORT_WAIT_S:
                raise ServerDown(
                    self._config.name, f"{self._failure}; it is tried again in {self.retry_in_s:.0f} s at the earliest"
                )
            self._start, self._settled = anyio.CancelScope(), anyio.Event()
            self._stop, self._ended = anyio.Event(), anyio.Event()
            self._tasks.start_soon(self._own, self._settled)
        await self._settled.wait()
        if self._connection is None:
            raise ServerDown(self._config.name, self._failure or f"server '{self._config.name}' was stopped")
        return self._connection

    async def request(self, call: Call) -> dict[str, Any]:
        """Send a request. A session that the server has forgotten is opened again and the request repeated, once:
        the server refused it unseen.

        Raises:
            ServerError: As `ServerConnection.request` and `connection` do.
        """
        self._in_flight += 1
        try:
            connection = await self.connection()
            try:
                result = await self._send(connection, call)
            except SessionLost:
                await self._retire(connection)
                result = await self._send(await self.connection(), call)
            except ServerDown:
                await self._until_ended(connection)
                if not self._refused:
                    raise ServerDown(
                        self._config.name,
                        f"{self._failure or f'server {self._config.name!r} was stopped'}. It was working on this call; "
                        "whether the call took effect is not known. The server is started again on the next call",
                    ) from None
                result = await self._send(await self.connection(), call)
            self.answered()
            return result
        finally:
            self._in_flight -= 1
            self._last_used = self._clock()

    async def subscribe(self, uri: str) -> None:
        """Follow a resource, over restarts of the server too. Raises as `request` does."""
        connection = await self.connection()
        await connection.subscribe(uri, self._config.timeout_s)
        self._subscriptions.add(uri)

    def follow(self, uris: Set[str]) -> None:
        """Take over the subscriptions of an earlier connection to the server, and open this one for them."""
        self._subscriptions |= uris
        self._tasks.start_soon(self._revive)

    async def unsubscribe(self, uri: str) -> None:
        """Undo `subscribe`. Raises as `request` does."""
        self._subscriptions.discard(uri)
        if self._connection is not None:
            await self._connection.unsubscribe(uri, self._config.timeout_s)

    async def notify(self, method: str) -> None:
        """Tell the server something if it is connected; if not, it learns it when it asks."""
        if self._connection is not None:
            await self._connection.notify(method)

    def answered(self) -> None:
        """Note that the connection works, used by those who took it with `connection()`."""
        self._answered, self._failures, self._last_used = True, 0, self._clock()

    async def stop(self) -> None:
        """End the connection for good and wait until its process is gone."""
        self._over = True
        self._stop.set()
        if self._settled is not None:
            self._start.cancel()
        await self._ended.wait()

    async def _until_ended(self, connection: ServerConnection) -> None:
        """Wait for the end of a connection that failed a call, since its end says why. Not for long if there is no sign
        of it: over HTTP one answer can break off while the connection is well."""
        closed = connection.channel.closed
        await _either(closed, self._ended, BROKEN_WAIT_S)
        if closed.is_set():
            with anyio.move_on_after(END_WAIT_S):
                await self._ended.wait()

    async def _send(self, connection: ServerConnection, call: Call) -> dict[str, Any]:
        self._sent += 1
        try:
            return await connection.request(call)
        finally:
            self._sent -= 1

    async def _retire(self, connection: ServerConnection) -> None:
        """End a connection whose session is lost, once for all its calls: the others are about to be refused as well,
        and cut off they could not be repeated."""
        if self._connection is connection:
            self._connection = None
            try:
                with anyio.move_on_after(END_WAIT_S):
                    while self._sent:
                        await anyio.sleep(0.01)
            finally:
                self._stop.set()
        await self._ended.wait()

    async def _own(self, settled: anyio.Event) -> None:
        self._answered = self._refused = False
        try:
            with self._start:
                await anyio.sleep(self.retry_in_s)
                async with connect(self._config, self._open_transport, self._terms) as connection:
                    self._connection, self._failure, self._settled = connection, None, None
                    self._last_used = self._clock()
                    settled.set()
                    self._on_ready()
                    await self._subscribe_again(connection)
                    await self._watch(connection)
                    self._connection = None
                    ended_by_itself = not self._stop.is_set()
                if ended_by_itself:
                    words = connection.channel.last_words.describe()
                    self._fail(f"server '{self._config.name}' ended" + (f": {words}" if words else ""))
        except ServerError as error:
            if self._stop.is_set():
                # Only the closing failed, as some transports do with calls in flight.
                return
            cause = innermost(error.__cause__) if error.__cause__ is not None else None
            self._refused = isinstance(cause, httpx2.ConnectError)
            # Whoever has just logged in should not be told to wait.
            self._fail(str(error), hold_back=not isinstance(cause, LoginNeeded))
        except Exception as error:
            logger.exception("server %s", self._config.name)
            self._fail(f"server '{self._config.name}' failed: {type(error).__name__}")
        finally:
            self._connection = self._settled = None
            settled.set()
            self._ended.set()
            if self._subscriptions and not self._over:
                self._tasks.start_soon(self._revive)

    async def _subscribe_again(self, connection: ServerConnection) -> None:
        for uri in tuple(self._subscriptions):
            try:
                await connection.subscribe(uri, self._config.start_timeout_s)
                # Whether it changed while nobody followed it is not known.
                await self._terms.on_notice("notifications/resources/updated", {"uri": uri})
            except ServerError as error:
                logger.warning("server '%s' does not take up the subscription again: %s", self._config.name, error)

    async def _revive(self) -> None:
        """Agents that follow a resource call nothing, so nothing else would start the server again."""
        await anyio.sleep(self.retry_in_s)
        with suppress(ServerError):
            await self.connection()

    async def _watch(self, connection: ServerConnection) -> None:
        """Return when the connection has ended, is not wanted any more, or no longer answers."""
        interval_s = min(PING_AFTER_S, max(0.05, self._config.idle_s / 2))
        while not (connection.channel.closed.is_set() or self._stop.is_set()):
            await _either(connection.channel.closed, self._stop, interval_s)
            quiet_s = self._clock() - self._last_used
            if self._in_flight or quiet_s < interval_s:
                continue
            if quiet_s >= self._config.idle_s and not self._subscriptions:
                self._stop.set()
            elif (
                quiet_s >= PING_AFTER_S
                and not connection.channel.closed.is_set()
                and not await connection.ping(PING_TIMEOUT_S)
            ):
                return

    def _fail(self, reason: str, *, hold_back: bool = True) -> None:
        self._failure = reason
        if least_level(self._config) is Level.FULL:
            logger.warning("%s", reason)
        else:
            # Its own words may be in the reason.
            name = self._config.name
            logger.warning("server '%s' failed; why is told to agents only, since it is not logged in full", name)
        # One that worked may be restarted at once; only those that never answer are held back.
        if hold_back and not self._answered:
            self._failures += 1
            delay_s = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2 ** (self._failures - 1))
            self._retry_at = self._clock() + delay_s


async def _either(one: anyio.Event, other: anyio.Event, limit_s: float) -> None:
    """Return when one of them has happened, or after `limit_s`."""
    with anyio.move_on_after(limit_s):
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(_wait_then_cancel, one, waiting)
            waiting.start_soon(_wait_then_cancel, other, waiting)


async def _wait_then_cancel(event: anyio.Event, tasks: TaskGroup) -> None:
    await event.wait()
    tasks.cancel_scope.cancel()
