"""Files episodes that have ended: which task each was about, and which family of tasks that belongs to.

Above: running.py, before anything is claimed; commands that need families. Below: proxy.store, writing/families.py. No
text is stored: a task's key and a family's signature are hashes. Several may file at once: an episode is filed by
whoever comes first, and at worst there are two families that one alone would have made one of.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import literal, select, tuple_

from judge.case import OWN_WORDS
from judge.writing.families import family_id, nearest, signature, task_key
from proxy.store.database import Database
from proxy.store.judging_tables import FamilyRow, FilingRow
from proxy.store.tables import EndingRow, EpisodeRow, Utc

EPISODES_AT_ONCE = 500

Signature = tuple[int, ...]


async def file_episodes(database: Database) -> int:
    """File whatever has ended and is not filed yet, the oldest first; how many episodes these were."""
    families = _Families(await _signatures(database))
    filed = 0
    after: tuple[datetime, str] | None = None
    while page := await _page(database, after):
        after = (page[-1].began_at, page[-1].id)
        filed += await _file(database, page, families)
    return filed


async def _page(database: Database, after: tuple[datetime, str] | None) -> Sequence[Any]:
    statement = (
        select(EpisodeRow.id, EpisodeRow.began_at, EndingRow.task, EndingRow.task_source)
        .join(EndingRow, EndingRow.episode_id == EpisodeRow.id)
        .where(~select(FilingRow.episode_id).where(FilingRow.episode_id == EpisodeRow.id).exists())
        .order_by(EpisodeRow.began_at, EpisodeRow.id)
        .limit(EPISODES_AT_ONCE)
    )
    if after is not None:
        behind = tuple_(literal(after[0], Utc), literal(after[1]))
        statement = statement.where(tuple_(EpisodeRow.began_at, EpisodeRow.id) > behind)
    async with database.reading() as connection:
        return (await connection.execute(statement)).all()


async def _file(database: Database, page: Sequence[Any], families: _Families) -> int:
    now = datetime.now(UTC)
    filings: list[dict[str, Any]] = []
    for row in page:
        own_words = row.task_source == OWN_WORDS and (row.task or "").strip()
        key = task_key(row.task) if own_words else None
        family = None if key is None else families.of(key, row.task)
        filings.append({"episode_id": row.id, "task_key": key, "family": family, "filed_at": now})
    made = [{"id": id_, "signature": list(each), "first_at": now} for id_, each in families.take_new().items()]
    async with database.writing() as connection:
        # Those that were deleted meanwhile are left out, and those that are here stay until this is committed.
        there = select(EpisodeRow.id).where(EpisodeRow.id.in_([row.id for row in page]))
        kept = set((await connection.execute(there.with_for_update(read=True, key_share=True))).scalars())
        await database.add(connection, FamilyRow, made)
        return await database.add(connection, FilingRow, [each for each in filings if each["episode_id"] in kept])


class _Families:
    """Those that there are, and those that the episodes being filed begin."""

    def __init__(self, known: dict[str, Signature]) -> None:
        self._known = known
        self._new: dict[str, Signature] = {}
        self._by_key: dict[str, str] = {}

    def of(self, key: str, task: str) -> str:
        """The family of a task, whose key is `key`: the nearest, or a new one that begins with it."""
        found = self._by_key.get(key)
        if found is None:
            of_it = signature(task)
            found = nearest(of_it, self._known)
            if found is None:
                found = family_id(of_it)
                self._known[found] = self._new[found] = of_it
            self._by_key[key] = found
        return found

    def take_new(self) -> dict[str, Signature]:
        """Those that began since this was last asked."""
        new, self._new = self._new, {}
        return new


async def _signatures(database: Database) -> dict[str, Signature]:
    async with database.reading() as connection:
        rows = (await connection.execute(select(FamilyRow.id, FamilyRow.signature).order_by(FamilyRow.first_at))).all()
    return {row.id: tuple(row.signature) for row in rows}
