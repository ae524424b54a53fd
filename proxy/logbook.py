"""The log of a running gateway: what writes it, what the pages read, and what keeps it in bounds.

Above: app.py. Below: store/, which knows neither catalogues nor tasks; here they are brought together.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import anyio

from proxy import __version__
from proxy.catalog.catalog import Catalog
from proxy.catalog.prior import Prior
from proxy.endpoint.search_mode import SearchMode
from proxy.gateway import Gateway
from proxy.service import Service
from proxy.settings import Settings
from proxy.store.database import Database
from proxy.store.deletions import deletions_since
from proxy.store.notice import first_start_notice, notice_due
from proxy.store.recorder import EndReason
from proxy.store.recording import StoreRecorder
from proxy.store.retention import prune
from proxy.store.snapshots import CatalogView
from proxy.store.uses import uses

logger = logging.getLogger("toolatlas.log")

USES_DAYS = 30
"""Whose uses settle the order in which servers are introduced."""
USES_S = 24 * 3600.0
"""How often that is settled anew: with every change, what agents' models had cached of the introduction is lost."""
FIRST_USES_S = 0.5
"""How long a start waits for it: who starts the gateway reads the introduction first."""
LOOK_S = 2.0
"""How often to look for what was to be deleted, and for tasks that nothing came for."""
PRUNE_S = 3600.0
Introduce = Callable[[Catalog], SearchMode]


class Logbook:
    """The recorder of a gateway and the database that it writes.

    Raises:
        ConfigurationError: The database's address or a pattern cannot be used.
    """

    def __init__(self, url: str, settings: Settings, key: bytes, gateway: Gateway, introduce: Introduce) -> None:
        """`key` is that of redaction; `introduce` gives the search mode of an earlier catalogue."""
        self.database = Database(url)
        self._gateway = gateway
        self._introduce = introduce
        self._state_dir = settings.state_dir
        self._folder = settings.state_dir / "log"
        self._retention_days = settings.retention_days
        self.recorder = StoreRecorder(
            self._folder,
            url,
            replica=settings.replica,
            version=__version__,
            key=key,
            patterns=settings.redact,
            catalogue=self._view,
        )

    @asynccontextmanager
    async def running(self, service: Service) -> AsyncGenerator[None]:
        """The log is written within; every task that still runs at the end is logged as ended."""
        if notice_due(self._state_dir):
            logger.warning("%s", first_start_notice(self.database.shown, self._folder))
        try:
            async with self.recorder.running(), anyio.create_task_group() as background:
                background.start_soon(self._follow_deletions, service)
                learned = anyio.Event()
                background.start_soon(self._follow_uses, service.prior, learned)
                with anyio.move_on_after(FIRST_USES_S):
                    await learned.wait()
                if self._retention_days is not None:
                    background.start_soon(self._prune, self._retention_days)
                try:
                    yield
                finally:
                    service.tasks.finish_all(EndReason.SHUTDOWN)
                    background.cancel_scope.cancel()
        finally:
            await self.database.close()

    async def _follow_deletions(self, service: Service) -> None:
        """What was deleted must not go on in memory: results kept for paging, variables of code, learned examples."""
        tasks = service.tasks
        seen: int | None = None
        while True:
            try:
                chosen, last = await deletions_since(self.database, seen or 0)
                if chosen and seen is not None:
                    service.shapes.forget()
                seen = last
                for task in tasks.running if chosen else ():
                    episode = task.episode
                    if any(each.covers(episode.id, episode.agent, episode.began_at) for each in chosen):
                        tasks.finish(task, EndReason.DELETED)
            except Exception as error:
                # The database is away; the writer says so, and serving goes on.
                logger.debug("deletions cannot be read: %s", error)
            await anyio.sleep(LOOK_S)

    async def _follow_uses(self, prior: Prior, learned: anyio.Event) -> None:
        while True:
            try:
                prior.learn(await uses(self.database, datetime.now(UTC) - timedelta(days=USES_DAYS)))
            except Exception as error:
                # Of a new log there are no tables yet. Servers stay in the order that they had.
                logger.debug("uses of servers cannot be read: %s", error)
            learned.set()
            await anyio.sleep(USES_S)

    async def _prune(self, days: int) -> None:
        while True:
            try:
                if gone := (await prune(self.database, days)).episodes:
                    logger.info("%d episodes older than %d days are deleted", gone, days)
            except Exception as error:
                logger.warning("old episodes cannot be deleted now: %s", error)
            await anyio.sleep(PRUNE_S)

    def _view(self, hashed: str) -> CatalogView | None:
        catalog = self._gateway.past_catalog(hashed)
        if catalog is None:
            return None
        search = self._introduce(catalog)
        offered = json.dumps(search.offered(), ensure_ascii=False)
        return CatalogView(
            hash=hashed,
            servers=[{"name": each.name, "written": each.written, "purpose": each.purpose} for each in catalog.servers],
            tools=[(tool.written, tool.server, tool.name, tool.raw) for tool in catalog.tools.values()],
            introduction=f"{search.introduction()}\n{offered}",
        )
