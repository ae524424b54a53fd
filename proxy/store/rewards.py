"""Rewards for those who learn from them, and what became of judging as a whole.

Above: trainer, pages, judge/commands/. Below: trajectories.py for the episodes, tables.py for the rest. No verdict is
read, so that a stream over a log of any length is cheap.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.store.database import Database
from proxy.store.filters import Filters, conditions
from proxy.store.judgements import pieces
from proxy.store.tables import BatchRow, EndingRow, EpisodeRow, FilingRow, JudgementRow
from proxy.store.trajectories import pages


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """What the latest judgement of an episode gave."""

    episode_id: str
    family: str | None
    """Of tasks that differ only in their values; None where it is not filed, or has no task in the user's words."""
    judge: str
    rubric_hash: str
    scope: str
    """Rewards of different scopes, rubrics or judges are not compared."""
    reward: float | None
    """Between 0 and 1; None where there is none, and `unrewarded` says why."""
    unrewarded: str | None
    credits: Mapping[str, float]
    """By step id, -1 to 1; a step that no verdict speaks of is not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Judgements that were written together, or refused together."""

    id: str
    judge: str
    worker: str
    began_at: datetime
    ended_at: datetime
    accepted: bool
    episodes: int
    canaries: Sequence[Mapping[str, Any]]
    """What each canary got: `name`, `reward`, `passed`, `note`."""
    note: str | None


async def rewards(
    database: Database, filters: Filters | None = None, *, judge: str | None = None
) -> AsyncIterator[Reward]:
    """One of each episode that `filters` choose and that is judged, in the order in which the episodes began.

    The latest judgement counts; with `judge`, the latest one of that name.
    """
    async for ids in pages(database, filters or Filters()):
        async with database.reading() as connection:
            found = await rewards_of(connection, ids, judge=judge)
        for episode_id in ids:
            if episode_id in found:
                yield found[episode_id]


async def rewards_of(
    connection: AsyncConnection, episode_ids: Collection[str], *, judge: str | None = None
) -> dict[str, Reward]:
    """The same of these episodes, by their ids."""
    columns = (
        JudgementRow.episode_id,
        FilingRow.family,
        JudgementRow.judge,
        JudgementRow.rubric_hash,
        JudgementRow.scope,
        JudgementRow.reward,
        JudgementRow.unrewarded,
        JudgementRow.credits,
    )
    statement = (
        select(*columns)
        .outerjoin(FilingRow, FilingRow.episode_id == JudgementRow.episode_id)
        .order_by(JudgementRow.created_at, JudgementRow.id)
    )
    if judge is not None:
        statement = statement.where(JudgementRow.judge == judge)
    found: dict[str, Reward] = {}
    for some in pieces(episode_ids):
        # The latest comes last, and stays.
        for row in (await connection.execute(statement.where(JudgementRow.episode_id.in_(some)))).mappings():
            values: dict[str, Any] = {**row, "credits": row["credits"] or {}}
            found[row["episode_id"]] = Reward(**values)
    return found


async def scopes(database: Database, filters: Filters | None = None, *, judge: str | None = None) -> dict[str, int]:
    """How many of the episodes that `filters` choose were judged within each scope, the most frequent first."""
    count = func.count(JudgementRow.episode_id.distinct()).label("episodes")
    statement = (
        select(JudgementRow.scope, count)
        .join(EpisodeRow, EpisodeRow.id == JudgementRow.episode_id)
        .outerjoin(EndingRow, EndingRow.episode_id == EpisodeRow.id)
        .where(*conditions(filters or Filters()))
        .group_by(JudgementRow.scope)
        .order_by(count.desc(), JudgementRow.scope)
    )
    if judge is not None:
        statement = statement.where(JudgementRow.judge == judge)
    async with database.reading() as connection:
        return {row.scope: row.episodes for row in await connection.execute(statement)}


async def batches(database: Database, *, judge: str | None = None, limit: int = 50) -> list[Batch]:
    """What was judged together, the latest first; refused batches too."""
    statement = select(BatchRow.__table__).order_by(BatchRow.began_at.desc(), BatchRow.id).limit(limit)
    if judge is not None:
        statement = statement.where(BatchRow.judge == judge)
    async with database.reading() as connection:
        rows = (await connection.execute(statement)).mappings().all()
    return [_batch(row) for row in rows]


def _batch(row: Mapping[Any, Any]) -> Batch:
    values: dict[str, Any] = {**row, "accepted": bool(row["accepted"])}
    return Batch(**values)
