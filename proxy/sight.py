"""What of the gateway an agent gets to see: everything, or only the servers that its token names.

Above: metatools/ and endpoint/, which are built anew for each sight and so need not know of tokens. Below: gateway.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from proxy.catalog.catalog import Catalog
from proxy.catalog.records import ToolRecord
from proxy.errors import UnknownName
from proxy.gateway import Gateway
from proxy.router.base import Query, Ranker, Ranking
from proxy.router.current import Built
from proxy.servers.permission import Permissions
from proxy.servers.pool import Pool


class Sight(Protocol):
    """What meta-tools and modes need of a gateway; `Gateway` itself is the widest."""

    @property
    def catalog(self) -> Catalog: ...

    @property
    def pool(self) -> Pool: ...

    @property
    def permissions(self) -> Permissions: ...

    async def router(self, wait_s: float) -> Built: ...

    async def tool(self, name: str, wait_s: float) -> ToolRecord: ...


class PastSight:
    """A gateway as it was with an earlier catalogue, to tell the log what agents saw then; nothing is called by it."""

    def __init__(self, gateway: Gateway, catalog: Catalog) -> None:
        self.catalog = catalog
        self._gateway = gateway

    @property
    def pool(self) -> Pool:
        return self._gateway.pool

    @property
    def permissions(self) -> Permissions:
        return self._gateway.permissions

    async def router(self, wait_s: float) -> Built:
        return await self._gateway.router(wait_s)

    async def tool(self, name: str, wait_s: float) -> ToolRecord:
        return self.catalog.tool(name)


class NarrowSight:
    """A gateway of which only some servers exist."""

    def __init__(self, gateway: Gateway, servers: frozenset[str]) -> None:
        """`servers`: names in the configuration; one that is not there is simply not seen."""
        self._gateway = gateway
        self._servers = servers
        self._whole: Catalog | None = None
        self._seen = Catalog()

    @property
    def catalog(self) -> Catalog:
        whole = self._gateway.catalog
        if self._whole is not whole:
            self._whole, self._seen = whole, whole.only(self._servers)
        return self._seen

    @property
    def pool(self) -> Pool:
        return self._gateway.pool

    @property
    def permissions(self) -> Permissions:
        return self._gateway.permissions

    async def router(self, wait_s: float) -> Built:
        built = await self._gateway.router(wait_s)
        seen = built.catalog.only(self._servers)
        return Built(seen, _Within(built.ranker, frozenset(server.written for server in seen.servers)))

    async def tool(self, name: str, wait_s: float) -> ToolRecord:
        try:
            return self.catalog.tool(name)
        except UnknownName:
            if not self.pool.first_listings & self._servers:
                raise
        await self.pool.wait_for_first_listings(wait_s)
        return self.catalog.tool(name)


class _Within:
    """A ranker that ranks nothing of other servers."""

    def __init__(self, ranker: Ranker, servers: frozenset[str]) -> None:
        self._ranker = ranker
        self._servers = servers

    async def rank(self, query: Query, limit: int) -> Ranking:
        asked = self._servers if query.servers is None else query.servers & self._servers
        return await self._ranker.rank(replace(query, servers=asked), limit)
