"""When servers are listed: once at first, again to confirm what the cache said, and again after they tell of a change.

Above: pool.py, which does a listing. Nobody waits for these except a search for the first ones, and that only a moment.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Protocol

import anyio

from proxy.errors import Denied, ServerError, UnknownName

logger = logging.getLogger("toolatlas.servers")

LIST_AT_ONCE = 4
TURN_S = 5.0
"""A server that takes longer to be listed goes on, but lets the next one begin."""
LIST_ATTEMPTS = 5
DEBOUNCE_S = 0.2


class Listable(Protocol):
    """What can be listed, by name."""

    async def refresh(self, name: str) -> object:
        """Raises ServerError, UnknownName, Denied."""
        ...

    def can_be_listed(self, name: str) -> bool: ...

    def retry_in_s(self, name: str) -> float: ...


class Relisting:
    """Schedules listings of one pool."""

    def __init__(self, servers: Listable, start_soon: Callable[..., None]) -> None:
        self._servers = servers
        self._start_soon = start_soon
        self._slots = anyio.CapacityLimiter(LIST_AT_ONCE)
        self._first: set[str] = set()
        """Servers never listed whose first attempt is still under way."""
        self._tried: set[str] = set()
        """Servers never listed that are tried again until they are."""
        self._changed_again: dict[str, bool] = {}
        """Servers whose listing is being refreshed, and whether they changed once more meanwhile."""

    @property
    def starting(self) -> frozenset[str]:
        """Servers that have never been listed and are being listed for the first time now."""
        return frozenset(self._first)

    def list_first(self, names: Iterable[str]) -> None:
        """List servers of which nothing is known, again until it succeeds or `LIST_ATTEMPTS` have failed."""
        for name in names:
            if name not in self._tried and self._servers.can_be_listed(name):
                self._tried.add(name)
                self._first.add(name)
                self._start_soon(self._list_first, name)

    def confirm(self, names: Iterable[str]) -> None:
        """List servers whose cached listing may be out of date, one after the other: each may start a process."""
        if usable := [name for name in names if self._servers.can_be_listed(name)]:
            self._start_soon(self._confirm, usable)

    def note_change(self, name: str) -> None:
        """List again soon; a storm of notices costs one listing at a time."""
        if name in self._changed_again:
            self._changed_again[name] = True
            return
        self._changed_again[name] = False
        self._start_soon(self._refresh_changed, name)

    async def wait_for_first(self, limit_s: float) -> None:
        """Return when every server has been listed or has failed once, or after `limit_s`."""
        with anyio.move_on_after(limit_s):
            while self._first:
                await anyio.sleep(0.02)

    async def _list_first(self, name: str) -> None:
        try:
            for attempt in range(LIST_ATTEMPTS):
                if await self._listed(name) or not self._servers.can_be_listed(name):
                    return
                self._first.discard(name)
                if attempt + 1 < LIST_ATTEMPTS:
                    await anyio.sleep(max(1.0, self._servers.retry_in_s(name)))
        finally:
            self._first.discard(name)
            self._tried.discard(name)

    async def _confirm(self, names: list[str]) -> None:
        for name in names:
            await self._listed(name)

    async def _listed(self, name: str) -> bool:
        try:
            async with self._turn():
                if self._servers.can_be_listed(name):
                    await self._servers.refresh(name)
            return True
        except (ServerError, UnknownName, Denied) as error:
            logger.debug("listing %s: %s", name, error)
            return False

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        """A few are listed at a time; one that hangs gives its turn away."""
        ticket, done = object(), anyio.Event()
        await self._slots.acquire_on_behalf_of(ticket)
        self._start_soon(self._end_turn, ticket, done)
        try:
            yield
        finally:
            done.set()

    async def _end_turn(self, ticket: object, done: anyio.Event) -> None:
        with anyio.move_on_after(TURN_S):
            await done.wait()
        self._slots.release_on_behalf_of(ticket)

    async def _refresh_changed(self, name: str) -> None:
        try:
            while True:
                await anyio.sleep(DEBOUNCE_S)
                self._changed_again[name] = False
                if not self._servers.can_be_listed(name):
                    return
                await self._servers.refresh(name)
                if not self._changed_again[name]:
                    return
        except (ServerError, UnknownName, Denied) as error:
            logger.debug("refreshing %s: %s", name, error)
        finally:
            del self._changed_again[name]
