"""The gateway's state and its life: configuration in, catalogue out, servers behind it.

Above: endpoint/ and metatools/, which read `catalog` and call through `pool`. app.py makes the parts and hands them in.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Set
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import anyio.to_thread

from proxy.catalog.cache import ListingCache
from proxy.catalog.catalog import Catalog, Source, build_catalog, digest_of
from proxy.catalog.lookalikes import lookalikes
from proxy.catalog.purpose import purpose
from proxy.catalog.records import Listing, ToolRecord
from proxy.catalog.text import one_line
from proxy.errors import ConfigurationError, UnknownName
from proxy.router.base import RouterFactory
from proxy.router.current import Built, CurrentRouter, Serve, in_process
from proxy.servers.config import ServerConfig
from proxy.servers.configfile import Configuration
from proxy.servers.permission import Permissions, least_level, level_of
from proxy.servers.pins import PinStore
from proxy.servers.pool import Pool
from proxy.servers.review import Review, Reviewer, withholding
from proxy.servers.transports import OpenTransport
from proxy.store.recorder import Level

logger = logging.getLogger("toolatlas.gateway")

STALE_AFTER_S = 3600.0
"""A cached listing older than this is confirmed in the background; a server that is started is listed anew anyway."""
LOOK_S = 0.5
"""How often to look whether something was accepted."""
PROBLEM_CHARS = 400
PAST_CATALOGS = 8
"""Kept for the log, which asks for a catalogue a moment after a step was made with it."""
WAITING = "waiting to be accepted"
WITHHELD = "withheld"


class Gateway:
    """Use inside `async with gateway.running(configuration)`."""

    def __init__(
        self,
        cache: ListingCache,
        open_transport: OpenTransport,
        router: RouterFactory,
        pins: PinStore,
        *,
        serve: Serve | None = None,
        roots: bool = True,
    ) -> None:
        self._cache = cache
        self._reviewer = Reviewer(pins)
        self._configs: dict[str, ServerConfig] = {}
        """As the configuration has them; the pool's cannot be used while they are withheld."""
        self.private: dict[str, Level] = {}
        """Servers that are not logged in full, by configured name, with the least that holds for any of their tools."""
        self._similar: frozenset[str] = frozenset()
        """Names that can be taken for others, as far as they were reported."""
        self._router = CurrentRouter(router, serve or in_process)
        self._prepares = serve is not None
        """A process has much to do for a new catalogue: not only once somebody searches it."""
        self._listings: dict[str, tuple[str, Listing]] = {}
        """Configured name -> (server identity, its last listing)."""
        self._digests: dict[str, tuple[Listing, str]] = {}
        """Configured name -> (a listing as it is shown, its digest)."""
        self._past: OrderedDict[str, Catalog] = OrderedDict()
        self._listeners: list[Callable[[], None]] = []
        self.pool = Pool(open_transport, self._take_listing, self._note_asking, roots=roots)
        self.permissions = Permissions({})
        self.catalog = Catalog()
        self.warnings: tuple[str, ...] = ()

    @asynccontextmanager
    async def running(self, configuration: Configuration) -> AsyncGenerator[None]:
        async with self.pool.running(), anyio.create_task_group() as tasks:
            await self.apply(configuration)
            if self._prepares and self.catalog.tools:
                # As the last run left it, it rarely changes while servers start.
                self._router.prepare(self.catalog)
            tasks.start_soon(self._look_around)
            yield
            tasks.cancel_scope.cancel()

    async def apply(self, configuration: Configuration) -> None:
        """Take over a configuration, now or later, without disturbing what did not change."""
        self._configs = {server.name: server for server in configuration.servers}
        least = {name: least_level(config) for name, config in self._configs.items()}
        self.private = {name: level for name, level in least.items() if level is not Level.FULL}
        self._listings = {name: known for name, known in self._listings.items() if name in self._configs}
        self.warnings = configuration.warnings
        for warning in configuration.warnings:
            logger.warning("%s", warning)
        for config in self._configs.values():
            if config.enabled and config.disabled_reason is not None:
                logger.warning("server %s cannot be used: %s", config.name, config.disabled_reason)
        known = {name for name, config in self._configs.items() if self._known(config)}
        stale = {name for name in known if self._cache.age_s(self._configs[name].identity) > STALE_AFTER_S}
        await self._admit(stale)

    async def _admit(self, stale: Set[str] = frozenset()) -> None:
        """Hand the pool the configuration, but for servers that are withheld: no path starts or asks one."""
        reviews = {name: self._reviewer.admit(config) for name, config in self._configs.items() if config.usable}
        configs = withholding(self._configs, reviews)
        unlisted = {name for name, config in configs.items() if name not in self._listings and config.usable}
        asking = {name for name, (_, listing) in self._listings.items() if listing.asks}
        await self.pool.apply(configs, unlisted, stale, asking)
        self._rebuild()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever the catalogue was replaced."""
        self._listeners.append(listener)

    async def router(self, wait_s: float) -> Built:
        """The router, once servers being listed for the first time are done or `wait_s` is over."""
        await self.pool.wait_for_first_listings(wait_s)
        return await self._router.get(self.catalog, wait_s)

    async def tool(self, name: str, wait_s: float) -> ToolRecord:
        """The tool of that written name; waits for servers being listed for the first time before it gives up.

        Raises:
            UnknownName, Denied: As `Catalog.tool` does.
        """
        try:
            return self.catalog.tool(name)
        except UnknownName:
            if not self.pool.starting:
                raise
        await self.pool.wait_for_first_listings(wait_s)
        return self.catalog.tool(name)

    async def inspect(self, name: str) -> Listing:
        """List a server now for its owner, even one that is withheld. For commands: agents of this gateway could use
        the server meanwhile.

        Raises:
            ServerError, UnknownName, Denied: As `Pool.refresh` does.
        """
        await self.pool.apply({**self.pool.configs, name: self._configs[name]}, frozenset())
        try:
            return await self.pool.refresh(name)
        finally:
            await self._admit()

    def past_catalog(self, hashed: str) -> Catalog | None:
        """A catalogue of a moment ago, by its hash."""
        return self._past.get(hashed)

    def level(self, server: str, tool: str) -> Level:
        """How much of a call may be written."""
        config = self._configs.get(server)
        return Level.FULL if config is None else level_of(config, tool)

    def keep_configuration(self, error: ConfigurationError) -> None:
        logger.error("the changed configuration is not taken over, the earlier one stays in force: %s", error)

    def _known(self, config: ServerConfig) -> bool:
        """Whether a listing of exactly this server is at hand; takes it from the disk cache."""
        identity, _ = self._listings.get(config.name, (None, None))
        if identity == config.identity:
            return True
        self._listings.pop(config.name, None)
        listing = self._cache.load(config.identity)
        if listing is not None:
            self._listings[config.name] = (config.identity, listing)
        return listing is not None

    def _take_listing(self, config: ServerConfig, listing: Listing) -> None:
        try:
            self._cache.store(config.identity, listing)
        except OSError as error:
            logger.warning("the listing of %s cannot be kept on disk: %s", config.name, error)
        if self._listings.get(config.name) == (config.identity, listing):
            return
        for problem in listing.problems:
            logger.warning("server %s: %s", config.name, one_line(problem, PROBLEM_CHARS))
        self._listings[config.name] = (config.identity, listing)
        self._rebuild()

    def _note_asking(self, config: ServerConfig) -> None:
        """Remember over restarts that a server puts questions to agents."""
        identity, listing = self._listings.get(config.name, (None, None))
        if listing is not None and identity == config.identity:
            self._take_listing(config, replace(listing, asks=True))

    async def _look_around(self) -> None:
        """Take over what another process accepts, report names that look like others, and have a router made for a
        catalogue that stays, a moment after it happens."""
        looked_at: Catalog | None = None
        while True:
            if await anyio.to_thread.run_sync(self._reviewer.pins_changed):
                await self._recheck()
            if looked_at is not self.catalog:
                looked_at = self.catalog
                similar = await anyio.to_thread.run_sync(lookalikes, looked_at.servers)
                for lookalike in similar:
                    if lookalike.text not in self._similar:
                        logger.warning("%s", lookalike.text)
                self._similar = frozenset(lookalike.text for lookalike in similar)
            elif self._prepares:
                self._router.prepare(self.catalog)
            await anyio.sleep(LOOK_S)

    async def _recheck(self) -> None:
        before = self.permissions.reviews
        now = {name: self._review(config) for name, config in self._configs.items() if name in before}
        if any(now[name].withheld != before[name].withheld for name in now):
            await self._admit()
        elif now != before:
            self._rebuild()

    def _review(self, config: ServerConfig) -> Review:
        _, listing = self._listings.get(config.name, (None, None))
        return self._reviewer.admit(config) if listing is None else self._reviewer.review(config, listing)

    def _rebuild(self) -> None:
        shown = [config for config in self._configs.values() if config.enabled]
        reviews = {config.name: self._review(config) for config in shown if config.usable}
        for name, review in reviews.items():
            self._reviewer.tell(name, review)
        self.permissions = Permissions(self._configs, reviews)
        self.catalog = build_catalog(map(self._source, shown), self.permissions.refusal)
        self._past[self.catalog.hash] = self.catalog
        if len(self._past) > PAST_CATALOGS:
            self._past.popitem(last=False)
        for listener in self._listeners:
            listener()

    def _source(self, config: ServerConfig) -> Source:
        """What the catalogue is told: of a server that is withheld its name alone."""
        review = self.permissions.review(config.name)
        if review.withheld is not None:
            return Source(config.name, WAITING if review.waiting else WITHHELD, None, review.withheld)
        _, listing = self._listings.get(config.name, (None, None))
        if listing is None:
            return Source(config.name, purpose(config.description, None), None)
        listing = review.shown(listing)
        refusal = self.permissions.refusal
        # A purpose that names tools must not name those that are refused.
        permitted = tuple(tool for tool in listing.tools if refusal(config.name, str(tool["name"])) is None)
        described = purpose(config.description, replace(listing, tools=permitted))
        return Source(config.name, described, listing, digest=self._digest(config.name, listing))

    def _digest(self, server: str, listing: Listing) -> str:
        known, digest = self._digests.get(server, (None, ""))
        if known is not listing:
            digest = digest_of(listing)
            self._digests[server] = (listing, digest)
        return digest
