"""What goes with episodes although it does not belong to one: rubrics that were made from them, and catalogues and
families that no episode needs any more.

Above: deletions.py, retention.py. Below: tables.py.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Select, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.store.judgements import pieces
from proxy.store.tables import (
    AttachmentRow,
    DecisionRow,
    DefinitionRow,
    EpisodeRow,
    FamilyRow,
    FilingRow,
    JudgementRow,
    LabelRow,
    RubricRow,
    RubricSourceRow,
    SnapshotRow,
    StepRow,
)

KEPT = timedelta(days=30)
"""How long after it was taken a catalogue stays that no episode refers to: a gateway writes each one once, and may not
have used it yet."""


async def remove_rubrics(connection: AsyncConnection, chosen: ColumnElement[bool]) -> int:
    """Remove the rubrics that were made from the chosen rows of `episodes`: their criteria may quote them. What was
    judged and labelled by them goes too, of other episodes as well, and so do their attachments; how many rubrics."""
    # Locked, so that no judge adds to them meanwhile; SQLite has one writer at a time.
    made = (
        select(RubricRow.hash).where(RubricRow.hash.in_(made_from(chosen))).order_by(RubricRow.hash).with_for_update()
    )
    hashes = (await connection.execute(made)).scalars().all()
    for some in pieces(hashes):
        # Attachments and sources follow by themselves.
        await connection.execute(delete(JudgementRow).where(JudgementRow.rubric_hash.in_(some)))
        await connection.execute(delete(LabelRow).where(LabelRow.rubric_hash.in_(some)))
        await connection.execute(delete(RubricRow).where(RubricRow.hash.in_(some)))
    return len(hashes)


def made_from(chosen: ColumnElement[bool]) -> Select[str]:
    """Hashes of the rubrics that were made from the chosen rows of `episodes`."""
    return (
        select(RubricSourceRow.rubric_hash).join(EpisodeRow, EpisodeRow.id == RubricSourceRow.episode_id).where(chosen)
    )


async def remove_orphans(connection: AsyncConnection, now: datetime) -> None:
    """Remove families that have neither an episode nor a rubric, old snapshots that nothing refers to, and the
    definitions that only they had."""
    await connection.execute(
        delete(FamilyRow).where(
            ~select(FilingRow.family).where(FilingRow.family == FamilyRow.id).exists(),
            ~select(AttachmentRow.id).where(AttachmentRow.target == FamilyRow.id).exists(),
        )
    )
    old = select(SnapshotRow.hash, SnapshotRow.tools).where(
        SnapshotRow.taken_at < now - KEPT,
        *(
            ~select(row.catalog).where(row.catalog == SnapshotRow.hash).exists()
            for row in (EpisodeRow, StepRow, DecisionRow)
        ),
    )
    orphans = {row.hash: {digest for _, digest in row.tools} for row in (await connection.execute(old)).all()}
    if not orphans:
        return
    unused = set[str]().union(*orphans.values())
    async with connection.stream(select(SnapshotRow.hash, SnapshotRow.tools)) as rows:
        async for row in rows:
            if row.hash not in orphans:
                unused.difference_update(digest for _, digest in row.tools)
    for table, hashes in ((SnapshotRow, orphans), (DefinitionRow, unused)):
        named = sorted(hashes)
        for start in range(0, len(named), 1_000):
            await connection.execute(delete(table).where(table.hash.in_(named[start : start + 1_000])))
