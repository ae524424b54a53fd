"""From a configured server to its live connection: all supervisors, the background listing, hot changes.

Above: the gateway (proxy/gateway.py), which turns listings into the catalogue. Below: one supervisor per server, or one
per server and agent session where the configuration says `isolation: session`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Set
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
from anyio.abc import TaskGroup

from proxy.catalog.records import Listing
from proxy.errors import Denied, ServerError, UnknownName
from proxy.servers.config import Approve, Isolation, ServerConfig
from proxy.servers.connection import Call
from proxy.servers.listing import list_server
from proxy.servers.supervisor import Phase, ServerState, Supervisor
from proxy.servers.transports import OpenTransport

logger = logging.getLogger("toolatlas.servers")

LIST_AT_ONCE = 4
TURN_S = 5.0
"""A server that takes longer to be listed goes on, but lets the next one begin."""
LIST_ATTEMPTS = 5
DEBOUNCE_S = 0.2
SHARED = ""

OnListing = Callable[[ServerConfig, Listing], None]


class Pool:
    """Live servers by configured name. Use inside `async with pool.running()`."""

    def __init__(self, open_transport: OpenTransport, on_listing: OnListing) -> None:
        self._open_transport = open_transport
        self._on_listing = on_listing
        self._configs: dict[str, ServerConfig] = {}
        self._supervisors: dict[tuple[str, str], Supervisor] = {}
        self._tasks: TaskGroup | None = None
        self._list_slots = anyio.CapacityLimiter(LIST_AT_ONCE)
        self._first_listing: set[str] = set()
        """Servers never listed whose first attempt is still under way."""
        self._being_listed: set[str] = set()
        """Servers never listed that are tried again until they are."""
        self._listing_now: Counter[str] = Counter()
        """How many listings of a server are under way."""
        self._changed_again: dict[str, bool] = {}
        """Servers whose listing is being refreshed, and whether they changed once more meanwhile."""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    @property
    def configs(self) -> Mapping[str, ServerConfig]:
        return self._configs

    @property
    def starting(self) -> int:
        """How many servers have never been listed and are being listed for the first time now."""
        return len(self._first_listing)

    async def apply(
        self, configs: Mapping[str, ServerConfig], unlisted: Set[str], stale: Set[str] = frozenset()
    ) -> None:
        """Take over a configuration: stop what is gone or changed, list what is new.

        `unlisted` names the servers of which nothing is known yet, `stale` those whose listing should be confirmed.
        """
        gone = [
            (name, session)
            for name, session in self._supervisors
            if name not in configs or _process_of(configs[name]) != _process_of(self._configs[name])
        ]
        self._configs = dict(configs)
        for key in gone:
            self._start_soon(self._supervisors.pop(key).stop)
        for name in unlisted - self._being_listed:
            if configs[name].usable:
                self._first_listing.add(name)
                self._start_soon(self._list_first, name)
        usable = [name for name in configs if name in stale and configs[name].usable]
        if usable:
            self._start_soon(self._confirm, usable)

    def state(self, name: str) -> ServerState:
        config = self._configs[name]
        if not config.usable:
            return ServerState(Phase.DISABLED, config.disabled_reason or "it is switched off (enabled: false)")
        if name in self._first_listing:
            return ServerState(Phase.STARTING)
        supervisor = self._supervisors.get((name, SHARED))
        return supervisor.state if supervisor is not None else ServerState(Phase.ASLEEP)

    async def request(self, name: str, call: Call, session: str) -> dict[str, Any]:
        """Send a request to a server on behalf of an agent's session.

        Raises:
            UnknownName: Not configured (any more).
            Denied: Switched off.
            ServerError: It failed; see `Supervisor.request`.
        """
        return await self._supervisor(name, session).request(call)

    def release(self, session: str) -> None:
        """An agent's session is over: end the connections that were its own."""
        for key in [key for key in self._supervisors if key[1] == session != SHARED]:
            self._start_soon(self._supervisors.pop(key).stop)

    async def refresh(self, name: str) -> Listing:
        """List a server now.

        Raises:
            ServerError, UnknownName, Denied: As `request` does.
        """
        supervisor = self._supervisor(name, SHARED)
        config = self._configs[name]
        self._listing_now[name] += 1
        try:
            listing = await list_server(await supervisor.connection())
        finally:
            self._listing_now[name] -= 1
        supervisor.answered()
        # A listing of what the entry said before it was changed is of another server.
        if self._configs.get(name) == config:
            self._on_listing(config, listing)
        return listing

    async def wait_for_first_listings(self, limit_s: float) -> None:
        """Return when every server has been listed or has failed once, or after `limit_s`."""
        with anyio.move_on_after(limit_s):
            while self._first_listing:
                await anyio.sleep(0.02)

    def _supervisor(self, name: str, session: str) -> Supervisor:
        config = self._configs.get(name)
        if config is None:
            raise UnknownName(f"server '{name}' is not configured any more")
        if not config.usable:
            raise Denied(f"server '{name}' cannot be used: {self.state(name).reason}")
        key = (name, session if config.isolation is Isolation.SESSION else SHARED)
        if key not in self._supervisors:
            assert self._tasks is not None
            self._supervisors[key] = Supervisor(
                config,
                self._tasks,
                self._open_transport,
                on_tools_changed=lambda: self._tools_changed(name),
                # A session's own copy of a server says nothing new about its tools.
                on_ready=(lambda: self._list_started(name)) if key[1] == SHARED else (lambda: None),
            )
        return self._supervisors[key]

    async def _list_first(self, name: str) -> None:
        self._being_listed.add(name)
        try:
            for attempt in range(LIST_ATTEMPTS):
                try:
                    async with self._turn():
                        if name in self._configs:
                            await self.refresh(name)
                        return
                except (ServerError, UnknownName, Denied) as error:
                    logger.debug("listing %s: %s", name, error)
                self._first_listing.discard(name)
                supervisor = self._supervisors.get((name, SHARED))
                if attempt + 1 < LIST_ATTEMPTS:
                    await anyio.sleep(max(1.0, supervisor.retry_in_s if supervisor is not None else 0.0))
        finally:
            self._first_listing.discard(name)
            self._being_listed.discard(name)

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        """A few are listed at a time; one that hangs gives its turn away."""
        ticket, done = object(), anyio.Event()
        await self._list_slots.acquire_on_behalf_of(ticket)
        self._start_soon(self._end_turn, ticket, done)
        try:
            yield
        finally:
            done.set()

    async def _end_turn(self, ticket: object, done: anyio.Event) -> None:
        with anyio.move_on_after(TURN_S):
            await done.wait()
        self._list_slots.release_on_behalf_of(ticket)

    async def _confirm(self, names: list[str]) -> None:
        """One after the other: nobody waits for this, and each may cost the start of a process."""
        for name in names:
            try:
                async with self._turn():
                    await self.refresh(name)
            except (ServerError, UnknownName, Denied) as error:
                logger.debug("confirming %s: %s", name, error)

    def _list_started(self, name: str) -> None:
        """A server that was started may have changed since; whoever starts it to list it is at it already."""
        if not self._listing_now[name]:
            self._note_change(name)

    async def _tools_changed(self, name: str) -> None:
        self._note_change(name)

    def _note_change(self, name: str) -> None:
        """List again soon; a storm of notices costs one listing at a time."""
        if name in self._changed_again:
            self._changed_again[name] = True
            return
        self._changed_again[name] = False
        self._start_soon(self._refresh_changed, name)

    async def _refresh_changed(self, name: str) -> None:
        try:
            while True:
                await anyio.sleep(DEBOUNCE_S)
                self._changed_again[name] = False
                if name not in self._configs or not self._configs[name].usable:
                    return
                await self.refresh(name)
                if not self._changed_again[name]:
                    return
        except ServerError as error:
            logger.debug("refreshing %s: %s", name, error)
        finally:
            del self._changed_again[name]

    def _start_soon(self, function: Callable[..., Any], *args: Any) -> None:
        assert self._tasks is not None, "the pool is not running"
        self._tasks.start_soon(function, *args)


def _process_of(config: ServerConfig) -> ServerConfig:
    """What a running connection depends on; the rest of an entry can change under it."""
    return replace(config, description=None, allow=(), deny=(), approve=Approve.NEVER)
