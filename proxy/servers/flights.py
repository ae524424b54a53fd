"""The calls under way on one connection, and whose call a question or log message of the server belongs to.

Above: connection.py. Over HTTP a server speaks on the stream of the call that it works on, which a context variable
carries from the sender of the call to the reader of its stream. Over a pipe nothing links the two; there only a
connection that one agent has to itself, or that one agent alone has used, gives certainty.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.shared.dispatcher import ProgressFnT

from proxy.servers.origin import Origin

TELL_WAIT_S = 1.0
"""How long a result waits for log messages that arrived before it and are still being passed on."""

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


class Flights:
    """All of one connection."""

    def __init__(self, owner: Origin | None) -> None:
        self.private = owner is not None
        self._under_way: dict[int, Flight] = {}
        self._served: set[str] = set()
        """Sessions of all agents that have used this connection."""
        self._last = owner

    @staticmethod
    def enter_none() -> None:
        """From here on, in this task and those it starts, nothing belongs to a call."""
        _CURRENT.set(None)

    @contextmanager
    def started(self, call: Call) -> Generator[Flight]:
        flight = Flight(call)
        if call.origin is not None:
            self._served.add(call.origin.session)
            self._last = call.origin
        token = _CURRENT.set(flight)
        self._under_way[id(flight)] = flight
        try:
            yield flight
        finally:
            del self._under_way[id(flight)]
            _CURRENT.reset(token)

    def asked(self) -> tuple[Origin, Flight | None] | None:
        """The agent that a question is for, if that is certain, and the call it is part of, if one is under way."""
        flight = _CURRENT.get()
        if flight is not None and flight.call.origin is not None:
            return flight.call.origin, flight
        if self._last is None or (not self.private and len(self._served) > 1):
            return None
        under_way = [flight for flight in self._under_way.values() if flight.call.origin is not None]
        if under_way:
            latest = under_way[-1]
            assert latest.call.origin is not None
            return latest.call.origin, latest
        return self._last, None

    def heard(self) -> tuple[Origin, Flight | None] | None:
        """The agent that a message is for: as for a question, or the only agent with calls under way."""
        if (certain := self.asked()) is not None:
            return certain
        flights = [flight for flight in self._under_way.values() if flight.call.origin is not None]
        sessions = {flight.call.origin.session for flight in flights if flight.call.origin is not None}
        if len(sessions) != 1:
            return None
        origin = flights[-1].call.origin
        assert origin is not None
        return origin, flights[-1]
