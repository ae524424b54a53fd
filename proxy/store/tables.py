"""The tables of the log, the same on SQLite and PostgreSQL; migrations/ makes them. Those of the judge are in
judging_tables.py, those of rankings in routing_tables.py, those of adapters in registry_tables.py, those of training in
training_tables.py, and all are named here, so that whoever imports this module has them all.

Above: shipping.py writes them, trajectories.py and dashboard/ read them. Below: columns.py. Rows are only ever added,
and removed whole by retention and deletion: no row changes after it was written. What agents and servers said is
redacted before it comes here.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Float, ForeignKey, Index, Integer, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from proxy.store.columns import Base, Json, Utc, Words, episode_key
from proxy.store.judging_tables import (
    AttachmentRow,
    BatchRow,
    CalibrationRow,
    ClaimRow,
    FamilyRow,
    FilingRow,
    GoldRunRow,
    JudgementRow,
    LabelRow,
    RubricRow,
    RubricSourceRow,
)
from proxy.store.registry_tables import AdapterApprovalRow, AdapterRow, AdapterStateRow
from proxy.store.rendering import REVISION as RENDERING
from proxy.store.routing_tables import DecisionRow, ShadowRow
from proxy.store.training_tables import TrainingExampleRow, TrainingReportRow

__all__ = [
    "RENDERING",
    "AdapterApprovalRow",
    "AdapterRow",
    "AdapterStateRow",
    "AttachmentRow",
    "Base",
    "BatchRow",
    "CalibrationRow",
    "CallRow",
    "ClaimRow",
    "DecisionRow",
    "DefinitionRow",
    "DeletionRow",
    "EndingRow",
    "EpisodeRow",
    "FamilyRow",
    "FilingRow",
    "GapRow",
    "GoldRunRow",
    "Json",
    "JudgementRow",
    "LabelRow",
    "RubricRow",
    "RubricSourceRow",
    "ShadowRow",
    "SnapshotRow",
    "StepRow",
    "StreamRow",
    "TrainingExampleRow",
    "TrainingReportRow",
    "Utc",
    "Words",
]


class StreamRow(Base):
    """One run of a gateway process: the steps of a stream are numbered without gaps."""

    __tablename__ = "streams"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    replica: Mapped[str] = mapped_column(String(64))
    version: Mapped[str] = mapped_column(String(32))
    began_at: Mapped[datetime]


class GapRow(Base):
    """Numbers of a stream that are in no table, and why."""

    __tablename__ = "gaps"

    stream: Mapped[str] = mapped_column(String(40), primary_key=True)
    first_seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    last_seq: Mapped[int] = mapped_column(BigInteger)
    reason: Mapped[str] = mapped_column(String(32))
    """`killed`, `overload`, `damaged` (lost within the journal) or `refused` (the database will never take it)."""
    reported_at: Mapped[datetime]


class EpisodeRow(Base):
    __tablename__ = "episodes"
    __table_args__ = (Index(None, "began_at", "id"), Index(None, "agent", "began_at"), Index(None, "parent_step"))

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    stream: Mapped[str] = mapped_column(String(40))
    agent: Mapped[str] = mapped_column(Words)
    mode: Mapped[str] = mapped_column(String(16))
    client: Mapped[str | None] = mapped_column(Words)
    protocol: Mapped[str | None] = mapped_column(String(32))
    rendering: Mapped[int]
    catalog: Mapped[str] = mapped_column(String(64))
    """Hash of the catalogue at its first step; a row of `snapshots`."""
    began_at: Mapped[datetime]
    parent_step: Mapped[str | None] = mapped_column(String(40))
    """The step that delegated it, of another episode. No foreign key: that step ends, and is written, after this
    episode; and it may be deleted before."""


class StepRow(Base):
    __tablename__ = "steps"
    __table_args__ = (
        UniqueConstraint("stream", "seq"),
        Index(None, "episode_id", "started_at"),
        Index(None, "started_at"),
    )

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    episode_id: Mapped[str] = episode_key()
    parent_id: Mapped[str | None] = mapped_column(String(40))
    """No foreign key: a run of code ends, and is written, after the calls that it made."""
    stream: Mapped[str] = mapped_column(String(40))
    seq: Mapped[int] = mapped_column(BigInteger)
    mode: Mapped[str] = mapped_column(String(16))
    name: Mapped[str] = mapped_column(Words)
    arguments: Mapped[Any | None] = mapped_column(Json)
    """The action as the agent sent it."""
    outcome: Mapped[str] = mapped_column(String(20))
    error: Mapped[str | None] = mapped_column(Words)
    observation: Mapped[Any | None] = mapped_column(Json)
    """The result as the agent saw it, cut where it was long."""
    observation_bytes: Mapped[int | None]
    """Of the whole result as JSON, before redaction and cut."""
    observation_kept: Mapped[int | None]
    """Bytes of it that are here; as many as `observation_bytes` where nothing was cut."""
    observation_hash: Mapped[str | None] = mapped_column(String(64))
    """Keyed hash of the whole result before redaction: equal results can be told, contents cannot be guessed."""
    action_tokens: Mapped[int | None]
    observation_tokens: Mapped[int | None]
    """Tokens that the agent read: of the whole result, not of what was kept."""
    revealed: Mapped[Any | None] = mapped_column(Json)
    """`[[tool, how], …]`; None where nothing was."""
    catalog: Mapped[str] = mapped_column(String(64))
    level: Mapped[str] = mapped_column(String(16))
    started_at: Mapped[datetime]
    duration_ms: Mapped[float] = mapped_column(Float)


class CallRow(Base):
    """What a step sent to a server and got from it."""

    __tablename__ = "calls"
    __table_args__ = (
        # Holds all that sums over tools read.
        Index(None, "server", "tool", "outcome", "started_at", "duration_ms"),
        Index(None, "started_at"),
        # The planner of SQLite takes the first one for "episodes that called this tool" without it.
        Index(None, "episode_id", "server", "tool"),
    )

    step_id: Mapped[str] = mapped_column(ForeignKey("steps.id", ondelete="CASCADE"), primary_key=True)
    episode_id: Mapped[str] = episode_key()
    server: Mapped[str] = mapped_column(Words)
    tool: Mapped[str] = mapped_column(Words)
    written: Mapped[str] = mapped_column(Words)
    arguments: Mapped[Any | None] = mapped_column(Json)
    """As the server was sent them; None where the step's own arguments are the same, or nothing is kept."""
    result: Mapped[Any | None] = mapped_column(Json)
    """As the server sent it, cut; None where it is the step's observation, or nothing is kept."""
    result_bytes: Mapped[int | None]
    result_kept: Mapped[int | None]
    result_hash: Mapped[str | None] = mapped_column(String(64))
    outcome: Mapped[str] = mapped_column(String(20))
    started_at: Mapped[datetime]
    duration_ms: Mapped[float] = mapped_column(Float)


