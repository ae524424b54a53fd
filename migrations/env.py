"""Alembic runs this for each command; proxy/store/migrating.py brings the connection, in a transaction of its own."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext
from sqlalchemy import TypeDecorator

from proxy.store.tables import Base


def plain_type(kind: str, value: Any, autogen: AutogenContext) -> str | Literal[False]:
    """A revision names the databases' types: ours may change later, and it must not."""
    return f"sa.{value.impl!r}" if kind == "type" and isinstance(value, TypeDecorator) else False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    # SQLite cannot alter most of a table; Alembic then makes it anew and copies the rows.
    render_as_batch=True,
    render_item=plain_type,
)
with context.begin_transaction():
    context.run_migrations()
