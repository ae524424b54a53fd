"""Where the log is kept: one SQLite file, or PostgreSQL 14 and later, behind the same four methods.

Above: whatever in store/ and dashboard/ reads or writes tables, and migrating.py. Below: SQLAlchemy with aiosqlite or
asyncpg. Errors of the database come out as SQLAlchemy's; `is_outage` tells those that pass from those that stay.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

from sqlalchemy import URL, Connection, Table, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from proxy.errors import ConfigurationError
from proxy.files import PRIVATE
from proxy.store.tables import Base

CONNECT_S = 5.0
STATEMENT_S = 30.0
"""How long PostgreSQL may take for one statement; also after this, a database that no longer answers is noticed."""
BUSY_S = 10.0
"""How long a transaction on SQLite waits for another one that writes."""

_PASSING_SQLITE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}
_PASSING_POSTGRES = ("08", "40", "53", "55", "57")
"""Classes of SQLSTATE: connection, rollback for others' sake, resources, object in use, operator's intervention."""


class Database:
    """The tables at one URL. Belongs to the event loop that uses it first; `close` it there.

    Args:
        url: `sqlite:///path` or `postgresql://user:password@host/database`. Nothing is opened yet.
        statement_s: Seconds that one statement may take on PostgreSQL; None for those that take long on purpose.

    Raises:
        ConfigurationError: The URL is of another kind, or the driver is missing.
    """

    def __init__(self, url: str, *, statement_s: float | None = STATEMENT_S) -> None:
        parsed = read_url(url)
        self.sqlite = parsed.drivername == "sqlite"
        self.shown = parsed.render_as_string(hide_password=True)
        """The URL for messages, without its password."""
        if self.sqlite:
            path = sqlite_path(parsed)
            self._reader = sqlite_engine(path, read_only=True)
            self._writer = sqlite_engine(path)
        else:
            self._writer = postgres_engine(parsed, statement_s=statement_s)
            # The same pool with other options.
            self._reader = self._writer.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncConnection]:
        """A connection that sees the state of its first query until the end, and cannot write.

        As long as it is open, SQLite keeps all that is written meanwhile in its write-ahead log.
        """
        async with self._reader.begin() as connection:
            yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[AsyncConnection]:
        """One transaction, committed at the end, undone by an exception. On SQLite there is one at a time."""
        async with self._writer.begin() as connection:
            yield connection

    async def add(self, connection: AsyncConnection, table: type[Base], rows: Sequence[Mapping[str, Any]]) -> int:
        """Insert what is not there yet, by any of the table's unique keys; how many rows were new.

        Raises:
            ValueError: The rows do not all name the same columns of the table: the others' values would be lost.
        """
        if not rows:
            return 0
        if any(row.keys() != rows[0].keys() for row in rows):
            raise ValueError(f"rows for {table.__tablename__} name different columns")
        target = cast("Table[Any]", table.__table__)
        if unknown := rows[0].keys() - set(target.columns.keys()):
            raise ValueError(f"{table.__tablename__} has no column {min(unknown)}")
        if self.sqlite:
            statement = sqlite.insert(target).on_conflict_do_nothing()
            return (await connection.execute(statement, list(rows))).rowcount
        # asyncpg counts no rows of many; with RETURNING, SQLAlchemy sends some hundred in one statement.
        returning = postgresql.insert(target).on_conflict_do_nothing().returning(*target.primary_key.columns)
        return len((await connection.execute(returning, list(rows))).all())

    async def close(self) -> None:
        """Close all connections. What is in a transaction then is undone."""
        await self._reader.dispose()
        await self._writer.dispose()


def is_outage(error: BaseException) -> bool:
    """Whether the database could not be reached, or not do it now: the same may succeed later, unchanged."""
    if isinstance(error, OSError | PoolTimeout):
        return True
    if isinstance(error, DBAPIError):
        if error.connection_invalidated:
            return True
        error = error.orig or error
    if isinstance(error, sqlite3.Error):
        # The code may be extended: what is special about it stands in the higher bytes.
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING_SQLITE
    # asyncpg's own errors, of which SQLAlchemy passes on some as they are when it connects.
    state = getattr(error, "sqlstate", None)
    return isinstance(state, str) and state[:2] in _PASSING_POSTGRES


def read_url(url: str) -> URL:
    """A URL of one of the two kinds. No message repeats it, since it may hold a password.

    Raises:
        ConfigurationError: It is of another kind.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    if parsed is None or parsed.drivername not in ("sqlite", "postgresql"):
        raise ConfigurationError(
            "a database is sqlite:///path/to/file.db or postgresql://user:password@host/database; "
            + ("what was given is no URL" if parsed is None else f"what was given begins with {parsed.drivername}:")
        )
    if parsed.drivername == "sqlite":
        if parsed.host or parsed.query or parsed.database in (None, "", ":memory:"):
            raise ConfigurationError("a SQLite database is a file, sqlite:///relative or sqlite:////absolute, no more")
    elif not parsed.database:
        raise ConfigurationError("the database URL ends with the name of a database: postgresql://host/NAME")
    elif unknown := sorted(set(parsed.query) - {"host", "port", "sslmode"}):
        raise ConfigurationError(f"the database URL takes host, port and sslmode after `?`, not {', '.join(unknown)}")
    return parsed


