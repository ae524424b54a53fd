"""Column types that keep the same on SQLite and PostgreSQL, and the base that every table is declared on.

Above: tables.py and judging_tables.py. Below: SQLAlchemy. Times are UTC; JSON is kept as text, since PostgreSQL's types
would not keep every number and character.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, ForeignKey, MetaData, String, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

_UNSTORABLE = re.compile("[\\0\\ud800-\\udfff]")


class Utc(TypeDecorator[datetime]):
    """Aware UTC times, also on SQLite, which keeps no zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without its zone cannot be stored")
        return value.astimezone(UTC) if dialect.name == "postgresql" else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Json(TypeDecorator[Any]):
    """Any JSON value as ASCII text: exact for big integers, order, NUL and half surrogate pairs on both databases."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else json.dumps(value, separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


class Words(TypeDecorator[str]):
    """Text of agents and servers: what the databases cannot hold is replaced by U+FFFD."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return _UNSTORABLE.sub("\ufffd", value)


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: Utc, str: String}  # noqa: RUF012 - SQLAlchemy's own way


def episode_key() -> Mapped[str]:
    """The episode that a row belongs to, and goes with."""
    return mapped_column(ForeignKey("episodes.id", ondelete="CASCADE"))
