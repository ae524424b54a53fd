"""Writes what judges, rubric writers and people say into the log: rubrics, attachments, judgements, gold runs, labels.

Above: running.py, commands/. Below: proxy.store. Each function is one transaction. What was deleted meanwhile is left
out, never an error: an episode that goes takes all that was said of it with it.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from judge.rubric import Rubric
from proxy.errors import UnknownName
from proxy.store.database import Database
from proxy.store.judging_tables import (
    AttachmentRow,
    BatchRow,
    CalibrationRow,
    GoldRunRow,
    JudgementRow,
    LabelRow,
    RubricRow,
    RubricSourceRow,
)
from proxy.store.rubrics import Attached
from proxy.store.tables import EpisodeRow

PACKAGE = "toolatlas"
"""Writer of the rubric that comes with the package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Judgements that are kept or refused together."""

    id: str
    judge: str
    worker: str
    began_at: datetime
    accepted: bool
    episodes: int
    canaries: Sequence[Mapping[str, Any]]
    """`{"name", "reward", "passed", "note"}` each."""
    note: str | None = None


async def keep_rubric(database: Database, rubric: Rubric, *, writer: str, sources: Collection[str] = ()) -> str:
    """Its hash. A rubric that is there stays as it was first written; further sources are added to its own.

    Raises:
        UnknownName: A source was deleted meanwhile: nothing may stay that was made from it.
    """
    hash_ = rubric.hash
    row = {"hash": hash_, "writer": writer, "content": rubric.content(), "created_at": datetime.now(UTC)}
    async with database.writing() as connection:
        # Locked, so that a deletion that begins now finds the rubric.
        there = select(EpisodeRow.id).where(EpisodeRow.id.in_(sources)).with_for_update(key_share=True)
        if gone := set(sources) - set((await connection.execute(there)).scalars()):
            raise UnknownName(
                f"episode {min(gone)}, which this rubric was made from, was deleted meanwhile: write it again"
            )
        await database.add(connection, RubricRow, [row])
        made_from = [{"rubric_hash": hash_, "episode_id": episode_id} for episode_id in dict.fromkeys(sources)]
        await database.add(connection, RubricSourceRow, made_from)
    return hash_


async def attach(database: Database, rubric_hash: str | None, to: Attached, target: str | None = None) -> None:
    """Let a rubric count there from now on; None: nothing is attached there any more. `target` is the key of a task or
    the id of a family."""
    async with database.writing() as connection:
        await _attach(database, connection, rubric_hash, to, target)


async def keep_default(database: Database, rubric: Rubric) -> str:
    """Keep the package's own rubric and attach it as the default, unless the owner has attached, or taken away, one.

    It takes the place of what another version of the package attached. Its hash.
    """
    hash_ = await keep_rubric(database, rubric, writer=PACKAGE)
    last = select(func.max(AttachmentRow.id)).where(AttachmentRow.scope == Attached.DEFAULT.value)
    statement = (
        select(AttachmentRow.rubric_hash, RubricRow.writer)
        .outerjoin(RubricRow, RubricRow.hash == AttachmentRow.rubric_hash)
        .where(AttachmentRow.id == last.scalar_subquery())
    )
    async with database.writing() as connection:
        now = (await connection.execute(statement)).one_or_none()
        if now is None or (now.rubric_hash not in (None, hash_) and now.writer == PACKAGE):
            await _attach(database, connection, hash_, Attached.DEFAULT, None)
    return hash_


async def keep_batch(
    database: Database,
    batch: Batch,
    judgements: Sequence[Mapping[str, Any]] = (),
    *,
    within: Callable[[AsyncConnection], Awaitable[None]] | None = None,
) -> int:
    """Write a batch with its judgements, and whatever `within` does, in one transaction; how many were new.

    A judgement that another worker wrote first stays as it is.
    """
    row = {
        "id": batch.id,
        "judge": batch.judge,
        "worker": batch.worker,
        "began_at": batch.began_at,
        "ended_at": datetime.now(UTC),
        "accepted": int(batch.accepted),
        "episodes": batch.episodes,
        "canaries": [dict(canary) for canary in batch.canaries],
        "note": batch.note,
    }
    async with database.writing() as connection:
        await database.add(connection, BatchRow, [row])
        new = await _add_judgements(database, connection, judgements)
        if within is not None:
            await within(connection)
    return new


async def keep_judgements(database: Database, judgements: Sequence[Mapping[str, Any]]) -> int:
    """Write judgements that belong to no batch; how many were new."""
    async with database.writing() as connection:
        return await _add_judgements(database, connection, judgements)


async def keep_gold_run(
    database: Database, *, judge: str, gold_hash: str, agreement: Any, accepted: bool, note: str | None
) -> None:
    row = {
        "judge": judge,
        "gold_hash": gold_hash,
        "agreement": agreement,
        "accepted": int(accepted),
        "note": note,
        "ran_at": datetime.now(UTC),
    }
    async with database.writing() as connection:
        await database.add(connection, GoldRunRow, [row])


async def keep_calibration(database: Database, *, hash: str, judge: str, content: Any, labels: int) -> None:
    row = {"hash": hash, "judge": judge, "content": content, "labels": labels, "fitted_at": datetime.now(UTC)}
    async with database.writing() as connection:
        await database.add(connection, CalibrationRow, [row])


async def keep_labels(
    database: Database,
    episode_id: str,
    labeller: str,
    values: Mapping[str | None, tuple[float | None, str | None]],
    *,
    rubric_hash: str | None,
) -> int:
    """Write what a person says: value and note by criterion, None being the episode as a whole. How many were kept.

    A value of None says that the person cannot tell. Nothing is kept where the episode was deleted.
    """
    now = datetime.now(UTC)
    rows = [
        {
            "id": f"l_{secrets.token_hex(12)}",
            "episode_id": episode_id,
            "step_id": None,
            "rubric_hash": None if criterion is None else rubric_hash,
            "criterion": criterion,
            "labeller": labeller,
            "value": value,
            "note": note,
            "created_at": now,
        }
        for criterion, (value, note) in values.items()
    ]
    async with database.writing() as connection:
        there = await _there(connection, [episode_id])
        return await database.add(connection, LabelRow, [row for row in rows if row["episode_id"] in there])


async def _attach(
    database: Database, connection: AsyncConnection, rubric_hash: str | None, to: Attached, target: str | None
) -> None:
    row = {"rubric_hash": rubric_hash, "scope": to.value, "target": target, "attached_at": datetime.now(UTC)}
    await database.add(connection, AttachmentRow, [row])


async def _add_judgements(
    database: Database, connection: AsyncConnection, judgements: Sequence[Mapping[str, Any]]
) -> int:
    if not judgements:
        return 0
    there = await _there(connection, [row["episode_id"] for row in judgements])
    rubrics = select(RubricRow.hash).where(RubricRow.hash.in_({row["rubric_hash"] for row in judgements}))
    known = set((await connection.execute(rubrics.with_for_update(read=True, key_share=True))).scalars())
    kept = [row for row in judgements if row["episode_id"] in there and row["rubric_hash"] in known]
    return await database.add(connection, JudgementRow, kept)


async def _there(connection: AsyncConnection, episode_ids: Collection[str]) -> set[str]:
    """Those that are in the log; they stay until this transaction is committed."""
    statement = select(EpisodeRow.id).where(EpisodeRow.id.in_(episode_ids))
    return set((await connection.execute(statement.with_for_update(read=True, key_share=True))).scalars())
