"""Rubrics as the log keeps them, what they are attached to and made from, and which one judges an episode.

Above: judge, pages, exporting.py. Below: database.py and tables.py, which judge/ fills. What a rubric says is for judge
to read: here its content is JSON.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.store.database import Database
from proxy.store.judgements import pieces
from proxy.store.tables import AttachmentRow, FilingRow, RubricRow, RubricSourceRow


class Attached(StrEnum):
    """What a rubric is attached to; the first one that an episode has counts."""

    TASK = "task"
    FAMILY = "family"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A rubric is for all episodes of a task or family, or for all others."""

    rubric_hash: str
    scope: str
    """One of `Attached`."""
    target: str | None
    """Key of a task (`t_…`) or id of a family (`f_…`); None of the default."""
    attached_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """The criteria that something is judged by; never change, since their name is their hash."""

    hash: str
    writer: str
    """Who wrote it, with version: a person, a model, or code."""
    content: Any
    """JSON; `judge.rubric.Rubric.of_content` reads it."""
    created_at: datetime
    attachments: tuple[Attachment, ...]
    """Those that count now."""
    sources: tuple[str, ...]
    """Episodes that it was made from; it never judges them, and goes when one of them is deleted."""


async def rubrics(database: Database, hashes: Collection[str] | None = None) -> dict[str, Rubric]:
    """Those of these rubrics that there are, by hash, the oldest first; without `hashes` all."""
    async with database.reading() as connection:
        return await rubrics_of(connection, hashes)


async def attachments(database: Database) -> tuple[Attachment, ...]:
    """All that count now, in the order in which they were made."""
    async with database.reading() as connection:
        return await attachments_of(connection, None)


async def rubric_for(database: Database, episode_id: str) -> Rubric | None:
    """The rubric that judges the episode: the most specific one that is attached and was not made from it.

    None where nothing is attached for it, not even as the default.
    """
    async with database.reading() as connection:
        filed = (
            await connection.execute(
                select(FilingRow.task_key, FilingRow.family).where(FilingRow.episode_id == episode_id)
            )
        ).one_or_none()
        task_key, family = (None, None) if filed is None else filed
        own = select(RubricSourceRow.rubric_hash).where(RubricSourceRow.episode_id == episode_id)
        made_from_it = set((await connection.execute(own)).scalars())
        for scope, target in ((Attached.TASK, task_key), (Attached.FAMILY, family), (Attached.DEFAULT, None)):
            if target is None and scope is not Attached.DEFAULT:
                continue
            hash = await _attached(connection, scope, target)
            if hash is not None and hash not in made_from_it:
                return (await rubrics_of(connection, [hash])).get(hash)
    return None


async def rubrics_of(connection: AsyncConnection, hashes: Collection[str] | None) -> dict[str, Rubric]:
    statement = select(RubricRow.__table__).order_by(RubricRow.created_at, RubricRow.hash)
    statements = (
        [statement] if hashes is None else [statement.where(RubricRow.hash.in_(some)) for some in pieces(hashes)]
    )
    rows = [row for each in statements for row in (await connection.execute(each)).mappings()]
    named = [row["hash"] for row in rows]
    attached: defaultdict[str, list[Attachment]] = defaultdict(list)
    for attachment in await attachments_of(connection, named):
        attached[attachment.rubric_hash].append(attachment)
    sources = await _sources(connection, named)
    return {
        row["hash"]: Rubric(**row, attachments=tuple(attached[row["hash"]]), sources=sources.get(row["hash"], ()))
        for row in rows
    }


async def attachments_of(connection: AsyncConnection, hashes: Collection[str] | None) -> tuple[Attachment, ...]:
    """Those of these rubrics that count now."""
    latest = select(func.max(AttachmentRow.id)).group_by(AttachmentRow.scope, AttachmentRow.target)
    statement = (
        select(AttachmentRow.rubric_hash, AttachmentRow.scope, AttachmentRow.target, AttachmentRow.attached_at)
        .where(AttachmentRow.id.in_(latest), AttachmentRow.rubric_hash.is_not(None))
        .order_by(AttachmentRow.id)
    )
    chosen = (
        [statement]
        if hashes is None
        else [statement.where(AttachmentRow.rubric_hash.in_(some)) for some in pieces(hashes)]
    )
    return tuple([Attachment(**row) for each in chosen for row in (await connection.execute(each)).mappings()])


async def _attached(connection: AsyncConnection, scope: Attached, target: str | None) -> str | None:
    statement = (
        select(AttachmentRow.rubric_hash)
        .where(
            AttachmentRow.scope == scope.value,
            AttachmentRow.target.is_(None) if target is None else AttachmentRow.target == target,
        )
        .order_by(AttachmentRow.id.desc())
        .limit(1)
    )
    return (await connection.execute(statement)).scalar_one_or_none()


async def _sources(connection: AsyncConnection, hashes: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    statement = select(RubricSourceRow.__table__).order_by(RubricSourceRow.episode_id)
    for some in pieces(hashes):
        for row in await connection.execute(statement.where(RubricSourceRow.rubric_hash.in_(some))):
            found[row.rubric_hash].append(row.episode_id)
    return {hash: tuple(episodes) for hash, episodes in found.items()}
