"""The SQL of lists and sums. Each query reads little whatever the size of the log, by the indexes of tables.py.

Above: pages.py and rest.py. Below: store/. One episode comes from store/trajectories.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Integer, Select, func, literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import InstrumentedAttribute

from proxy.dashboard.choice import RUNNING, WINDOWS, Choice
from proxy.store.database import Database
from proxy.store.filters import Filters, conditions
from proxy.store.recorder import Outcome
from proxy.store.rewards import Reward, rewards_of
from proxy.store.tables import CallRow, DecisionRow, EndingRow, EpisodeRow, StepRow, Utc
from proxy.store.trajectories import Cursor

TASK_CHARS = 400
MAX_STEPS = 5_000
MAX_STEP_CHARS = 16_000_000
"""Of what is kept of an episode's steps: more is not read for a page. An agent decides how long its episodes get, and
must not have one page take the memory of the gateway, or hold up the calls of all others."""
RARE_CALLS = 2_000
"""A tool called more often than this is found by walking the episodes from the newest on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLine:
    """One episode in a list. Sums and reason are None while it runs."""

    id: str
    agent: str
    mode: str
    began_at: datetime
    reason: str | None
    ended_at: datetime | None
    outcome: str | None
    """What the agent claimed."""
    task: str | None
    """Its first characters; of a running one, what it has searched for last."""
    task_chars: int
    """Of the whole task."""
    steps: int | None
    calls: int | None
    failures: int | None
    tokens_seen: int | None
    tokens_eager: int | None
    judged: Reward | None
    """What its latest judgement gave."""


@dataclass(frozen=True, slots=True)
class Page:
    """Episodes, newest first."""

    episodes: tuple[EpisodeLine, ...]
    next: Cursor | None
    """Where the next page begins; None on the last one."""


