"""Ranking for agents: by the router's process within a budget, else by words at once.

Above: app.py, whose gateway serves with it, and whoever promotes adapters. Below: process.py, and the lexical router.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import anyio

from proxy.catalog.catalog import Catalog
from proxy.errors import ConfigurationError
from proxy.router.base import Query, Ranker, Ranking, Router
from proxy.router.process import RouterProcess
from proxy.router.unanswered import NoAnswer, Why

logger = logging.getLogger("toolatlas.router")

MAX_SHADOWS = 32
"""Queries that wait for the shadow's ranking; more are left out, and counted."""
SHADOW_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """Folders of the adapters in force; None is the router without one."""

    active: Path | None = None
    shadow: Path | None = None
    """Ranks after every answer, for comparison; agents see nothing of it."""
    canary: Path | None = None
    share: float = 0.0
    """Of tasks that the canary answers, 0 to 1."""

    @property
    def folders(self) -> frozenset[Path]:
        return frozenset(each for each in (self.active, self.shadow, self.canary) if each is not None)

    def of(self, episode: str | None) -> Path | None:
        """The adapter that answers a task, the same for all its searches and after every restart."""
        if self.canary is None or episode is None:
            return self.active
        return self.canary if in_canary(self.canary.name, episode, self.share) else self.active


def in_canary(name: str, episode: str, share: float) -> bool:
    """Whether a task is one of those that a canary answers; `name` is that of its folder. Whoever reads the log asks
    this, too: who was to answer counts there, and not who could."""
    # The name takes part, so that the next canary does not get the same tasks again.
    place = sha256(f"{name} {episode}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(place[:8], "big") < share * 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadowed:
    """A query that the shadow ranked, too."""

    query: Query
    served: Ranking
    shadow: Ranking


class Serving:
    """The way from queries to the router's process and back to words. `serve` is what a gateway is given."""

    def __init__(self, process: RouterProcess, budget_s: float, active: Path | None = None) -> None:
        """`active`: adapter to begin with; until it is loaded the router answers without it."""
        self.process = process
        self.observers: list[Callable[[Shadowed], None]] = []
        """Told of every ranking of the shadow; they must neither raise nor wait."""
        self.watchers: list[Callable[[Path | None, Why | None], None]] = []
        """Told of every query which adapter was to answer it, and why it did not; they must neither raise nor wait."""
        self.shadows = 0
        """Rankings of the shadow that there were."""
        self.shadows_lost = 0
        """Rankings of the shadow that did not come about."""
        self._budget_s = budget_s
        self._roles = Roles(active=active)
        self._changing = anyio.Lock()
        self._shadows: set[asyncio.Task[None]] = set()
        if active is not None:
            process.want(active)

    @property
    def roles(self) -> Roles:
        return self._roles

    def serve(self, catalog: Catalog, router: Router) -> Ranker:
        """`router`: the lexical one, for what the process does not answer."""
        self.process.offer(catalog)
        return ServingRanker(self, catalog.hash, router)

    async def set_adapters(
        self,
        active: Path | None = None,
        shadow: Path | None = None,
        canary: Path | None = None,
        share: float = 0.0,
    ) -> None:
        """Load what is not loaded beside what is in force, then change over at one moment. No query is lost: each is
        answered by what was in force when it was asked.

        Raises:
            ConfigurationError: One cannot be loaded, or the share is none; what was in force stays in force.
        """
        if not 0.0 <= share <= 1.0:
            raise ConfigurationError(f"a canary gets a share of tasks between 0 and 1, not {share}")
        roles = Roles(active=active, shadow=shadow, canary=canary, share=share)
        async with self._changing:
            try:
                # What is in force is loaded again with every start of the process, and not waited for: to take an
                # adapter away must not take time.
                for folder in sorted(roles.folders - self._roles.folders):
                    await self.process.load(folder)
            except BaseException:
                self._drop(roles.folders - self._roles.folders)
                raise
            before, self._roles = self._roles, roles
            self._drop(before.folders - roles.folders)

    async def rank(self, catalog: str, query: Query, limit: int) -> Ranking:
        """Raises NoAnswer where the process has none."""
        adapter = self._roles.of(query.episode)
        try:
            ranking = await self.process.ask(catalog, query, limit, adapter, self._budget_s)
        except NoAnswer as error:
            self._tell(adapter, error.why)
            if error.why is not Why.UNADAPTED:
                raise
        else:
            self._tell(adapter, None)
            return ranking
        ranking = await self.process.ask(catalog, query, limit, None, self._budget_s)
        return replace(ranking, degraded=Why.UNADAPTED.value)

    def _tell(self, adapter: Path | None, why: Why | None) -> None:
        for watcher in self.watchers:
            watcher(adapter, why)

    def shadow(self, catalog: str, query: Query, limit: int, served: Ranking) -> None:
        """Begin to rank with the shadow, if there is one, what was answered."""
        folder = self._roles.shadow
        if folder is None:
            return
        if len(self._shadows) >= MAX_SHADOWS:
            self.shadows_lost += 1
            return
        task = asyncio.create_task(self._shadow(folder, catalog, query, limit, served))
        self._shadows.add(task)
        task.add_done_callback(self._shadows.discard)

    async def _shadow(self, folder: Path, catalog: str, query: Query, limit: int, served: Ranking) -> None:
        try:
            ranking = await self.process.ask_later(catalog, query, limit, folder, SHADOW_S)
        except NoAnswer:
            self.shadows_lost += 1
            return
        self.shadows += 1
        told = Shadowed(query=query, served=served, shadow=ranking)
        for observer in self.observers:
            observer(told)

    def _drop(self, folders: frozenset[Path]) -> None:
        for folder in folders:
            self.process.drop(folder)


class ServingRanker:
    """Ranks the tools of one catalogue."""

    def __init__(self, serving: Serving, catalog: str, lexical: Router) -> None:
        """`catalog`: its hash."""
        self._serving = serving
        self._catalog = catalog
        self._lexical = lexical

    async def rank(self, query: Query, limit: int) -> Ranking:
        try:
            ranking = await self._serving.rank(self._catalog, query, limit)
        except NoAnswer as error:
            return Ranking(tuple(self._lexical.rank(query, limit)), self._lexical.policy, degraded=error.why.value)
        self._serving.shadow(self._catalog, query, limit, ranking)
        return ranking
