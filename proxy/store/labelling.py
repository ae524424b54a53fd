"""Writes what people say of episodes, and finds what they have said nothing of yet.

Above: the dashboard's pages and REST. Below: database.py, tables.py. Nothing is changed: what a person says later is
written down beside it, and judgements.py tells what counts.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import literal, select, tuple_

from proxy.store.database import Database
from proxy.store.judgements import LabelEntry
from proxy.store.recorder import Level
from proxy.store.tables import EndingRow, EpisodeRow, LabelRow, Utc
from proxy.store.trajectories import Cursor

NOTE_CHARS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """One thing that a person says of an episode.

    Raises:
        ValueError: The value is no share, the note is too long, or a criterion stands without its rubric.
    """

    rubric_hash: str | None = None
    criterion: str | None = None
    """Of that rubric; None: the episode as a whole, by no rubric."""
    step_id: str | None = None
    value: float | None
    """Between 0 and 1, as far as the criterion's text holds; None: cannot tell."""
    note: str | None = None

    def __post_init__(self) -> None:
        if self.value is not None and not 0 <= self.value <= 1:
            raise ValueError(f"a value is between 0 and 1, not {self.value}")
        if self.note is not None and len(self.note) > NOTE_CHARS:
            raise ValueError(f"a note has at most {NOTE_CHARS:,} characters, not {len(self.note):,}")
        if (self.rubric_hash is None) != (self.criterion is None):
            raise ValueError("a criterion is one of a rubric, and what is said by a rubric is of one of its criteria")


async def save_labels(database: Database, episode_id: str, labeller: str, said: Sequence[Saying]) -> list[str]:
    """The ids of the new labels; none where there is no such episode (any more)."""
    now = datetime.now(UTC)
    ids = [f"l_{secrets.token_hex(12)}" for _ in said]
    rows = [
        {
            "id": id,
            "episode_id": episode_id,
            "step_id": each.step_id,
            "rubric_hash": each.rubric_hash,
            "criterion": each.criterion,
            "labeller": labeller,
            "value": each.value,
            "note": each.note,
            "created_at": now,
        }
        for id, each in zip(ids, said, strict=True)
    ]
    # Held, so that it is not deleted before its labels are there.
    there = select(EpisodeRow.id).where(EpisodeRow.id == episode_id).with_for_update(read=True, key_share=True)
    async with database.writing() as connection:
        if (await connection.execute(there)).first() is None:
            return []
        await database.add(connection, LabelRow, rows)
    return ids


async def entries(
    database: Database,
    limit: int,
    *,
    episode_id: str | None = None,
    labeller: str | None = None,
    after: Cursor | None = None,
) -> list[LabelEntry]:
    """All that was ever said, the latest first, from behind `after` on: a time, and the id of a label."""
    place = tuple_(LabelRow.created_at, LabelRow.id)
    statement = select(LabelRow.__table__).order_by(LabelRow.created_at.desc(), LabelRow.id.desc()).limit(limit)
    if episode_id is not None:
        statement = statement.where(LabelRow.episode_id == episode_id)
    if labeller is not None:
        statement = statement.where(LabelRow.labeller == labeller)
    if after is not None:
        statement = statement.where(place < tuple_(literal(after.began_at, Utc), literal(after.episode_id)))
    async with database.reading() as connection:
        return [LabelEntry(**row) for row in (await connection.execute(statement)).mappings()]


async def unlabelled(database: Database, labeller: str, limit: int, *, after: str | None = None) -> list[str]:
    """Ids of the newest episodes, or of those before the episode `after`, of which this person has said nothing: that
    have ended, and were logged with all their contents."""
    said = select(LabelRow.id).where(LabelRow.episode_id == EpisodeRow.id, LabelRow.labeller == labeller)
    statement = (
        select(EpisodeRow.id)
        .join(EndingRow, EndingRow.episode_id == EpisodeRow.id)
        .where(EndingRow.level == Level.FULL.value, ~said.exists())
        .order_by(EpisodeRow.began_at.desc(), EpisodeRow.id.desc())
        .limit(limit)
    )
    async with database.reading() as connection:
        if after is not None:
            began = await connection.execute(select(EpisodeRow.began_at).where(EpisodeRow.id == after))
            if (began_at := began.scalar_one_or_none()) is not None:
                place = tuple_(literal(began_at, Utc), literal(after))
                statement = statement.where(tuple_(EpisodeRow.began_at, EpisodeRow.id) < place)
        return list((await connection.execute(statement)).scalars())
