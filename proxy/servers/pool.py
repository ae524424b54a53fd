"""From a configured server to its live connection: all supervisors, hot changes, and which agents share a connection.

Above: the gateway (proxy/gateway.py), which turns listings into the catalogue. Below: supervisor.py, relisting.py, and
sharing.py for which agents share a connection.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import anyio
from anyio.abc import TaskGroup

from proxy.catalog.records import Listing
from proxy.errors import Denied, UnknownName
from proxy.servers.config import Approve, OnChange, OnNew, ServerConfig
from proxy.servers.connection import Terms
from proxy.servers.flights import Call
from proxy.servers.listing import list_server
from proxy.servers.origin import Origin
from proxy.servers.questions import answered
from proxy.servers.relisting import Relisting
from proxy.servers.sharing import Key, Sharing, with_forwarded
from proxy.servers.supervisor import Phase, ServerState, Supervisor
from proxy.servers.transports import OpenTransport

logger = logging.getLogger("toolatlas.servers")

OnListing = Callable[[ServerConfig, Listing], None]

GOODBYE_S = 3.0
"""What the servers get together to hear that the gateway ends."""
MAX_OWN = 4
"""Connections of one agent to one server, which differ by the headers that are passed on."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A server tells of a change: of one of its lists, or of a resource that is followed."""

    key: Key
    """The connection that it came on; with a session, it concerns that agent alone."""
    method: str
    params: Mapping[str, Any]


class Subscription(NamedTuple):
    """A resource that is followed on one connection."""

    key: Key
    uri: str


