"""Catalogues and rubrics that no episode needs any more.

Above: deletions.py, retention.py. Below: tables.py.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.store.tables import DecisionRow, DefinitionRow, EpisodeRow, JudgementRow, RubricRow, SnapshotRow, StepRow

KEPT = timedelta(days=30)
"""How long after it was taken a catalogue stays that no episode refers to: a gateway writes each one once, and may not
have used it yet."""


async def remove_orphans(connection: AsyncConnection, now: datetime) -> None:
    """Remove old snapshots that nothing refers to, the definitions that only they had, and rubrics of single episodes
    that are gone."""
    await connection.execute(
        delete(RubricRow).where(
            RubricRow.scope == "task",
            RubricRow.target.not_in(select(EpisodeRow.id)),
            RubricRow.hash.not_in(select(JudgementRow.rubric_hash)),
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
