"""Sums over the log: how often each tool was called and with what outcome, how long it took, what it cost in tokens.

Above: commands/stats.py, and whoever shows the same on a page. Below: tables.py. Each sum is one query, so that a
million steps take seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.store.database import Database
from proxy.store.recorder import Level, Outcome
from proxy.store.tables import CallRow, EndingRow, EpisodeRow, SnapshotRow, StepRow

FINDING = ("search_tools", "list_servers", "list_tools", "describe_tools")
"""The meta-tools by which an agent learns which tools there are: what it would not need if it had all definitions."""
SEARCH = "search"
"""The mode in which tools are hidden."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A span of time; None is open."""

    since: datetime | None = None
    """Then or later."""
    before: datetime | None = None

    def holds(self, time: Any) -> list[ColumnElement[bool]]:
        ends: list[ColumnElement[bool]] = []
        if self.since is not None:
            ends.append(time >= self.since)
        if self.before is not None:
            ends.append(time < self.before)
        return ends


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStatistics:
    """All calls of one tool that were logged at any level."""

    server: str
    """Configured name."""
    tool: str
    """The server's own name."""
    calls: int
    outcomes: Mapping[str, int]
    """By outcome; those that did not occur are not in it."""
    p50_ms: float
    """Half of the calls took no longer, by nearest rank; waiting for the server only."""
    p95_ms: float
    read_tokens: int
    """Of results that the agent read."""
    code_tokens: int
    """Of results that only the agent's code read: they were kept out of its context."""
    uncounted: int
    """Calls that had no result, or whose contents were not to be logged: their tokens are in neither sum."""

    @property
    def failures(self) -> int:
        return self.calls - self.outcomes.get(Outcome.OK, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """What hiding the tools saved, each token counted once.

    An agent that is given all definitions reads `eager_tokens`; here it read the introduction instead, and what it
    asked to find tools. Results of tools are in neither: they would have been the same. Since most agents send their
    whole context with every turn, what is billed differs by more than this, unless it is cached.
    """

    episodes: int
    """Ended, in `search` mode, logged in full, and with a catalogue that is known: only those can be compared."""
    left_out: int
    """Other episodes that ended in that time."""
    eager_tokens: int
    introduction_tokens: int
    finding_tokens: int
    """Calls of the meta-tools that find tools, with their answers."""

    @property
    def saved_tokens(self) -> int:
        """Less than 0 where finding cost more than all definitions would have: few tools, long searches."""
        return self.eager_tokens - self.introduction_tokens - self.finding_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    range: Range
    episodes: int
    """That began in it."""
    steps: int
    """That began in it, calls of code included."""
    tools: tuple[ToolStatistics, ...] = field(default=())
    """The most called first."""
    savings: Savings


async def statistics(database: Database, span: Range) -> Statistics:
    """All sums over one span of time, as of one moment."""
    async with database.reading() as connection:
        return Statistics(
            range=span,
            episodes=await _count(
                connection, select(func.count()).select_from(EpisodeRow).where(*span.holds(EpisodeRow.began_at))
            ),
            steps=await _count(
                connection, select(func.count()).select_from(StepRow).where(*span.holds(StepRow.started_at))
            ),
            tools=await _tools(connection, span),
            savings=await _savings(connection, span),
        )


async def _count(connection: AsyncConnection, statement: Select[*tuple[Any, ...]]) -> int:
    return int((await connection.execute(statement)).scalar() or 0)


async def _tools(connection: AsyncConnection, span: Range) -> tuple[ToolStatistics, ...]:
    tool = CallRow.server, CallRow.tool
    own = StepRow.mode != "code"
    counted = (
        select(
            *tool,
            CallRow.outcome,
            func.count().label("calls"),
            func.sum(case((own, StepRow.observation_tokens), else_=0)).label("read"),
            func.sum(case((own, 0), else_=StepRow.observation_tokens)).label("code"),
            func.sum(case((StepRow.observation_tokens.is_(None), 1), else_=0)).label("uncounted"),
        )
        .join(StepRow, StepRow.id == CallRow.step_id)
        .where(*span.holds(CallRow.started_at))
        .group_by(*tool, CallRow.outcome)
    )
    took = {(row.server, row.tool): row for row in await connection.execute(_durations(span))}
    sums: dict[tuple[str, str], list[Any]] = {}
    for row in await connection.execute(counted):
        sums.setdefault((row.server, row.tool), []).append(row)
    found = [
        ToolStatistics(
            server=server,
            tool=name,
            calls=sum(row.calls for row in rows),
            outcomes={row.outcome: row.calls for row in rows},
            p50_ms=took[server, name].p50,
            p95_ms=took[server, name].p95,
            read_tokens=sum(int(row.read or 0) for row in rows),
            code_tokens=sum(int(row.code or 0) for row in rows),
            uncounted=sum(int(row.uncounted) for row in rows),
        )
        for (server, name), rows in sums.items()
    ]
    return tuple(sorted(found, key=lambda each: (-each.calls, each.server, each.tool)))


def _durations(span: Range) -> Select[*tuple[Any, ...]]:
    """Percentiles by nearest rank, in one pass on either database: SQLite has no function for them."""
    tool = CallRow.server, CallRow.tool
    ranked = (
        select(
            *tool,
            CallRow.duration_ms,
            func.row_number().over(partition_by=tool, order_by=CallRow.duration_ms).label("rank"),
            func.count().over(partition_by=tool).label("calls"),
        )
        .where(*span.holds(CallRow.started_at))
        .subquery()
    )
    half, most = (ranked.c.calls + 1) // 2, (ranked.c.calls * 95 + 99) // 100
    return select(
        ranked.c.server,
        ranked.c.tool,
        func.max(case((ranked.c.rank == half, ranked.c.duration_ms))).label("p50"),
        func.max(case((ranked.c.rank == most, ranked.c.duration_ms))).label("p95"),
    ).group_by(ranked.c.server, ranked.c.tool)


async def _savings(connection: AsyncConnection, span: Range) -> Savings:
    ended = span.holds(EndingRow.ended_at)
    comparable = and_(
        EpisodeRow.mode == SEARCH, EndingRow.level == Level.FULL.value, EndingRow.tokens_eager.is_not(None)
    )
    endings = select(
        func.count().label("episodes"),
        func.sum(case((comparable, 1), else_=0)).label("comparable"),
        func.sum(case((comparable, EndingRow.tokens_eager), else_=0)).label("eager"),
        func.sum(case((comparable, SnapshotRow.introduction_tokens), else_=0)).label("introduction"),
    )
    joined = (
        endings.select_from(EndingRow)
        .join(EpisodeRow, EpisodeRow.id == EndingRow.episode_id)
        .outerjoin(SnapshotRow, SnapshotRow.hash == EpisodeRow.catalog)
        .where(*ended)
    )
    row = (await connection.execute(joined)).one()
    finding = (
        select(func.sum(func.coalesce(StepRow.action_tokens, 0) + func.coalesce(StepRow.observation_tokens, 0)))
        .select_from(EndingRow)
        .join(EpisodeRow, EpisodeRow.id == EndingRow.episode_id)
        .join(StepRow, StepRow.episode_id == EndingRow.episode_id)
        .where(*ended, comparable, StepRow.name.in_(FINDING), StepRow.parent_id.is_(None))
    )
    episodes = int(row.comparable or 0)
    return Savings(
        episodes=episodes,
        left_out=row.episodes - episodes,
        eager_tokens=int(row.eager or 0),
        introduction_tokens=int(row.introduction or 0),
        finding_tokens=await _count(connection, finding),
    )