@dataclass(slots=True)
class Usage:
    """How often one tool of a server was called, and how that went."""

    server: str
    tool: str
    outcomes: dict[str, int] = field(default_factory=dict[str, int])
    total_ms: float = 0.0
    longest_ms: float = 0.0
    last_at: datetime | None = None

    @property
    def calls(self) -> int:
        return sum(self.outcomes.values())

    @property
    def failures(self) -> int:
        return self.calls - self.outcomes.get(Outcome.OK, 0)

    @property
    def mean_ms(self) -> float:
        return self.total_ms / self.calls if self.calls else 0.0

    def add(self, outcome: str, calls: int, total_ms: float, longest_ms: float, last_at: datetime) -> None:
        """Count `calls` that ended alike."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + calls
        self.total_ms += total_ms
        self.longest_ms = max(self.longest_ms, longest_ms)
        self.last_at = last_at if self.last_at is None else max(self.last_at, last_at)


async def episodes(database: Database, choice: Choice) -> Page:
    """One page of episodes."""
    async with database.reading() as connection:
        narrowed = await _narrowed(connection, choice.filters)
        if narrowed is None:
            return Page((), None)
        found = (await connection.execute(_list(choice, narrowed))).all()
        rows = found[: choice.limit]
        queries = await _last_queries(connection, [row.id for row in rows if row.reason is None])
        judged = await rewards_of(connection, [row.id for row in rows])
    lines = tuple(
        EpisodeLine(
            id=row.id,
            agent=row.agent,
            mode=row.mode,
            began_at=row.began_at,
            reason=row.reason,
            ended_at=row.ended_at,
            outcome=row.outcome,
            task=row.task if row.reason is not None else queries.get(row.id),
            task_chars=row.task_chars or 0,
            steps=row.steps,
            calls=row.calls,
            failures=row.failures,
            tokens_seen=row.tokens_seen,
            tokens_eager=row.tokens_eager,
            judged=judged.get(row.id),
        )
        for row in rows
    )
    more = len(found) > choice.limit
    return Page(lines, Cursor(lines[-1].began_at, lines[-1].id) if more else None)


async def too_long(database: Database, episode_id: str) -> bool:
    """Whether an episode has more steps, or larger ones, than are read for a page."""
    some = select(StepRow.id).where(StepRow.episode_id == episode_id).limit(MAX_STEPS + 1).subquery()
    of_steps = _chars(StepRow.arguments, StepRow.observation).where(StepRow.episode_id == episode_id)
    of_calls = _chars(CallRow.arguments, CallRow.result).where(CallRow.episode_id == episode_id)
    async with database.reading() as connection:
        if (await connection.execute(select(func.count()).select_from(some))).scalar_one() > MAX_STEPS:
            return True
        chars = [(await connection.execute(each)).scalar_one() for each in (of_steps, of_calls)]
    return sum(map(int, chars)) > MAX_STEP_CHARS


async def agents(database: Database, limit: int = 200) -> list[str]:
    """Who has been here, for a filter to offer."""
    async with database.reading() as connection:
        found = await connection.execute(select(EpisodeRow.agent).distinct().order_by(EpisodeRow.agent).limit(limit))
        return list(found.scalars().all())


async def usage(database: Database, window: str, now: datetime | None = None) -> list[Usage]:
    """Every tool that was called within the window, most called first."""
    span = WINDOWS[window]
    statement = select(
        CallRow.server,
        CallRow.tool,
        CallRow.outcome,
        func.count(),
        func.sum(CallRow.duration_ms),
        func.max(CallRow.duration_ms),
        func.max(CallRow.started_at, type_=Utc()),
    ).group_by(CallRow.server, CallRow.tool, CallRow.outcome)
    if span is not None:
        statement = statement.where(CallRow.started_at >= (now or datetime.now(UTC)) - span)
    async with database.reading() as connection:
        rows = (await connection.execute(statement)).all()
    tools: dict[tuple[str, str], Usage] = {}
    for server, tool, outcome, calls, total_ms, longest_ms, last_at in rows:
        one = tools.setdefault((server, tool), Usage(server, tool))
        one.add(outcome, calls, total_ms, longest_ms, last_at)
    return sorted(tools.values(), key=lambda one: (-one.calls, one.server, one.tool))


def _chars(*columns: InstrumentedAttribute[Any]) -> Select[Any]:
    lengths = [func.coalesce(func.length(column, type_=Integer), 0) for column in columns]
    return select(func.coalesce(func.sum(lengths[0] + lengths[1]), 0))


def by_server(tools: Iterable[Usage]) -> dict[str, Usage]:
    """The sums of each server."""
    servers: dict[str, Usage] = {}
    for one in tools:
        total = servers.setdefault(one.server, Usage(one.server, ""))
        for outcome, calls in one.outcomes.items():
            total.outcomes[outcome] = total.outcomes.get(outcome, 0) + calls
        total.total_ms += one.total_ms
        total.longest_ms = max(total.longest_ms, one.longest_ms)
        if one.last_at is not None:
            total.last_at = one.last_at if total.last_at is None else max(total.last_at, one.last_at)
    return servers


def _list(choice: Choice, wanted: Sequence[ColumnElement[bool]]) -> Select[*tuple[Any, ...]]:
    place = tuple_(EpisodeRow.began_at, EpisodeRow.id)
    statement = (
        select(
            EpisodeRow.id,
            EpisodeRow.agent,
            EpisodeRow.mode,
            EpisodeRow.began_at,
            EndingRow.reason,
            EndingRow.ended_at,
            EndingRow.outcome,
            func.substr(EndingRow.task, 1, TASK_CHARS).label("task"),
            func.length(EndingRow.task).label("task_chars"),
            EndingRow.steps,
            EndingRow.calls,
            EndingRow.failures,
            EndingRow.tokens_seen,
            EndingRow.tokens_eager,
        )
        .outerjoin(EndingRow, EndingRow.episode_id == EpisodeRow.id)
        .where(*wanted)
    )
    if choice.reason == RUNNING:
        statement = statement.where(EndingRow.episode_id.is_(None))
    elif choice.reason is not None:
        statement = statement.where(EndingRow.reason == choice.reason)
    if choice.failures:
        statement = statement.where(EndingRow.failures > 0)
    if choice.text is not None:
        statement = statement.where(EndingRow.task.icontains(choice.text, autoescape=True))
    if choice.after is not None:
        statement = statement.where(
            place < tuple_(literal(choice.after.began_at, Utc), literal(choice.after.episode_id))
        )
    # One more than wanted tells whether there is a next page.
    return statement.order_by(EpisodeRow.began_at.desc(), EpisodeRow.id.desc()).limit(choice.limit + 1)


async def _narrowed(connection: AsyncConnection, filters: Filters) -> Sequence[ColumnElement[bool]] | None:
    """The conditions, in the form that is fast for how often the tool was called; None where it never was."""
    rest = conditions(replace(filters, server=None, tool=None))
    if filters.server is None:
        # Nothing is indexed by tool alone: episodes are walked.
        return rest if filters.tool is None else [*rest, _called(filters)]
    of_tool = [CallRow.server == filters.server]
    if filters.tool is not None:
        of_tool.append(CallRow.tool == filters.tool)
    some = select(CallRow.step_id).where(*of_tool).limit(RARE_CALLS + 1).subquery()
    count = (await connection.execute(select(func.count()).select_from(some))).scalar_one()
    if not count:
        return None
    if count <= RARE_CALLS:
        return [*rest, EpisodeRow.id.in_(select(CallRow.episode_id).where(*of_tool))]
    # None that called it began after its last call: the walk begins there.
    last = (await connection.execute(select(func.max(CallRow.started_at, type_=Utc())).where(*of_tool))).scalar_one()
    return [*rest, EpisodeRow.began_at <= last, _called(filters)]


def _called(filters: Filters) -> ColumnElement[bool]:
    """Whether an episode called the tool, looked up among its own calls."""
    called = select(CallRow.step_id).where(CallRow.episode_id == EpisodeRow.id)
    # Not the bare columns: SQLite would search all calls of the server for each episode, since it keeps no statistics.
    if filters.server is not None:
        called = called.where(CallRow.server.concat("") == filters.server)
    if filters.tool is not None:
        called = called.where(CallRow.tool.concat("") == filters.tool)
    return called.exists()


async def _last_queries(connection: AsyncConnection, ids: Sequence[str]) -> dict[str, str]:
    """What episodes that run have searched for last, or said that they are about."""
    if not ids:
        return {}
    text = func.coalesce(func.nullif(DecisionRow.task, ""), func.nullif(DecisionRow.query, ""))
    # One for each episode: there may be any number of searches in it.
    last = (
        select(func.substr(text, 1, TASK_CHARS))
        .where(DecisionRow.episode_id == EpisodeRow.id, text.is_not(None))
        .order_by(DecisionRow.decided_at.desc())
        .limit(1)
        .scalar_subquery()
    )
    found = await connection.execute(select(EpisodeRow.id, last).where(EpisodeRow.id.in_(ids)))
    return {episode: said for episode, said in found if said is not None}
