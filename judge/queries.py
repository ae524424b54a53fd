"""What the judge's commands ask of the log beside its readers: families and tasks, and rewards by rubric.

Above: commands/. Below: proxy.store, filing.py.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from sqlalchemy import func, select

from judge.filing import file_episodes
from proxy.errors import UnknownName
from proxy.store.database import Database
from proxy.store.judging_tables import FamilyRow, FilingRow, JudgementRow
from proxy.store.tables import EndingRow, EpisodeRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Tasks that differ only in their values."""

    id: str
    episodes: int
    tasks: int
    """Different ones among them."""
    example: str | None
    """A task of it, in its user's words."""


async def families(database: Database) -> list[Family]:
    """All that have episodes, the largest first."""
    statement = (
        select(
            FilingRow.family,
            func.count().label("episodes"),
            func.count(FilingRow.task_key.distinct()).label("tasks"),
            func.min(FilingRow.episode_id).label("first"),
        )
        .where(FilingRow.family.is_not(None))
        .group_by(FilingRow.family)
        .order_by(func.count().desc(), FilingRow.family)
    )
    grouped = statement.subquery()
    examples = select(grouped, EndingRow.task).outerjoin(EndingRow, EndingRow.episode_id == grouped.c.first)
    async with database.reading() as connection:
        rows = await connection.execute(examples.order_by(grouped.c.episodes.desc(), grouped.c.family))
        return [Family(id=row.family, episodes=row.episodes, tasks=row.tasks, example=row.task) for row in rows]


async def is_family(database: Database, family: str) -> bool:
    async with database.reading() as connection:
        return (await connection.execute(select(FamilyRow.id).where(FamilyRow.id == family))).first() is not None


async def task_key_of(database: Database, episode_id: str) -> str:
    """The key of the task that an episode was about; the episode is filed for it where it was not.

    Raises:
        UnknownName: There is no such episode, it has not ended, or nobody knows its task in its user's words.
    """
    await file_episodes(database)
    statement = select(EpisodeRow.id, FilingRow.task_key, FilingRow.episode_id).outerjoin(
        FilingRow, FilingRow.episode_id == EpisodeRow.id
    )
    async with database.reading() as connection:
        found = (await connection.execute(statement.where(EpisodeRow.id == episode_id))).one_or_none()
    if found is None:
        raise UnknownName(f"there is no episode {episode_id[:80]!r} in the log; `toolatlas episodes list` shows them")
    if found.episode_id is None:
        raise UnknownName(f"episode {episode_id} has not ended; what it is about is known then")
    if found.task_key is None:
        raise UnknownName(f"the agent of episode {episode_id} did not pass on its task in its user's words")
    return found.task_key


async def members(database: Database, *, task_key: str | None = None, family: str | None = None) -> list[str]:
    """Ids of the episodes of a task or of a family, the oldest first."""
    statement = (
        select(FilingRow.episode_id)
        .join(EpisodeRow, EpisodeRow.id == FilingRow.episode_id)
        .where(FilingRow.task_key == task_key if task_key is not None else FilingRow.family == family)
        .order_by(EpisodeRow.began_at, EpisodeRow.id)
    )
    async with database.reading() as connection:
        return list((await connection.execute(statement)).scalars())


async def rewards_by_judge(database: Database, rubric_hash: str) -> dict[str, dict[str, float | None]]:
    """The latest reward of each episode by this rubric, by judge and episode."""
    statement = (
        select(JudgementRow.judge, JudgementRow.episode_id, JudgementRow.reward)
        .where(JudgementRow.rubric_hash == rubric_hash)
        .order_by(JudgementRow.created_at, JudgementRow.id)
    )
    found: defaultdict[str, dict[str, float | None]] = defaultdict(dict)
    async with database.reading() as connection:
        for row in await connection.execute(statement):
            found[row.judge][row.episode_id] = row.reward
    return dict(found)