class EndingRow(Base):
    """How an episode ended, with the sums that lists of episodes show; an episode without one is still running."""

    __tablename__ = "endings"
    __table_args__ = (Index(None, "ended_at"),)

    episode_id: Mapped[str] = mapped_column(ForeignKey("episodes.id", ondelete="CASCADE"), primary_key=True)
    reason: Mapped[str] = mapped_column(String(16))
    ended_at: Mapped[datetime]
    outcome: Mapped[str | None] = mapped_column(String(16))
    answer: Mapped[str | None] = mapped_column(Words)
    task: Mapped[str | None] = mapped_column(Words)
    """What it was about: `task` of its searches, else their queries."""
    task_source: Mapped[str | None] = mapped_column(String(16))
    """`task` or `queries`; None where nothing is known."""
    level: Mapped[str] = mapped_column(String(16))
    """The least that any of its steps was written at."""
    steps: Mapped[int]
    calls: Mapped[int]
    failures: Mapped[int]
    """Steps and calls of code whose outcome is not `ok`."""
    tokens_seen: Mapped[int]
    """Of actions and observations, calls of code left out, and the introduction."""
    tokens_eager: Mapped[int | None]
    """What the definitions of all tools would have cost at its beginning."""


class SnapshotRow(Base):
    """One catalogue, as it was when an agent worked with it."""

    __tablename__ = "snapshots"

    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    taken_at: Mapped[datetime]
    servers: Mapped[Any] = mapped_column(Json)
    """`[{"name", "written", "purpose"}, …]` in catalogue order."""
    tools: Mapped[Any] = mapped_column(Json)
    """`[[written, definition hash], …]` in catalogue order."""
    introduction: Mapped[str | None] = mapped_column(Words)
    """What `search` mode says and offers first: instructions, and the meta-tools' definitions as JSON."""
    introduction_tokens: Mapped[int]
    eager_tokens: Mapped[int]
    """Of all definitions."""


class DefinitionRow(Base):
    """One definition of a tool, named by its hash: snapshots share what did not change."""

    __tablename__ = "definitions"

    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    server: Mapped[str] = mapped_column(Words)
    """Configured name."""
    tool: Mapped[str] = mapped_column(Words)
    """The server's own name."""
    definition: Mapped[Any] = mapped_column(Json)
    """The tool object as the server sent it."""
    tokens: Mapped[int]


class DeletionRow(Base):
    """One request to delete: what of it is still on its way into the tables is dropped there."""

    __tablename__ = "deletions"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    agent: Mapped[str | None] = mapped_column(Words)
    before: Mapped[datetime | None]
    """Episodes that began before."""
    since: Mapped[datetime | None]
    episodes: Mapped[Any | None] = mapped_column(Json)
    """Ids; None means all that the other conditions choose."""
    requested_at: Mapped[datetime]
