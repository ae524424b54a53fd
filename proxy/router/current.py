"""The router for the catalogue of the moment: built off the event loop, one build at a time, the old one until then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import anyio
import anyio.to_thread

from proxy.catalog.catalog import Catalog
from proxy.router.base import Query, Ranker, Ranking, Router, RouterFactory

Serve = Callable[[Catalog, Router], Ranker]
"""Makes of a catalogue and the router that was built for it what meta-tools ask. Called on the event loop; quick."""


@dataclass(frozen=True, slots=True)
class Built:
    """A ranker and the catalogue it was built for; its names resolve in that catalogue."""

    catalog: Catalog
    ranker: Ranker


class InProcess:
    """Ranks with the router itself, on the event loop."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def rank(self, query: Query, limit: int) -> Ranking:
        return Ranking(tuple(self._router.rank(query, limit)), self._router.policy)


def in_process(catalog: Catalog, router: Router) -> Ranker:
    """The `Serve` of a gateway without a process for its router."""
    return InProcess(router)


class CurrentRouter:
    """Gives the ranker of a catalogue, or after `wait_s` the one before it."""

    def __init__(self, factory: RouterFactory, serve: Serve = in_process) -> None:
        self._factory = factory
        self._serve = serve
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

    def prepare(self, catalog: Catalog) -> None:
        """Begin to build, if need be, so that nobody waits for it later."""
        if self._building is None and (self._built is None or self._built.catalog is not catalog):
            self._building = asyncio.create_task(self._construct(catalog))

    async def _build(self, catalog: Catalog) -> Built:
        while self._built is None or self._built.catalog is not catalog:
            if self._building is None:
                self._building = asyncio.create_task(self._construct(catalog))
            # Who stops waiting does not stop the build: the next one needs it. A thread could not be stopped anyway.
            await asyncio.shield(self._building)
        return self._built

    async def _construct(self, catalog: Catalog) -> None:
        try:
            router = await anyio.to_thread.run_sync(self._factory, catalog.servers)
            self._built = Built(catalog, self._serve(catalog, router))
        finally:
            self._building = None
