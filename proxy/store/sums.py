"""What lists of episodes show of each: its task and its sums, computed from the tables when it ends.

Above: shipping.py, within the transaction that writes the ending. Below: tables.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Select, case, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.store.tables import CallRow, DecisionRow, EpisodeRow, SnapshotRow, StepRow

TASK_LIMIT = 4_000
"""Characters."""
_LEVELS = ("metadata", "full")


async def sums_of(connection: AsyncConnection, episodes: Collection[str]) -> Mapping[str, dict[str, Any]]:
    """By episode, the columns of `endings` that are computed. An episode that is not in the tables is left out."""
    sums: dict[str, dict[str, Any]] = {}
    for row in (await connection.execute(_of_steps(episodes))).mappings():
        introduction = row["introduction_tokens"] if row["mode"] == "search" else None
        sums[row["id"]] = {
            "task": None,
            "task_source": None,
            "level": _LEVELS[row["level"]],
            "steps": row["steps"],
            "calls": 0,
            "failures": row["failures"],
            "tokens_seen": int(row["tokens"]) + (introduction or 0),
            "tokens_eager": row["eager_tokens"],
        }
    calls = select(CallRow.episode_id, func.count()).where(CallRow.episode_id.in_(episodes))
    for episode, count in await connection.execute(calls.group_by(CallRow.episode_id)):
        if episode in sums:
            sums[episode]["calls"] = count
    for episode, (task, source) in (await _tasks(connection, episodes)).items():
        if episode in sums:
            sums[episode] |= {"task": task, "task_source": source}
    return sums


def _of_steps(episodes: Collection[str]) -> Select[*tuple[Any, ...]]:
    own = StepRow.parent_id.is_(None)
    read = func.coalesce(StepRow.action_tokens, 0) + func.coalesce(StepRow.observation_tokens, 0)
    return (
        select(
            EpisodeRow.id,
            EpisodeRow.mode,
            func.min(case((StepRow.level == "full", 1), else_=0)).label("level"),
            func.sum(case((own, 1), else_=0)).label("steps"),
            func.sum(case((StepRow.outcome != "ok", 1), else_=0)).label("failures"),
            func.sum(case((own, read), else_=0)).label("tokens"),
            func.max(SnapshotRow.introduction_tokens).label("introduction_tokens"),
            func.max(SnapshotRow.eager_tokens).label("eager_tokens"),
        )
        .join(StepRow, StepRow.episode_id == EpisodeRow.id)
        .join(SnapshotRow, SnapshotRow.hash == EpisodeRow.catalog, isouter=True)
        .where(EpisodeRow.id.in_(episodes))
        .group_by(EpisodeRow.id, EpisodeRow.mode)
    )


async def _tasks(connection: AsyncConnection, episodes: Collection[str]) -> dict[str, tuple[str, str]]:
    """What each was about and how that is known: the first `task` of its searches, else all that it searched for."""
    searched = (
        select(DecisionRow.episode_id, DecisionRow.task, DecisionRow.query)
        .where(DecisionRow.episode_id.in_(episodes))
        .order_by(DecisionRow.episode_id, DecisionRow.decided_at, DecisionRow.step_id)
    )
    tasks: dict[str, str] = {}
    queries: dict[str, dict[str, None]] = {}
    for episode, task, query in await connection.execute(searched):
        if task:
            tasks.setdefault(episode, task)
        if query:
            queries.setdefault(episode, {})[query] = None
    joined = {episode: ("\n".join(asked)[:TASK_LIMIT], "queries") for episode, asked in queries.items()}
    return joined | {episode: (task[:TASK_LIMIT], "task") for episode, task in tasks.items()}
