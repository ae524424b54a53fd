"""The router for the catalogue of the moment: built off the event loop, one build at a time, the old one until then."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import anyio
import anyio.to_thread

from proxy.catalog.catalog import Catalog
from proxy.router.base import Router, RouterFactory


@dataclass(frozen=True, slots=True)
class Built:
    """A router and the catalogue it was built for; its names resolve in that catalogue."""

    catalog: Catalog
    router: Router


class CurrentRouter:
    """Gives the router of a catalogue, or after `wait_s` the one before it."""

    def __init__(self, factory: RouterFactory) -> None:
        self._factory = factory
        self._built: Built | None = None
        self._building: asyncio.Task[None] | None = None

    async def get(self, catalog: Catalog, wait_s: float) -> Built:
        """Of `catalog`, or of an earlier catalogue if building takes longer than `wait_s` and there is one."""
        if self._built is not None and self._built.catalog is catalog:
            return self._built
        if self._built is not None:
            with anyio.move_on_after(wait_s):
                return await self._build(catalog)
            return self._built
        return await self._build(catalog)

    async def _build(self, catalog: Catalog) -> Built:
        while self._built is None or self._built.catalog is not catalog:
            if self._building is None:
                self._building = asyncio.create_task(self._construct(catalog))
            # Who stops waiting does not stop the build: the next one needs it. A thread could not be stopped anyway.
            await asyncio.shield(self._building)
        return self._built

    async def _construct(self, catalog: Catalog) -> None:
        try:
            self._built = Built(catalog, await anyio.to_thread.run_sync(self._factory, catalog.servers))
        finally:
            self._building = None
