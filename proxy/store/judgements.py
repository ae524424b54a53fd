"""What judges and people said of episodes.

Above: trainer, pages, exporting.py. Below: database.py and tables.py, which judge/ and the label page fill.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import RowMapping, Select, select
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.store.database import Database
from proxy.store.tables import JudgementRow, LabelRow, RubricRow

IDS_AT_ONCE = 500

T = TypeVar("T", "Judgement", "Label")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """The criteria that something was judged by; never changes, since its name is its hash."""

    hash: str
    scope: str
    """`task`, `family` or `default`."""
    target: str | None
    writer: str
    content: Any
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All verdicts of one rubric on one trajectory by one judge."""

    id: str
    episode_id: str
    rubric_hash: str
    judge: str
    """Model and version of whoever judged; `checks` where code alone did."""
    prompt_hash: str | None
    seed: int | None
    verdicts: Sequence[Mapping[str, Any]]
    """One object a criterion: verdict, evidence, step, disagreement, or why it is missing."""
    subtotals: Mapping[str, Any]
    """Reward by category."""
    reward: float | None
    """Between 0 and 1; None where too much is missing: that is never a 0."""
    cost: Mapping[str, Any] | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a person says of an episode, or of one criterion in it."""

    id: str
    episode_id: str
    step_id: str | None
    rubric_hash: str | None
    criterion: str | None
    labeller: str
    value: float
    """Between 0 and 1."""
    note: str | None
    created_at: datetime


async def judgements(database: Database, episode_ids: Collection[str]) -> dict[str, tuple[Judgement, ...]]:
    """The judgements of each of these episodes that has one, the latest last."""
    async with database.reading() as connection:
        return await judgements_of(connection, episode_ids)


async def labels(database: Database, episode_ids: Collection[str]) -> dict[str, tuple[Label, ...]]:
    """The labels of each of these episodes that has one, the latest last."""
    async with database.reading() as connection:
        return await labels_of(connection, episode_ids)


async def rubrics(database: Database, hashes: Collection[str]) -> dict[str, Rubric]:
    """Those of these rubrics that there are, by hash."""
    async with database.reading() as connection:
        return await rubrics_of(connection, hashes)


async def judgements_of(connection: AsyncConnection, episode_ids: Collection[str]) -> dict[str, tuple[Judgement, ...]]:
    statement = select(JudgementRow.__table__).order_by(JudgementRow.created_at, JudgementRow.id)
    found = [
        Judgement(**row)
        for some in _batches(episode_ids)
        for row in await _rows(connection, statement.where(JudgementRow.episode_id.in_(some)))
    ]
    return _by_episode(found)


async def labels_of(connection: AsyncConnection, episode_ids: Collection[str]) -> dict[str, tuple[Label, ...]]:
    statement = select(LabelRow.__table__).order_by(LabelRow.created_at, LabelRow.id)
    found = [
        Label(**row)
        for some in _batches(episode_ids)
        for row in await _rows(connection, statement.where(LabelRow.episode_id.in_(some)))
    ]
    return _by_episode(found)


async def rubrics_of(connection: AsyncConnection, hashes: Collection[str]) -> dict[str, Rubric]:
    statement = select(RubricRow.__table__).order_by(RubricRow.created_at, RubricRow.hash)
    return {
        row["hash"]: Rubric(**row)
        for some in _batches(hashes)
        for row in await _rows(connection, statement.where(RubricRow.hash.in_(some)))
    }


async def _rows(connection: AsyncConnection, statement: Select[Any]) -> Sequence[RowMapping]:
    return (await connection.execute(statement)).mappings().all()


def _batches(ids: Collection[str]) -> Iterator[list[str]]:
    wanted = list(dict.fromkeys(ids))
    for start in range(0, len(wanted), IDS_AT_ONCE):
        yield wanted[start : start + IDS_AT_ONCE]


def _by_episode(found: Sequence[T]) -> dict[str, tuple[T, ...]]:
    grouped: dict[str, list[T]] = {}
    for each in found:
        grouped.setdefault(each.episode_id, []).append(each)
    return {episode_id: tuple(each) for episode_id, each in grouped.items()}
