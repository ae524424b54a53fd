"""The gateway's state and its life: configuration in, catalogue out, servers behind it.

Above: endpoint/ and metatools/, which read `catalog` and call through `pool`. app.py makes the parts and hands them in.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from proxy.catalog.cache import ListingCache
from proxy.catalog.catalog import Catalog, Source, build_catalog
from proxy.catalog.purpose import purpose
from proxy.catalog.records import Listing, ToolRecord
from proxy.errors import ConfigurationError, UnknownName
from proxy.router.base import RouterFactory
from proxy.router.current import Built, CurrentRouter
from proxy.servers.config import ServerConfig
from proxy.servers.configfile import Configuration
from proxy.servers.permission import Permissions
from proxy.servers.pool import Pool
from proxy.servers.transports import OpenTransport

logger = logging.getLogger("toolatlas.gateway")

STALE_AFTER_S = 3600.0
"""A cached listing older than this is confirmed in the background; a server that is started is listed anew anyway."""


class Gateway:
    """Use inside `async with gateway.running(configuration)`."""

    def __init__(self, cache: ListingCache, open_transport: OpenTransport, router: RouterFactory) -> None:
        self._cache = cache
        self._router = CurrentRouter(router)
        self._listings: dict[str, tuple[str, Listing]] = {}
        """Configured name -> (server identity, its last listing)."""
        self._listeners: list[Callable[[], None]] = []
        self.pool = Pool(open_transport, self._take_listing)
        self.permissions = Permissions({})
        self.catalog = Catalog()
        self.warnings: tuple[str, ...] = ()

    @asynccontextmanager
    async def running(self, configuration: Configuration) -> AsyncGenerator[None]:
        async with self.pool.running():
            await self.apply(configuration)
            yield

    async def apply(self, configuration: Configuration) -> None:
        """Take over a configuration, now or later, without disturbing what did not change."""
        configs = {server.name: server for server in configuration.servers}
        unlisted = {name for name, config in configs.items() if not self._known(config)}
        self._listings = {name: known for name, known in self._listings.items() if name in configs}
        self.warnings = configuration.warnings
        for warning in configuration.warnings:
            logger.warning("%s", warning)
        for config in configs.values():
            if config.enabled and config.disabled_reason is not None:
                logger.warning("server %s cannot be used: %s", config.name, config.disabled_reason)
        self.permissions = Permissions(configs)
        stale = {name for name, config in configs.items() if self._cache.age_s(config.identity) > STALE_AFTER_S}
        await self.pool.apply(configs, unlisted, stale - unlisted)
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
            logger.warning("server %s: %s", config.name, problem)
        self._listings[config.name] = (config.identity, listing)
        self._rebuild()

    def _rebuild(self) -> None:
        sources: list[Source] = []
        for name, config in self.pool.configs.items():
            if config.enabled:
                listing = self._listings[name][1] if name in self._listings else None
                sources.append(Source(name, purpose(config.description, listing), listing))
        self.catalog = build_catalog(sources, self.permissions.refusal)
        for listener in self._listeners:
            listener()
