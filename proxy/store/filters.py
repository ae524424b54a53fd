"""Which episodes a reader wants, and how SQL says it.

Above: trajectories.py, statistics.py, the commands that list and export. Below: tables.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, select

from proxy.store.recorder import Level
from proxy.store.tables import CallRow, EndingRow, EpisodeRow, JudgementRow, StepRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which episodes; all that is None does not matter."""

    ids: tuple[str, ...] | None = None
    agent: str | None = None
    since: datetime | None = None
    """Began then or later."""
    before: datetime | None = None
    """Began earlier."""
    ended: bool | None = None
    outcome: str | None = None
    """What the agent claimed with `finish_task`: `done`, `failed` or `abandoned`."""
    server: str | None = None
    """Configured name of a server that was called."""
    tool: str | None = None
    """The server's own name of a tool that was called."""
    full: bool = False
    """Only episodes all of whose steps were logged with their contents."""
    judged: bool | None = None
    rubric: str | None = None
    """Judged by, or with `judged=False` not yet judged by, the rubric of this hash."""


def conditions(filters: Filters) -> list[ColumnElement[bool]]:
    """What `filters` ask of `episodes`, joined with `endings` where there is one."""
    return [*_of_the_episode(filters), *_of_its_ending(filters), *_of_its_steps(filters), *_of_its_judgements(filters)]


def _of_the_episode(filters: Filters) -> Iterator[ColumnElement[bool]]:
    if filters.ids is not None:
        yield EpisodeRow.id.in_(filters.ids)
    if filters.agent is not None:
        yield EpisodeRow.agent == filters.agent
    if filters.since is not None:
        yield EpisodeRow.began_at >= filters.since
    if filters.before is not None:
        yield EpisodeRow.began_at < filters.before


def _of_its_ending(filters: Filters) -> Iterator[ColumnElement[bool]]:
    if filters.ended is not None:
        yield EndingRow.episode_id.is_not(None) if filters.ended else EndingRow.episode_id.is_(None)
    if filters.outcome is not None:
        yield EndingRow.outcome == filters.outcome


def _of_its_steps(filters: Filters) -> Iterator[ColumnElement[bool]]:
    if filters.server is not None or filters.tool is not None:
        called = select(CallRow.step_id).where(CallRow.episode_id == EpisodeRow.id)
        # Joined with nothing, so that SQLite looks a call up by its episode: by its tool, it would read all calls of
        # that tool for every episode.
        if filters.server is not None:
            called = called.where(CallRow.server.concat("") == filters.server)
        if filters.tool is not None:
            called = called.where(CallRow.tool.concat("") == filters.tool)
        yield called.exists()
    if filters.full:
        less = select(StepRow.id).where(StepRow.episode_id == EpisodeRow.id, StepRow.level != Level.FULL.value)
        yield ~less.exists()


def _of_its_judgements(filters: Filters) -> Iterator[ColumnElement[bool]]:
    if filters.judged is None and filters.rubric is None:
        return
    judged = select(JudgementRow.id).where(JudgementRow.episode_id == EpisodeRow.id)
    if filters.rubric is not None:
        judged = judged.where(JudgementRow.rubric_hash == filters.rubric)
    yield ~judged.exists() if filters.judged is False else judged.exists()
