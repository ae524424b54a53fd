"""Episodes of the log as cases: trajectories with the catalogue that each agent saw.

Above: running.py, commands/. Below: proxy.store, case.py. Of a catalogue, which may have thousands of tools, only the
definitions of those that were called are read, and each once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from sqlalchemy.exc import SQLAlchemyError

from judge.case import Case
from proxy.store.catalogues import Catalogue, catalogue, definitions
from proxy.store.database import Database, is_outage
from proxy.store.filters import Filters
from proxy.store.trajectories import load, stream
from proxy.store.trajectory import Trajectory

CATALOGUES = 32
"""Kept, those that were used last."""


class Loader:
    """Reads cases from one log."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._catalogues: OrderedDict[str, Catalogue | None] = OrderedDict()
        self._asked: dict[str, set[str]] = {}
        """Tools whose definitions were looked for, by catalogue: some were never written."""

    async def one(self, episode_id: str) -> Case | None:
        """None where there is no such episode (any more)."""
        trajectory = await load(self._database, episode_id)
        return None if trajectory is None else await self.case(trajectory)

    async def some(self, episode_ids: Sequence[str]) -> AsyncIterator[tuple[str, Case | Exception]]:
        """Those of these that there are, in the order in which they began; or why one cannot be read: a row that is
        not as it has to be spoils no other episode."""
        if not episode_ids:
            return
        try:
            read = [each async for each in stream(self._database, Filters(ids=tuple(episode_ids)))]
        except Exception as error:
            if isinstance(error, SQLAlchemyError) or is_outage(error):
                raise
            if len(episode_ids) == 1:
                yield episode_ids[0], error
                return
            for episode_id in episode_ids:
                async for each in self.some([episode_id]):
                    yield each
            return
        for trajectory in read:
            yield trajectory.id, await self.case(trajectory)

    async def case(self, trajectory: Trajectory) -> Case:
        called = {step.call.written for step in trajectory.every_step() if step.call is not None}
        return Case(trajectory, await self._catalogue(trajectory.catalog, called))

    async def _catalogue(self, hash_: str, called: set[str]) -> Catalogue | None:
        if hash_ not in self._catalogues:
            self._catalogues[hash_] = await catalogue(self._database, hash_, tools=called)
            self._asked[hash_] = set(called)
            if len(self._catalogues) > CATALOGUES:
                oldest, _ = self._catalogues.popitem(last=False)
                del self._asked[oldest]
        self._catalogues.move_to_end(hash_)
        known = self._catalogues[hash_]
        if known is None or called <= self._asked[hash_]:
            return known
        new = {written: known.tools[written] for written in called - self._asked[hash_] if written in known.tools}
        async with self._database.reading() as connection:
            found = await definitions(connection, new.values())
        more = {written: found[digest] for written, digest in new.items() if digest in found}
        self._asked[hash_] |= called
        self._catalogues[hash_] = known = replace(known, definitions={**known.definitions, **more})
        return known
