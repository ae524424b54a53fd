"""Reads trajectories out of the tables: one by its id, or a stream of any number in bounded memory.

Above: judge, trainer, exporting.py, the dashboard's page of one episode. Below: database.py and tables.py;
assembling.py turns rows into values. Each trajectory is whole as of one moment. No transaction is held while a reader
works on what it was given, so a stream of hours is in nobody's way; an episode deleted meanwhile is not in it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, func, literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.store.assembling import Beside, head_of, trajectory_of
from proxy.store.database import Database
from proxy.store.filters import Filters, conditions
from proxy.store.tables import CallRow, DecisionRow, EndingRow, EpisodeRow, GapRow, ShadowRow, StepRow, Utc
from proxy.store.trajectory import (
    EpisodeHead,
    Missing,
    Size,
    Trajectory,
    TrajectoryCall,
    TrajectoryDecision,
    TrajectoryEnding,
    TrajectoryShadow,
    TrajectoryStep,
)

__all__ = [
    "Cursor",
    "EpisodeHead",
    "Filters",
    "Missing",
    "Size",
    "Trajectory",
    "TrajectoryCall",
    "TrajectoryDecision",
    "TrajectoryEnding",
    "TrajectoryShadow",
    "TrajectoryStep",
    "heads",
    "load",
    "pages",
    "stream",
]

EPISODES_PER_PAGE = 200
STEPS_AT_ONCE = 2_000
"""Steps in memory at a time; one episode is never read in parts, however many it has."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place between two episodes."""

    began_at: datetime
    episode_id: str


async def load(database: Database, episode_id: str) -> Trajectory | None:
    """The trajectory of one episode; None where there is no such episode (any more)."""
    async with database.reading() as connection:
        found = await _trajectories(connection, [episode_id], newest_first=False)
    return found[0] if found else None


async def stream(
    database: Database, filters: Filters | None = None, *, newest_first: bool = False
) -> AsyncIterator[Trajectory]:
    """All trajectories that `filters` choose, in the order in which they began, or with the newest first.

    Holds some thousands of steps at most, unless one episode has more.
    """
    async for ids in pages(database, filters or Filters(), newest_first=newest_first):
        async with database.reading() as connection:
            counts = await _step_counts(connection, ids)
        for group in _groups(ids, counts):
            async with database.reading() as connection:
                trajectories = await _trajectories(connection, group, newest_first)
            for trajectory in trajectories:
                yield trajectory


async def heads(
    database: Database, filters: Filters, limit: int, *, after: Cursor | None = None, newest_first: bool = True
) -> list[EpisodeHead]:
    """Up to `limit` episodes behind `after`, without their steps, which are not read."""
    async with database.reading() as connection:
        rows = (await connection.execute(_page(filters, limit, after, newest_first))).all()
    return [head_of(row, _ending(row)) for row in rows]


async def pages(database: Database, filters: Filters, *, newest_first: bool = False) -> AsyncIterator[Sequence[str]]:
    """Ids of episodes, some hundred at a time."""
    if filters.ids is not None:
        for some in await _in_order(database, filters.ids, newest_first):
            chosen = _page(replace(filters, ids=some), None, None, newest_first)
            async with database.reading() as connection:
                rows = (await connection.execute(chosen)).all()
            yield [row.id for row in rows]
        return
    after: Cursor | None = None
    while True:
        async with database.reading() as connection:
            rows = (await connection.execute(_page(filters, EPISODES_PER_PAGE, after, newest_first))).all()
        yield [row.id for row in rows]
        if len(rows) < EPISODES_PER_PAGE:
            return
        after = Cursor(rows[-1].began_at, rows[-1].id)


async def _in_order(database: Database, ids: Sequence[str], newest_first: bool) -> list[tuple[str, ...]]:
    """Those of `ids` that exist, in pages, in the order in which their episodes began."""
    known: list[tuple[datetime, str]] = []
    for some in _batches(ids):
        async with database.reading() as connection:
            rows = await connection.execute(select(EpisodeRow.began_at, EpisodeRow.id).where(EpisodeRow.id.in_(some)))
            known += [(began_at, episode_id) for began_at, episode_id in rows]
    # A set, for an id may have been named twice.
    return list(_batches([episode_id for _, episode_id in sorted(set(known), reverse=newest_first)]))


def _batches(ids: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(ids), EPISODES_PER_PAGE):
        yield tuple(ids[start : start + EPISODES_PER_PAGE])


