"""The calls under way on one connection, and whose call a question or log message of the server belongs to.

Above: connection.py. Over HTTP a server speaks on the stream of the call that it works on, which a context variable
carries from the sender of the call to the reader of its stream. Over a pipe nothing links the two; there only a
connection that one agent has to itself, or that one agent alone has used, gives certainty.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.shared.dispatcher import ProgressFnT

from proxy.servers.origin import Origin

TELL_WAIT_S = 1.0
"""How long a result waits for log messages that arrived before it and are still being passed on."""

LATE_S = 2.0
"""How long after a call the server may still send log messages about it."""
KNOWN_ENDED = 64

_CURRENT: ContextVar[Flight | None] = ContextVar("toolatlas_call", default=None)


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a server, with what it needs from the agent that caused it."""

    method: str
    params: Mapping[str, Any]
    """As the agent sent them."""
    timeout_s: float
    """Seconds without an answer or progress before the call is given up."""
    origin: Origin | None = None
    """None for requests of the gateway itself."""
    on_progress: ProgressFnT | None = None
    input_schema: Mapping[str, Any] | None = None
    """Of the called tool: 2026-07-28 servers may want some arguments repeated as headers."""


class Flight:
    """One call under way, with its time limit."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.limit = anyio.CancelScope(deadline=anyio.current_time() + call.timeout_s)
        self.session_lost = False
        """The transport was told that the server does not know the session any more."""
        self._questions = 0
        self._telling = 0
        self._all_told: anyio.Event | None = None

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass progress on. It proves that the server is alive, so it moves the limit on."""
        self._extend()
        if self.call.on_progress is not None:
            await self.call.on_progress(progress, total, message)

    @contextmanager
    def questioned(self) -> Generator[None]:
        """While a person or a model answers a question, the server is not the one who is slow."""
        self._questions += 1
        self.limit.deadline = float("inf")
        try:
            yield
        finally:
            self._questions -= 1
            self._extend()

    @contextmanager
    def telling(self) -> Generator[None]:
        self._telling += 1
        try:
            yield
        finally:
            self._telling -= 1
            if not self._telling and self._all_told is not None:
                self._all_told.set()

    async def told(self) -> None:
        """Wait until what the server said before its result is on its way: after the result it would be too late."""
        if self._telling:
            self._all_told = anyio.Event()
            with anyio.move_on_after(TELL_WAIT_S):
                await self._all_told.wait()

    def _extend(self) -> None:
        if not self._questions:
            self.limit.deadline = anyio.current_time() + self.call.timeout_s


def note_session_lost() -> None:
    """Called where a request is sent: its answer said that the session is gone."""
    if (flight := _CURRENT.get()) is not None:
        flight.session_lost = True


@dataclass(frozen=True, slots=True)
class Addressee:
    """The agent that a server means, and its calls that can be the cause: one where that is known."""

    origin: Origin
    flights: tuple[Flight, ...]

    @contextmanager
    def questioned(self) -> Generator[None]:
        with ExitStack() as all_of_them:
            for flight in self.flights:
                all_of_them.enter_context(flight.questioned())
            yield

    @contextmanager
    def telling(self) -> Generator[None]:
        with ExitStack() as all_of_them:
            for flight in self.flights:
                all_of_them.enter_context(flight.telling())
            yield


class Flights:
    """All of one connection."""

    def __init__(self, owner: Origin | None) -> None:
        self.private = owner is not None
        self._under_way: dict[int, Flight] = {}
        self._agents: set[object] = set()
        """Who has used this connection, up to two."""
        self._last = owner
        self._ended: dict[str, float] = {}
        """When the last call of a session was over, of those that had calls lately."""

    @staticmethod
    def enter_none() -> None:
        """From here on, in this task and those it starts, nothing belongs to a call."""
        _CURRENT.set(None)

    @contextmanager
    def started(self, call: Call) -> Generator[Flight]:
        flight = Flight(call)
        if call.origin is not None:
            if len(self._agents) < 2:
                self._agents.add(_agent_of(flight))
            self._last = call.origin
        token = _CURRENT.set(flight)
        self._under_way[id(flight)] = flight
        try:
            yield flight
        finally:
            del self._under_way[id(flight)]
            if call.origin is not None:
                self._note_end(call.origin)
            _CURRENT.reset(token)

    def addressee(self) -> Addressee | None:
        """The agent that a question or message is for, if that is certain."""
        flight = _CURRENT.get()
        if flight is not None and flight.call.origin is not None:
            return Addressee(flight.call.origin, (flight,))
        under_way = [each for each in self._under_way.values() if each.call.origin is not None]
        latest = under_way[-1].call.origin if under_way else self._last
        if latest is None or not (self.private or len(self._agents) == 1):
            return None
        if not latest.one_agent and len(under_way) != 1:
            return None
        return Addressee(latest, tuple(under_way))

    def hearer(self) -> Addressee | None:
        """The agent that a log message is for: as for a question, or else the only one that has had calls under way of
        late. A message that is later still, of an agent whose call is over, would go to the wrong one; hence `LATE_S`.
        """
        if (certain := self.addressee()) is not None:
            return certain
        under_way = [(each, each.call.origin) for each in self._under_way.values() if each.call.origin is not None]
        if len({_agent_of(each) for each, _ in under_way}) != 1:
            return None
        origin, since = under_way[-1][1], time.monotonic() - LATE_S
        if any(ended > since for session, ended in self._ended.items() if session != origin.session):
            return None
        return Addressee(origin, tuple(each for each, _ in under_way))

    def _note_end(self, origin: Origin) -> None:
        now = time.monotonic()
        if len(self._ended) > KNOWN_ENDED:
            self._ended = {session: ended for session, ended in self._ended.items() if ended > now - LATE_S}
        self._ended[origin.session] = now


def _agent_of(flight: Flight) -> object:
    """Equal for two calls that are certainly of one agent; None for a request of the gateway's own."""
    origin = flight.call.origin
    if origin is None:
        return None
    return origin.session if origin.one_agent else id(flight)
