"""Tells agents what changed behind the gateway: lists of tools, resources and prompts, and resources that they follow.

Above: server.py, which enrols agents. Below: the pool's notices and the gateway's catalogue. An initialize-era agent is
told on its session, one of 2026-07-28 on the stream that it opened with `subscriptions/listen`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

import anyio
from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from proxy.catalog.catalog import Catalog
from proxy.catalog.records import ServerRecord
from proxy.errors import GatewayError, InvalidArguments
from proxy.servers.origin import Origin
from proxy.servers.pool import Notice, Pool, Subscription

logger = logging.getLogger("toolatlas.endpoint")

MAX_FOLLOWED = 1_000
"""Resources that one session or stream follows."""
TELL_WITHIN_S = 5.0
"""An agent that does not read what it is sent must not hold up the others for longer."""
DEBOUNCE_S = 0.2
KINDS: Mapping[str, ServerEvent] = {
    "notifications/tools/list_changed": ToolsListChanged(),
    "notifications/resources/list_changed": ResourcesListChanged(),
    "notifications/prompts/list_changed": PromptsListChanged(),
}


class Listener(Protocol):
    """The way to one agent's ear."""

    async def hear(self, event: ServerEvent) -> None: ...


class OnSession:
    """An initialize-era session."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def hear(self, event: ServerEvent) -> None:
        if isinstance(event, ResourceUpdated):
            await self._connection.send_resource_updated(event.uri)
            return
        await self._connection.notify(next(method for method, kind in KINDS.items() if kind == event), None)


class OnStream:
    """A 2026-07-28 stream; the SDK's handler filters what the agent asked for."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()

    async def hear(self, event: ServerEvent) -> None:
        await self.bus.publish(event)


@dataclass(eq=False, slots=True)
class Follower:
    """One agent that wants to be told."""

    listener: Listener
    session: str
    server: str | None
    """The only server behind its address (`/mcp/{server}`), or None for all."""
    seen: frozenset[str] | None
    """Configured names of the servers that its credential is held to; None means all."""
    tools_change: bool
    """Whether the tools it sees are those of servers; the gateway's own never change."""
    resources: dict[Subscription, str] = field(default_factory=dict[Subscription, str])
    """What it follows, and the address that it knows the resource by."""

    def sees(self, server: str) -> bool:
        """Whether it may know of that server at all."""
        return self.server in (None, server) and (self.seen is None or server in self.seen)


class Changes:
    """Everybody who is to be told."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._followers: dict[Follower, None] = {}
        self._catalog = Catalog()
        self._pending: set[tuple[str, str, str]] = set()
        self._updates: set[tuple[Follower, str]] = set()
        """What is to be told in a moment, once for all notices until then."""
        pool.on_notice = self._notice

    @contextmanager
    def follow(self, follower: Follower) -> Generator[Follower]:
        self._followers[follower] = None
        try:
            yield follower
        finally:
            del self._followers[follower]
            for subscription in list(follower.resources):
                self._pool.start_soon(self._quietly, self._pool.unsubscribe, subscription)

    async def subscribe(self, follower: Follower, server: str, uri: str, address: str, origin: Origin) -> None:
        """Tell of changes of a server's resource, under the address that the agent uses.

        Raises:
            GatewayError: As `Pool.subscribe` does, or too many are followed.
        """
        if address in follower.resources.values():
            return
        if len(follower.resources) >= MAX_FOLLOWED:
            raise InvalidArguments(f"{MAX_FOLLOWED} resources are followed here, and no more can be; unsubscribe some")
        subscription = await self._pool.subscribe(server, uri, origin)
        if follower in self._followers and subscription not in follower.resources:
            follower.resources[subscription] = address
        else:
            # It left while the server was being asked, or asked for the same in two ways.
            await self._pool.unsubscribe(subscription)

    async def unsubscribe(self, follower: Follower, address: str) -> None:
        """Undo `subscribe`. Raises as it does."""
        for subscription, known in list(follower.resources.items()):
            if known == address:
                del follower.resources[subscription]
                await self._pool.unsubscribe(subscription)

    def catalogue_changed(self, catalog: Catalog) -> None:
        """Tell those who see what differs from the last catalogue."""
        before = {server.name: server for server in self._catalog.servers}
        after = {server.name: server for server in catalog.servers}
        self._catalog = catalog
        for name in before.keys() | after.keys():
            old, new = before.get(name), after.get(name)
            if _tools(old) != _tools(new):
                self._tell(ToolsListChanged(), lambda each, n=name: each.tools_change and each.sees(n))
            # Whoever sees one server has its own word for these, at once; what all see is as old as the listing.
            if _resources(old) != _resources(new):
                self._tell(ResourcesListChanged(), lambda each, n=name: each.server is None and each.sees(n))
            if _prompts(old) != _prompts(new):
                self._tell(PromptsListChanged(), lambda each, n=name: each.server is None and each.sees(n))

    def _notice(self, notice: Notice) -> None:
        if notice.method == "notifications/resources/updated":
            self._updated(notice)
        elif notice.method != "notifications/tools/list_changed":
            kind = (notice.key.name, notice.key.session, notice.method)
            if kind not in self._pending:
                self._pending.add(kind)
                self._pool.start_soon(self._list_changed, kind)

    async def _list_changed(self, kind: tuple[str, str, str]) -> None:
        """A storm of notices is told once."""
        await anyio.sleep(DEBOUNCE_S)
        self._pending.discard(kind)
        server, session, method = kind
        self._tell(
            KINDS[method],
            lambda each: each.server == server and each.sees(server) and session in ("", each.session),
        )

    def _updated(self, notice: Notice) -> None:
        uri = notice.params.get("uri")
        if not isinstance(uri, str):
            return
        for follower in self._followers:
            for subscription, address in follower.resources.items():
                # A server may name a part of what is followed.
                if subscription.key == notice.key and uri.startswith(subscription.uri):
                    told = (follower, address + uri[len(subscription.uri) :])
                    if told not in self._updates:
                        self._updates.add(told)
                        self._pool.start_soon(self._tell_update, *told)

    async def _tell_update(self, follower: Follower, address: str) -> None:
        await anyio.sleep(DEBOUNCE_S)
        self._updates.discard((follower, address))
        await self._heard(follower, ResourceUpdated(address))

    def _tell(self, event: ServerEvent, concerns: Callable[[Follower], bool]) -> None:
        for follower in self._followers:
            if concerns(follower):
                self._pool.start_soon(self._heard, follower, event)

    async def _heard(self, follower: Follower, event: ServerEvent) -> None:
        with anyio.move_on_after(TELL_WITHIN_S), suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await follower.listener.hear(event)

    async def _quietly(self, undo: Callable[[Subscription], Awaitable[None]], subscription: Subscription) -> None:
        try:
            await undo(subscription)
        except GatewayError as error:
            logger.debug("ending a subscription: %s", error)


def _tools(server: ServerRecord | None) -> object:
    return None if server is None else [tool.raw for tool in server.tools]


def _resources(server: ServerRecord | None) -> object:
    listing = server.listing if server is not None else None
    return ((), ()) if listing is None else (listing.resources, listing.templates)


def _prompts(server: ServerRecord | None) -> object:
    listing = server.listing if server is not None else None
    return () if listing is None else listing.prompts