def _page(filters: Filters, limit: int | None, after: Cursor | None, newest_first: bool) -> Select[Any]:
    place = tuple_(EpisodeRow.began_at, EpisodeRow.id)
    statement = (
        select(EpisodeRow.__table__, EndingRow.__table__)
        .outerjoin(EndingRow, EndingRow.episode_id == EpisodeRow.id)
        .where(*conditions(filters))
    )
    if after is not None:
        behind = tuple_(literal(after.began_at, Utc), literal(after.episode_id))
        statement = statement.where(place < behind if newest_first else place > behind)
    order = (EpisodeRow.began_at, EpisodeRow.id)
    return statement.order_by(*(column.desc() if newest_first else column for column in order)).limit(limit)


async def _step_counts(connection: AsyncConnection, ids: Sequence[str]) -> dict[str, int]:
    counted = await connection.execute(
        select(StepRow.episode_id, func.count().label("steps"))
        .where(StepRow.episode_id.in_(ids))
        .group_by(StepRow.episode_id)
    )
    return {row.episode_id: row.steps for row in counted}


def _groups(ids: Sequence[str], steps: Mapping[str, int]) -> Iterator[list[str]]:
    """Runs of episodes that have at most `STEPS_AT_ONCE` steps together, or that are a single one."""
    group: list[str] = []
    room = STEPS_AT_ONCE
    for episode_id in ids:
        count = steps.get(episode_id, 0)
        if group and count > room:
            yield group
            group, room = [], STEPS_AT_ONCE
        group.append(episode_id)
        room -= count
    if group:
        yield group


async def _trajectories(connection: AsyncConnection, ids: Sequence[str], newest_first: bool) -> list[Trajectory]:
    """Those of these trajectories that there are, by as many queries for one as for all of them."""
    chosen = _page(Filters(ids=tuple(ids)), None, None, newest_first)
    # The episodes too are read here, though some are known already: with their steps they show one moment.
    episodes = (await connection.execute(chosen)).all()
    steps: dict[str, list[Row[Any]]] = {episode_id: [] for episode_id in ids}
    streams: set[str] = set()
    in_order = (StepRow.episode_id, StepRow.started_at, StepRow.stream, StepRow.seq)
    for row in await connection.execute(
        select(StepRow.__table__).where(StepRow.episode_id.in_(ids)).order_by(*in_order)
    ):
        steps[row.episode_id].append(row)
        streams.add(row.stream)
    beside = Beside(
        calls=await _by_step(connection, CallRow, ids),
        decisions=await _by_step(connection, DecisionRow, ids),
        shadows=await _by_step(connection, ShadowRow, ids),
        delegated=await _delegated(connection, ids),
        episodes=await _delegating(connection, [each.parent_step for each in episodes if each.parent_step is not None]),
    )
    gaps = (await connection.execute(select(GapRow.__table__).where(GapRow.stream.in_(streams)))).all()
    return [trajectory_of(episode, _ending(episode), steps[episode.id], beside, gaps) for episode in episodes]


async def _by_step(
    connection: AsyncConnection, table: type[CallRow] | type[DecisionRow] | type[ShadowRow], ids: Sequence[str]
) -> dict[str, Row[Any]]:
    found = await connection.execute(select(table.__table__).where(table.episode_id.in_(ids)))
    return {row.step_id: row for row in found}


async def _delegated(connection: AsyncConnection, ids: Sequence[str]) -> dict[str, list[str]]:
    """Id of a step of these episodes -> the episodes that it delegated."""
    own = select(StepRow.id).where(StepRow.episode_id.in_(ids))
    found = await connection.execute(
        select(EpisodeRow.parent_step, EpisodeRow.id)
        .where(EpisodeRow.parent_step.in_(own))
        .order_by(EpisodeRow.began_at, EpisodeRow.id)
    )
    delegated: dict[str, list[str]] = {}
    for step_id, episode_id in found:
        assert step_id is not None
        delegated.setdefault(step_id, []).append(episode_id)
    return delegated


async def _delegating(connection: AsyncConnection, step_ids: Sequence[str]) -> dict[str, str]:
    """Id of each of these steps that is in the log -> its episode."""
    if not step_ids:
        return {}
    found = await connection.execute(select(StepRow.id, StepRow.episode_id).where(StepRow.id.in_(step_ids)))
    return {row.id: row.episode_id for row in found}


def _ending(episode: Row[Any]) -> Row[Any] | None:
    """The same row, if an ending was joined to it: no two of their columns have the same name."""
    return None if episode.episode_id is None else episode
