"""Deletes what is older than its owner wants to keep, a little at a time.

Above: the gateway once an hour, and `toolatlas episodes prune`. Below: deletions.py, erasing.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import anyio
from sqlalchemy import Select, select

from proxy.store.database import Database
from proxy.store.deletions import remove_episodes
from proxy.store.erasing import tidy
from proxy.store.orphans import remove_orphans
from proxy.store.tables import EndingRow, EpisodeRow

BATCH = 200
"""Episodes that go in one transaction."""
PAUSE_S = 0.05
"""Between two, for those who write."""
_TABLES = [
    "episodes",
    "steps",
    "calls",
    "decisions",
    "endings",
    "rubrics",
    "rubric_sources",
    "attachments",
    "families",
    "filings",
    "judgements",
    "claims",
    "labels",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What went."""

    episodes: int
    steps: int
    called: frozenset[tuple[str, str]]
    rubrics: int
    """Both as in `Deleted`."""


async def prune(database: Database, days: int, *, now: datetime | None = None) -> Pruned:
    """Delete the episodes that ended more than `days` days before `now`, or began then and never ended.

    Each transaction is short. What of them a journal still holds comes back when it is shipped, and goes the next time.

    Raises:
        ValueError: `days` is negative.
        SQLAlchemyError: What was deleted so far stays deleted.
    """
    if days < 0:
        raise ValueError("episodes cannot be kept for a negative time")
    now = now or datetime.now(UTC)
    pruned = Pruned(episodes=0, steps=0, called=frozenset(), rubrics=0)
    while True:
        async with database.writing() as connection:
            ids = (await connection.execute(expired(now - timedelta(days=days)).limit(BATCH))).scalars().all()
            if ids:
                gone = await remove_episodes(connection, EpisodeRow.id.in_(ids))
                pruned = Pruned(
                    episodes=pruned.episodes + gone.episodes,
                    steps=pruned.steps + gone.steps,
                    called=pruned.called | gone.called,
                    rubrics=pruned.rubrics + gone.rubrics,
                )
        if len(ids) < BATCH:
            break
        await anyio.sleep(PAUSE_S)
    if pruned.episodes:
        async with database.writing() as connection:
            await remove_orphans(connection, now)
        await tidy(database, _TABLES)
    return pruned


def expired(limit: datetime) -> Select[str]:
    """Ids of the episodes that ended, or began without ending, before `limit`."""
    return (
        select(EpisodeRow.id)
        .outerjoin(EndingRow, EndingRow.episode_id == EpisodeRow.id)
        .where(EpisodeRow.began_at < limit, (EndingRow.ended_at < limit) | EndingRow.ended_at.is_(None))
        .order_by(EpisodeRow.began_at, EpisodeRow.id)
    )
