"""What judges and people said of episodes.

Above: trainer, judge, pages, exporting.py. Below: database.py and tables.py, which judge/ and the label page fill.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import RowMapping, Select, select
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.store.database import Database
from proxy.store.tables import JudgementRow, LabelRow

IDS_AT_ONCE = 500
UNKNOWN_SCOPE = "unknown"
"""Scope of what was judged before it was noted."""

T = TypeVar("T", "Judgement", "LabelEntry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All verdicts of one rubric on one trajectory by one judge."""

    id: str
    episode_id: str
    rubric_hash: str
    judge: str
    """Model and version of whoever judged; `checks-…` where code alone did."""
    prompt_hash: str | None
    seed: int | None
    verdicts: Sequence[Mapping[str, Any]]
    """One object a criterion: score or why it has none, note, steps, quotes, what each repeat gave, disagreement."""
    subtotals: Mapping[str, float | None]
    """Reward by category."""
    reward: float | None
    """Between 0 and 1; None where too much is missing: that is never a 0."""
    cost: Mapping[str, Any] | None
    created_at: datetime
    repeat: int
    """Which time this judge judged it by this rubric, from 0."""
    scope: str
    """What could be seen of the episode; rewards of different scopes are not compared."""
    unrewarded: str | None
    """Why there is no reward."""
    credits: Mapping[str, float] | None
    """By step id, -1 to 1; a step that no verdict speaks of is not in it."""
    batch: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """A person's word on an episode, or on one criterion in it."""

    id: str
    episode_id: str
    step_id: str | None
    rubric_hash: str | None
    criterion: str | None
    """None: the episode as a whole."""
    labeller: str
    note: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelEntry(_Said):
    """What was said once; the same person may have said something else since."""

    value: float | None
    """Between 0 and 1; None where the person cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label(_Said):
    """What counts: the last thing that this person said of this, where they could tell."""

    value: float
    """Between 0 and 1."""


async def judgements(database: Database, episode_ids: Collection[str]) -> dict[str, tuple[Judgement, ...]]:
    """The judgements of each of these episodes that has one, the latest last."""
    async with database.reading() as connection:
        return await judgements_of(connection, episode_ids)


async def labels(database: Database, episode_ids: Collection[str]) -> dict[str, tuple[Label, ...]]:
    """The labels that count of each of these episodes that has one, the latest last."""
    async with database.reading() as connection:
        said = await labels_of(connection, episode_ids)
    counting = {episode_id: counted(entries) for episode_id, entries in said.items()}
    return {episode_id: found for episode_id, found in counting.items() if found}


def counted(entries: Iterable[LabelEntry]) -> tuple[Label, ...]:
    """Of entries in their order, the last of each person on each criterion, where they could tell."""
    last: dict[tuple[str | None, ...], LabelEntry] = {}
    for entry in entries:
        key = (entry.episode_id, entry.labeller, entry.rubric_hash, entry.criterion, entry.step_id)
        # Taken out first, so that it stands where it was said last.
        last.pop(key, None)
        last[key] = entry
    return tuple(_label(entry, entry.value) for entry in last.values() if entry.value is not None)


def _label(entry: LabelEntry, value: float) -> Label:
    values: dict[str, Any] = {each.name: getattr(entry, each.name) for each in fields(entry)}
    values["value"] = value
    return Label(**values)


async def judgements_of(connection: AsyncConnection, episode_ids: Collection[str]) -> dict[str, tuple[Judgement, ...]]:
    statement = select(JudgementRow.__table__).order_by(JudgementRow.created_at, JudgementRow.id)
    found = [
        Judgement(**row)
        for some in pieces(episode_ids)
        for row in await _rows(connection, statement.where(JudgementRow.episode_id.in_(some)))
    ]
    return _by_episode(found)


async def labels_of(connection: AsyncConnection, episode_ids: Collection[str]) -> dict[str, tuple[LabelEntry, ...]]:
    """All that was ever said of each of these episodes, in its order."""
    statement = select(LabelRow.__table__).order_by(LabelRow.created_at, LabelRow.id)
    found = [
        LabelEntry(**row)
        for some in pieces(episode_ids)
        for row in await _rows(connection, statement.where(LabelRow.episode_id.in_(some)))
    ]
    return _by_episode(found)


def pieces(ids: Collection[str]) -> Iterator[list[str]]:
    """Each id once, so many at a time as one statement takes."""
    wanted = list(dict.fromkeys(ids))
    for start in range(0, len(wanted), IDS_AT_ONCE):
        yield wanted[start : start + IDS_AT_ONCE]


async def _rows(connection: AsyncConnection, statement: Select[Any]) -> Sequence[RowMapping]:
    return (await connection.execute(statement)).mappings().all()


def _by_episode(found: Sequence[T]) -> dict[str, tuple[T, ...]]:
    grouped: dict[str, list[T]] = {}
    for each in found:
        grouped.setdefault(each.episode_id, []).append(each)
    return {episode_id: tuple(each) for episode_id, each in grouped.items()}
