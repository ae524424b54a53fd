"""The tables of the judge: rubrics and what they are attached to, judgements, people's labels, and what judges are
trusted by.

Above: tables.py names them with all others; judge/ and the label page write them, judgements.py and rubrics.py read
them. Below: columns.py. Rows are only ever added and removed whole, but for claims, which are taken over.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Float, ForeignKey, Index, Integer, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from proxy.store.columns import Base, Json, Words, episode_key


class RubricRow(Base):
    """Criteria; never change, since their name is their hash."""

    __tablename__ = "rubrics"

    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    writer: Mapped[str] = mapped_column(Words)
    """Who wrote it, with version: a person, a model, or code."""
    content: Mapped[Any] = mapped_column(Json)
    created_at: Mapped[datetime]


class AttachmentRow(Base):
    """What a rubric is for, from then on: the latest row of a scope and target counts."""

    __tablename__ = "attachments"
    __table_args__ = (Index(None, "scope", "target"), Index(None, "rubric_hash"))

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    rubric_hash: Mapped[str | None] = mapped_column(ForeignKey("rubrics.hash", ondelete="CASCADE"))
    """None: nothing is attached there any more."""
    scope: Mapped[str] = mapped_column(String(16))
    """`task`, `family` or `default`."""
    target: Mapped[str | None] = mapped_column(String(40))
    """Key of a task (`t_…`) or id of a family (`f_…`); None of the default."""
    attached_at: Mapped[datetime]


class RubricSourceRow(Base):
    """An episode that a rubric was made from: its criteria may quote it, so they go when it goes."""

    __tablename__ = "rubric_sources"
    __table_args__ = (Index(None, "episode_id"),)

    rubric_hash: Mapped[str] = mapped_column(ForeignKey("rubrics.hash", ondelete="CASCADE"), primary_key=True)
    episode_id: Mapped[str] = mapped_column(String(40), primary_key=True)
    """No foreign key: an imported rubric may be made from what was not exported with it."""


class FamilyRow(Base):
    """Tasks that differ only in their values."""

    __tablename__ = "families"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    signature: Mapped[Any] = mapped_column(Json)
    """Hashes of its first task's words; no text."""
    first_at: Mapped[datetime]


class FilingRow(Base):
    """Which task and family an episode belongs to; neither where there is no task in the user's own words."""

    __tablename__ = "filings"
    __table_args__ = (Index(None, "task_key"), Index(None, "family"))

    episode_id: Mapped[str] = mapped_column(ForeignKey("episodes.id", ondelete="CASCADE"), primary_key=True)
    task_key: Mapped[str | None] = mapped_column(String(40))
    family: Mapped[str | None] = mapped_column(String(40))
    filed_at: Mapped[datetime]


class JudgementRow(Base):
    """All verdicts of one rubric on one trajectory by one judge."""

    __tablename__ = "judgements"
    __table_args__ = (
        Index(None, "episode_id", "created_at"),
        Index(None, "rubric_hash"),
        UniqueConstraint("episode_id", "rubric_hash", "judge", "repeat"),
    )

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    episode_id: Mapped[str] = episode_key()
    rubric_hash: Mapped[str] = mapped_column(ForeignKey("rubrics.hash", ondelete="RESTRICT"))
    judge: Mapped[str] = mapped_column(Words)
    """Model and version of whoever judged; `checks-…` where code alone did."""
    prompt_hash: Mapped[str | None] = mapped_column(String(64))
    seed: Mapped[int | None]
    verdicts: Mapped[Any] = mapped_column(Json)
    """One object a criterion: score or why it has none, note, steps, quotes, what each repeat gave, disagreement."""
    subtotals: Mapped[Any] = mapped_column(Json)
    """Reward by category; None where nothing in it was decided."""
    reward: Mapped[float | None] = mapped_column(Float)
    """Between 0 and 1; None where too much is missing."""
    cost: Mapped[Any | None] = mapped_column(Json)
    """Tokens and money that it took."""
    created_at: Mapped[datetime]
    repeat: Mapped[int]
    """Which time this judge judged it by this rubric, from 0."""
    scope: Mapped[str] = mapped_column(String(48))
    """What could be seen of the episode, as `calls+task+answer`; `unknown` of what was judged before it was noted.
    Rewards of different scopes are not compared."""
    unrewarded: Mapped[str | None] = mapped_column(Words)
    """Why there is no reward."""
    credits: Mapped[Any | None] = mapped_column(Json)
    """Reward by step, `{step id: -1 to 1}`; a step that no verdict speaks of is not in it."""
    batch: Mapped[str | None] = mapped_column(String(40))
    """The batch that it was written in."""


class ClaimRow(Base):
    """An episode that a worker is judging; nobody else does until then."""

    __tablename__ = "claims"

    episode_id: Mapped[str] = mapped_column(ForeignKey("episodes.id", ondelete="CASCADE"), primary_key=True)
    judge: Mapped[str] = mapped_column(String(200), primary_key=True)
    repeat: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    worker: Mapped[str] = mapped_column(String(64))
    until: Mapped[datetime]


class BatchRow(Base):
    """Judgements that were written together, or refused together because of what the canaries got."""

    __tablename__ = "batches"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    judge: Mapped[str] = mapped_column(Words)
    worker: Mapped[str] = mapped_column(String(64))
    began_at: Mapped[datetime]
    ended_at: Mapped[datetime]
    accepted: Mapped[int]
    """1, or 0: none of its judgements was kept."""
    episodes: Mapped[int]
    canaries: Mapped[Any] = mapped_column(Json)
    """`[{"name", "reward", "passed", "note"}, …]`."""
    note: Mapped[str | None] = mapped_column(Words)


class GoldRunRow(Base):
    """How far a judge agreed with people on a frozen set."""

    __tablename__ = "gold_runs"
    __table_args__ = (Index(None, "judge", "ran_at"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    judge: Mapped[str] = mapped_column(Words)
    gold_hash: Mapped[str] = mapped_column(String(64))
    agreement: Mapped[Any] = mapped_column(Json)
    accepted: Mapped[int]
    """1 or 0."""
    note: Mapped[str | None] = mapped_column(Words)
    ran_at: Mapped[datetime]


class CalibrationRow(Base):
    """How a judge's scores become what people would have said."""

    __tablename__ = "calibrations"

    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    judge: Mapped[str] = mapped_column(Words)
    content: Mapped[Any] = mapped_column(Json)
    """`{criterion or "*": [[score, calibrated], …]}`."""
    labels: Mapped[int]
    """How many it was fitted on."""
    fitted_at: Mapped[datetime]


class LabelRow(Base):
    """What a person says of an episode, or of one criterion in it; of several by one person, the latest counts."""

    __tablename__ = "labels"
    __table_args__ = (Index(None, "episode_id", "created_at"),)

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    episode_id: Mapped[str] = episode_key()
    step_id: Mapped[str | None] = mapped_column(String(40))
    rubric_hash: Mapped[str | None] = mapped_column(String(64))
    """None where it is of the episode as a whole, by no rubric."""
    criterion: Mapped[str | None] = mapped_column(String(64))
    """None: the episode as a whole."""
    labeller: Mapped[str] = mapped_column(Words)
    value: Mapped[float | None] = mapped_column(Float)
    """Between 0 and 1; None: the person cannot tell."""
    note: Mapped[str | None] = mapped_column(Words)
    created_at: Mapped[datetime]