class Pool:
    """Live servers by configured name. Use inside `async with pool.running()`."""

    def __init__(
        self,
        open_transport: OpenTransport,
        on_listing: OnListing,
        on_asking: Callable[[ServerConfig], None] = lambda config: None,
        *,
        roots: bool = True,
    ) -> None:
        """`on_asking` hears once of a server that puts a question to an agent. `roots` says whether agents may tell
        servers their roots: these are folders of this machine, so only its own users may.
        """
        self._open_transport = open_transport
        self._on_listing = on_listing
        self._on_asking = on_asking
        self._sharing = Sharing(roots)
        self._configs: dict[str, ServerConfig] = {}
        self._supervisors: dict[Key, Supervisor] = {}
        self._tasks: TaskGroup | None = None
        self._relisting = Relisting(self, self.start_soon)
        self._listing_now: Counter[str] = Counter()
        """How many listings of a server are under way."""
        self._followed: Counter[Subscription] = Counter()
        self.on_notice: Callable[[Notice], None] = lambda notice: None
        """Set by whoever passes changes on to agents."""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                # Cancelled they would not say goodbye, and a server over HTTP would keep a session for nobody.
                with anyio.move_on_after(GOODBYE_S, shield=True):
                    async with anyio.create_task_group() as ending:
                        for supervisor in self._supervisors.values():
                            ending.start_soon(supervisor.stop)
                tasks.cancel_scope.cancel()

    @property
    def configs(self) -> Mapping[str, ServerConfig]:
        return self._configs

    @property
    def starting(self) -> int:
        """How many servers have never been listed and are being listed for the first time now."""
        return len(self.first_listings)

    @property
    def first_listings(self) -> frozenset[str]:
        """The configured names of those servers."""
        return self._relisting.starting

    async def apply(
        self,
        configs: Mapping[str, ServerConfig],
        unlisted: Set[str],
        stale: Set[str] = frozenset(),
        asking: Set[str] = frozenset(),
    ) -> None:
        """Take over a configuration: stop what is gone or changed, list what is new.

        `unlisted` names the servers of which nothing is known yet, `stale` those whose listing should be confirmed,
        `asking` those that are known to put questions.
        """
        gone = [
            key
            for key in self._supervisors
            if key.name not in configs or _process_of(configs[key.name]) != _process_of(self._configs[key.name])
        ]
        self._configs = dict(configs)
        self._sharing.apply(configs, asking)
        for key in gone:
            self._replace(key)
        self._relisting.list_first(unlisted)
        self._relisting.confirm(name for name in configs if name in stale)

    def state(self, name: str) -> ServerState:
        config = self._configs[name]
        if not config.usable:
            return ServerState(Phase.DISABLED, config.disabled_reason or "it is switched off (enabled: false)")
        if name in self._relisting.starting:
            return ServerState(Phase.STARTING)
        supervisor = self._supervisors.get(Key(name))
        return supervisor.state if supervisor is not None else ServerState(Phase.ASLEEP)

    async def request(self, name: str, call: Call) -> dict[str, Any]:
        """Send a request to a server on behalf of `call.origin`.

        Raises:
            UnknownName: Not configured (any more).
            Denied: Switched off.
            ServerError: It failed; see `Supervisor.request`.
        """

        async def send(call: Call) -> dict[str, Any]:
            # Looked up again in each round of questions: the configuration may have changed meanwhile.
            return await self._supervisor(self._key(name, call.origin), call.origin).request(call)

        return await answered(name, send, call)

    async def subscribe(self, name: str, uri: str, origin: Origin) -> Subscription:
        """Follow a resource: `on_notice` tells of its changes until `unsubscribe`. Raises as `request` does."""
        subscription = Subscription(self._key(name, origin), uri)
        self._followed[subscription] += 1
        if self._followed[subscription] == 1:
            try:
                await self._supervisor(subscription.key, origin).subscribe(uri)
            except BaseException:
                self._followed[subscription] -= 1
                raise
        return subscription

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Undo one `subscribe`; the last one undone ends it at the server."""
        self._followed[subscription] -= 1
        if self._followed[subscription] <= 0:
            del self._followed[subscription]
            if (supervisor := self._supervisors.get(subscription.key)) is not None:
                await supervisor.unsubscribe(subscription.uri)

    async def roots_changed(self, session: str) -> None:
        """Pass on that an agent's roots are others now, to the servers that it has a connection of its own to."""
        for key, supervisor in list(self._supervisors.items()):
            if key.session == session:
                await supervisor.notify("notifications/roots/list_changed")

    def release(self, session: str) -> None:
        """An agent's session is over: end the connections that were its own."""
        for key in [key for key in self._supervisors if key.session == session != ""]:
            self.start_soon(self._supervisors.pop(key).stop)

    async def refresh(self, name: str) -> Listing:
        """List a server now.

        Raises:
            ServerError, UnknownName, Denied: As `request` does.
        """
        supervisor = self._supervisor(self._key(name, None), None)
        config = self._configs[name]
        self._listing_now[name] += 1
        try:
            listing = await list_server(await supervisor.connection())
        finally:
            self._listing_now[name] -= 1
        supervisor.answered()
        # A listing of what the entry said before it was changed is of another server.
        if self._configs.get(name) == config:
            self._on_listing(config, replace(listing, asks=self._sharing.asks(config)))
        return listing

    async def wait_for_first_listings(self, limit_s: float) -> None:
        """Return when every server has been listed or has failed once, or after `limit_s`."""
        await self._relisting.wait_for_first(limit_s)

    def can_be_listed(self, name: str) -> bool:
        return name in self._configs and self._configs[name].usable

    def retry_in_s(self, name: str) -> float:
        supervisor = self._supervisors.get(Key(name))
        return supervisor.retry_in_s if supervisor is not None else 0.0

    def _key(self, name: str, origin: Origin | None) -> Key:
        config = self._configs.get(name)
        if config is None:
            raise UnknownName(f"server '{name}' is not configured any more; search again")
        if not config.usable:
            raise Denied(f"server '{name}' cannot be used: {self.state(name).reason}")
        return self._sharing.key(config, origin)

    def _supervisor(self, key: Key, origin: Origin | None) -> Supervisor:
        if key not in self._supervisors:
            assert self._tasks is not None
            config = self._configs[key.name]
            if key.session:
                self._forget_unused(key)
                assert origin is not None
                config = with_forwarded(config, origin)
            self._supervisors[key] = Supervisor(
                config,
                self._tasks,
                self._open_transport,
                self._terms(key, config, origin),
                # A session's own copy of a server says nothing new about its tools.
                on_ready=partial(self._list_started, key.name) if key == Key(key.name) else lambda: None,
            )
        return self._supervisors[key]

    def _terms(self, key: Key, config: ServerConfig, origin: Origin | None) -> Terms:
        return Terms(
            capabilities=self._sharing.declared(key, config, origin),
            owner=origin if key.session else None,
            on_notice=partial(self._noticed, key),
            # What a server asks on an agent's own connection tells nothing new.
            on_asked=partial(self._asked, self._configs[key.name]) if key == Key(key.name) else lambda: None,
        )

    def _asked(self, config: ServerConfig) -> None:
        if not self._sharing.asks(config):
            self._sharing.note_question(config)
            self._on_asking(config)

    async def _noticed(self, key: Key, method: str, params: Mapping[str, Any]) -> None:
        if method != "notifications/resources/updated":
            self._relisting.note_change(key.name)
        self.on_notice(Notice(key, method, params))

    def _replace(self, key: Key) -> None:
        """End a connection whose entry has changed; what is followed on it is followed on its successor."""
        old = self._supervisors.pop(key)
        self.start_soon(old.stop)
        uris = {subscription.uri for subscription in self._followed if subscription.key == key}
        if uris and self.can_be_listed(key.name):
            self._supervisor(key, old.owner).follow(uris)

    def _forget_unused(self, key: Key) -> None:
        """Agents' own connections that have ended by themselves, and the oldest of one agent that has too many: tokens
        that are forwarded change in time."""
        mine: list[tuple[float, Key]] = []
        for other, supervisor in list(self._supervisors.items()):
            if other.session and supervisor.unused:
                if supervisor.state.phase in (Phase.ASLEEP, Phase.DOWN):
                    del self._supervisors[other]
                elif (other.name, other.session) == (key.name, key.session):
                    mine.append((supervisor.last_used, other))
        for _, other in sorted(mine)[: max(0, len(mine) - MAX_OWN + 1)]:
            self.start_soon(self._supervisors.pop(other).stop)

    def _list_started(self, name: str) -> None:
        """A server that was started may have changed since; whoever starts it to list it is at it already."""
        if not self._listing_now[name]:
            self._relisting.note_change(name)

    def start_soon(self, function: Callable[..., Any], *args: Any) -> None:
        """Run something in the background for as long as the pool runs."""
        assert self._tasks is not None, "the pool is not running"
        self._tasks.start_soon(_contained, function, *args)


async def _contained(function: Callable[..., Any], *args: Any) -> None:
    """A defect in one background task must not end all servers."""
    try:
        await function(*args)
    except Exception:
        logger.exception("in the background of the pool")


def _process_of(config: ServerConfig) -> ServerConfig:
    """What a running connection depends on; the rest of an entry can change under it."""
    return replace(
        config,
        description=None,
        allow=(),
        deny=(),
        approve=Approve.NEVER,
        on_change=OnChange.REPORT,
        on_new=OnNew.ACCEPT,
    )