def sqlite_path(url: URL) -> Path:
    assert url.database is not None
    return Path(url.database).expanduser()


def sqlite_engine(
    path: Path, *, read_only: bool = False, foreign_keys: bool = True, busy_s: float = BUSY_S
) -> AsyncEngine:
    """Connections to one file, which is made when the first one is opened, for its owner alone."""
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(path)),
        # Transactions begin below: the driver would begin none for reading, and a late one for writing.
        connect_args={"isolation_level": None, "timeout": busy_s},
        # One writer at a time: more would only wait in threads of their own.
        **({} if read_only else {"pool_size": 1, "max_overflow": 0}),
        # Errors are logged; what agents and servers said is not.
        hide_parameters=True,
    )
    settings = (
        "journal_mode=WAL",
        # With less, a power cut may undo commits, of which the journal was told that it need not keep them any longer.
        "synchronous=FULL",
        f"foreign_keys={'ON' if foreign_keys else 'OFF'}",
        # What is deleted is overwritten.
        "secure_delete=ON",
        f"query_only={'ON' if read_only else 'OFF'}",
    )

    def prepare(*_: Any) -> None:
        make_private(path)

    def configure(connection: Any, _: Any) -> None:
        cursor = connection.cursor()
        for setting in settings:
            cursor.execute(f"PRAGMA {setting}")
        cursor.close()

    def begin(connection: Connection) -> None:
        # A transaction that reads first and then writes would fail where another one has written in between.
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    event.listen(engine.sync_engine, "do_connect", prepare)
    event.listen(engine.sync_engine, "connect", configure)
    event.listen(engine.sync_engine, "begin", begin)
    return engine


def make_private(path: Path) -> None:
    """Make the file with its folder where there is none; it, and what SQLite keeps beside it, is for its owner alone.

    Raises:
        ConfigurationError: It cannot be made, or belongs to another user.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # One that is there is not opened: to close it would take from this process all locks that its connections hold
        # on it (POSIX), and another process that then closes its own would remove the write-ahead log under them.
        if path.exists():
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not os.access(path, os.R_OK | os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        else:
            with suppress(FileExistsError):
                # SQLite gives the files beside it the mode of this one.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
        for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            if name.exists() and name.stat().st_mode & 0o077:
                name.chmod(PRIVATE)
    except OSError as error:
        raise ConfigurationError(
            f"the log database {path} cannot be opened for this user alone: {error.strerror}; "
            "mend its permissions or choose another place with --database"
        ) from error


def postgres_engine(url: URL, *, statement_s: float | None) -> AsyncEngine:
    """Raises ConfigurationError where the driver is not installed."""
    query = dict(url.query)
    if "sslmode" in query:
        query["ssl"] = query.pop("sslmode")
    try:
        return create_async_engine(
            url.set(drivername="postgresql+asyncpg", query=query),
            pool_pre_ping=True,
            pool_timeout=CONNECT_S,
            hide_parameters=True,
            connect_args={
                "timeout": CONNECT_S,
                "command_timeout": statement_s,
                "server_settings": {"application_name": "toolatlas"},
            },
        )
    except ModuleNotFoundError as error:
        raise ConfigurationError("PostgreSQL needs asyncpg: pip install 'toolatlas[postgres]'") from error
