"""Deleting from the log for good: the rows, what is still on its way to become rows, and the space they took.

Above: commands/deleting.py asks for it; shipping.py leaves out what is covered; the gateway ends the tasks that are.
Below: tables.py, orphans.py, erasing.py. A row of `deletions` is written in the same transaction, so that no writer can
bring back afterwards what its journal still holds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import anyio
from sqlalchemy import ColumnElement, and_, func, insert, select, text, true
from sqlalchemy import delete as remove
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.store.database import Database
from proxy.store.erasing import erase
from proxy.store.orphans import made_from, remove_orphans, remove_rubrics
from proxy.store.tables import CallRow, DeletionRow, EpisodeRow, StepRow

MOST_IDS = 1_000
"""Episodes that can be named in one selection."""
POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Episodes that fulfil all conditions; None is no condition.

    Raises:
        ValueError: Too many ids, or a time without its zone.
    """

    agent: str | None = None
    since: datetime | None = None
    """Began then or later."""
    before: datetime | None = None
    """Began earlier."""
    episodes: tuple[str, ...] | None = None
    """Ids."""

    def __post_init__(self) -> None:
        if self.episodes is not None and len(self.episodes) > MOST_IDS:
            raise ValueError(f"at most {MOST_IDS} episodes can be named at once")
        if any(moment is not None and moment.tzinfo is None for moment in (self.since, self.before)):
            raise ValueError("a time without its zone says nothing")

    def covers(self, episode_id: str, agent: str, began_at: datetime) -> bool:
        """Whether the episode is one of them."""
        return (
            (self.episodes is None or episode_id in self.episodes)
            and (self.agent is None or agent == self.agent)
            and (self.since is None or began_at >= self.since)
            and (self.before is None or began_at < self.before)
        )

    def condition(self) -> ColumnElement[bool]:
        """The same in SQL, of `episodes`."""
        conditions: list[ColumnElement[bool]] = [true()]
        if self.episodes is not None:
            conditions.append(EpisodeRow.id.in_(self.episodes))
        if self.agent is not None:
            conditions.append(EpisodeRow.agent == self.agent)
        if self.since is not None:
            conditions.append(EpisodeRow.began_at >= self.since)
        if self.before is not None:
            conditions.append(EpisodeRow.began_at < self.before)
        return and_(*conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What went."""

    episodes: int
    steps: int
    called: frozenset[tuple[str, str]]
    """Configured server and the server's own name of each tool that was called in them: what else was learned from
    their results can go, too."""
    rubrics: int
    """Made from them, and gone with all that was judged and labelled by them."""
    remains: str | None = None
    """Why the space may still hold bytes of it; None where it does not."""


class Deletions:
    """All that was ever asked to be deleted."""

    def __init__(self, selections: Sequence[Selection]) -> None:
        self._ids = frozenset(
            each.episodes[0] for each in selections if each.episodes is not None and len(each.episodes) == 1
        )
        self._others = tuple(each for each in selections if each.episodes is None or len(each.episodes) != 1)

    @classmethod
    async def load(cls, connection: AsyncConnection) -> Self:
        """As of now. A writer asks in the transaction in which it writes, before anything else: then either `delete`
        waits for it and removes what it wrote, or it sees the deletion here."""
        rows = (await connection.execute(select(DeletionRow.__table__))).mappings().all()
        return cls([_selection(row) for row in rows])

    def covers(self, episode_id: str, agent: str, began_at: datetime) -> bool:
        """Whether the episode is not to be written any more."""
        return episode_id in self._ids or any(each.covers(episode_id, agent, began_at) for each in self._others)


async def delete(database: Database, what: Selection) -> Deleted:
    """Delete all that is known of some episodes, also what is still to come of them, and make their space really gone.

    Without ids it covers what began until now: an agent's later episodes are kept. On PostgreSQL, `database` has to
    allow long statements.

    Raises:
        SQLAlchemyError: Nothing is deleted.
    """
    now = datetime.now(UTC)
    if what.episodes is None:
        before = now if what.before is None else min(what.before, now)
        what = Selection(agent=what.agent, since=what.since, before=before)
    async with database.writing() as connection:
        if not database.sqlite:
            # Waits for writers that have not seen this deletion, and holds off those that come after.
            await connection.execute(text("LOCK TABLE deletions IN ACCESS EXCLUSIVE MODE"))
        await connection.execute(
            insert(DeletionRow).values(
                agent=what.agent,
                before=what.before,
                since=what.since,
                episodes=None if what.episodes is None else list(what.episodes),
                requested_at=now,
            )
        )
        deleted = await remove_episodes(connection, what.condition())
        await remove_orphans(connection, now)
    return replace(deleted, remains=await erase(database))


async def counted(connection: AsyncConnection, chosen: ColumnElement[bool]) -> Deleted:
    """What `remove_episodes` would remove."""
    ids = select(EpisodeRow.id).where(chosen)
    called = select(CallRow.server, CallRow.tool).where(CallRow.episode_id.in_(ids)).distinct()
    return Deleted(
        episodes=await _number(connection, select(func.count()).select_from(EpisodeRow).where(chosen)),
        steps=await _number(connection, select(func.count()).select_from(StepRow).where(StepRow.episode_id.in_(ids))),
        called=frozenset((row.server, row.tool) for row in (await connection.execute(called)).all()),
        rubrics=await _number(connection, select(func.count()).select_from(made_from(chosen).distinct().subquery())),
    )


async def remove_episodes(connection: AsyncConnection, chosen: ColumnElement[bool]) -> Deleted:
    """Remove the chosen rows of `episodes`, and the rubrics that were made from them; all that belongs to them follows
    by itself."""
    # Locked first: whoever is making a rubric from one of them either has written it when it is looked for, or finds
    # the episode gone.
    locked = select(EpisodeRow.id).where(chosen).order_by(EpisodeRow.id).with_for_update().subquery()
    await connection.execute(select(func.count()).select_from(locked))
    deleted = await counted(connection, chosen)
    await remove_rubrics(connection, chosen)
    await connection.execute(remove(EpisodeRow).where(chosen))
    return deleted


async def deletions_since(database: Database, last: int) -> tuple[list[Selection], int]:
    """What was asked to be deleted after the deletion with the id `last`, and the id of the newest one: tasks that are
    covered are to end, with what they hold in memory."""
    async with database.reading() as connection:
        query = select(DeletionRow.__table__).where(DeletionRow.id > last).order_by(DeletionRow.id)
        rows = (await connection.execute(query)).mappings().all()
    return [_selection(row) for row in rows], max((row["id"] for row in rows), default=last)


async def journals_clear(folder: Path, within_s: float) -> list[str]:
    """Wait until all that journals in `folder` hold now is shipped, hence what is deleted of it dropped.

    Returns the names of streams that still hold some of it then. What their gateways write meanwhile does not count:
    they know of the deletion. Those of gateways on other machines lie there.
    """
    waiting = await anyio.to_thread.run_sync(_segments, folder)
    deadline = time.monotonic() + within_s
    while waiting and time.monotonic() < deadline:
        await anyio.sleep(POLL_S)
        waiting &= await anyio.to_thread.run_sync(_segments, folder)
    return sorted({path.parent.name for path in waiting})


def _segments(folder: Path) -> set[Path]:
    return set(folder.glob("*/*.journal"))


def _selection(row: Any) -> Selection:
    episodes = row["episodes"]
    return Selection(
        agent=row["agent"],
        since=row["since"],
        before=row["before"],
        episodes=None if episodes is None else tuple(episodes),
    )


async def _number(connection: AsyncConnection, query: Any) -> int:
    return (await connection.execute(query)).scalar_one()
