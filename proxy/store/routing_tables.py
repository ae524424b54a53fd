"""The tables of rankings: what the router decided, and what its shadow would have.

Above: tables.py, which names them. Below: columns.py. Contents are None where the step's level was less than `full`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Float, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from proxy.store.columns import Base, Json, Words


class DecisionRow(Base):
    __tablename__ = "decisions"

    step_id: Mapped[str] = mapped_column(ForeignKey("steps.id", ondelete="CASCADE"), primary_key=True)
    episode_id: Mapped[str] = mapped_column(ForeignKey("episodes.id", ondelete="CASCADE"), index=True)
    policy: Mapped[str] = mapped_column(String(64))
    adapter: Mapped[str | None] = mapped_column(String(64))
    query: Mapped[str | None] = mapped_column(Words)
    task: Mapped[str | None] = mapped_column(Words)
    servers: Mapped[Any | None] = mapped_column(Json)
    candidates: Mapped[Any | None] = mapped_column(Json)
    """`[[tool, score], …]`, best first."""
    shown: Mapped[Any | None] = mapped_column(Json)
    propensities: Mapped[Any | None] = mapped_column(Json)
    degraded: Mapped[str | None] = mapped_column(Words)
    catalog: Mapped[str] = mapped_column(String(64))
    decided_at: Mapped[datetime]
    duration_ms: Mapped[float] = mapped_column(Float)
    asked: Mapped[int | None]
    """At most how many the agent wanted; None where it left that to the router. This and what follows are None, too,
    in rows of revisions before 0003."""
    cut: Mapped[int | None]
    """How many were shown."""
    entropy: Mapped[float | None] = mapped_column(Float)
    """Of the softmax over the candidates, in nats."""
    sure: Mapped[bool | None]
    explored: Mapped[bool | None]


class ShadowRow(Base):
    """What the shadow adapter ranked for the query of a decision. Only where the step's level is `full`: without its
    candidates a ranking that nobody saw says nothing."""

    __tablename__ = "shadow_decisions"

    step_id: Mapped[str] = mapped_column(ForeignKey("steps.id", ondelete="CASCADE"), primary_key=True)
    episode_id: Mapped[str] = mapped_column(ForeignKey("episodes.id", ondelete="CASCADE"), index=True)
    policy: Mapped[str] = mapped_column(String(64))
    adapter: Mapped[str | None] = mapped_column(String(64))
    candidates: Mapped[Any] = mapped_column(Json)
    """As in `decisions`."""
    decided_at: Mapped[datetime]
