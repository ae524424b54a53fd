"""The tables of training: what came of each run.

Above: tables.py, which names them; training_runs.py alone reads and writes them. Below: columns.py. Rows are only ever
added, and examples go with the episode whose words they are in.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from proxy.store.columns import Base, Json


class TrainingReportRow(Base):
    """What an evaluation of a run found; of several, the latest counts."""

    __tablename__ = "training_reports"
    __table_args__ = (Index(None, "run"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    run: Mapped[str] = mapped_column(String(64))
    adapter_hash: Mapped[str] = mapped_column(String(64))
    """No foreign key: a report of what was never registered is one, too."""
    made_at: Mapped[datetime]
    report: Mapped[Any] = mapped_column(Json)
    """As training_report.py writes it, without examples."""


class TrainingExampleRow(Base):
    """A query that the adapter answers otherwise than what was there before."""

    __tablename__ = "training_examples"
    __table_args__ = (Index(None, "report_id"), Index(None, "episode_id"))

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    report_id: Mapped[int] = mapped_column(ForeignKey("training_reports.id", ondelete="CASCADE"))
    episode_id: Mapped[str | None] = mapped_column(ForeignKey("episodes.id", ondelete="CASCADE"))
    """Whose words it is in; None where it is of a task file."""
    example: Mapped[Any] = mapped_column(Json)
