"""The tables of the registry: which adapters there are, in which states they were, and who agreed to them.

Above: tables.py, which names them; registry.py alone reads and writes them. Below: columns.py. Rows are only
ever added.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Float, ForeignKey, Index, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from proxy.store.columns import Base, Json, Words


class AdapterRow(Base):
    """One trained adapter; its weights lie in the folder of adapters under its hash."""

    __tablename__ = "adapters"

    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    kind: Mapped[str] = mapped_column(String(32))
    """Of proxy/router/adapters.py; `policy` for one that works tasks."""
    base_hash: Mapped[str] = mapped_column(String(64))
    data_hash: Mapped[str] = mapped_column(String(64))
    """Of the episodes and rewards that it was trained on."""
    config: Mapped[Any] = mapped_column(Json)
    """What it was trained with."""
    metrics: Mapped[Any | None] = mapped_column(Json)
    """What its evaluation found."""
    created_at: Mapped[datetime]
    run: Mapped[str | None] = mapped_column(String(64))
    """Of the training that made it."""


class AdapterStateRow(Base):
    """One change of an adapter's state; the latest counts."""

    __tablename__ = "adapter_states"
    __table_args__ = (Index(None, "adapter_hash", "changed_at"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    adapter_hash: Mapped[str] = mapped_column(ForeignKey("adapters.hash", ondelete="CASCADE"))
    state: Mapped[str] = mapped_column(String(16))
    """`candidate`, `shadow`, `canary`, `active` or `retired`."""
    reason: Mapped[str | None] = mapped_column(Words)
    changed_at: Mapped[datetime]
    share: Mapped[float | None] = mapped_column(Float)
    """Of tasks that a canary answers, 0 to 1."""
    changed_by: Mapped[str | None] = mapped_column(Words)
    """A person, or the part of toolatlas that did it."""


class AdapterApprovalRow(Base):
    """A person's word that an adapter may serve."""

    __tablename__ = "adapter_approvals"
    __table_args__ = (Index(None, "adapter_hash"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    adapter_hash: Mapped[str] = mapped_column(ForeignKey("adapters.hash", ondelete="CASCADE"))
    approved_by: Mapped[str] = mapped_column(Words)
    note: Mapped[str | None] = mapped_column(Words)
    approved_at: Mapped[datetime]
