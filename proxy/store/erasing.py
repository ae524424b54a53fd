"""Makes the space of deleted rows really free of them: a database keeps bytes of what it no longer shows.

Above: deletions.py, retention.py. Below: the databases' own commands, outside transactions.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio.to_thread
from sqlalchemy.exc import SQLAlchemyError

from proxy.store.database import Database, read_url, sqlite_path
from proxy.store.tables import Base

WAIT_S = 30.0
"""For others that are reading or writing."""
LONGEST_S = 24 * 3600.0
"""For one table."""


async def erase(database: Database) -> str | None:
    """Write all tables anew, without what was deleted; None, or why bytes of it may still be there.

    Takes as long as copying the database and as much space again, and writers wait meanwhile. What lies in backups,
    archived logs, replicas and the disk's own free space is beyond reach.
    """
    if database.sqlite:
        return await anyio.to_thread.run_sync(_rewrite, sqlite_path(read_url(database.shown)), True)
    return await _vacuum(database, "VACUUM (FULL)", [table.name for table in Base.metadata.sorted_tables])


async def tidy(database: Database, tables: list[str]) -> str | None:
    """Less than `erase`, and without holding anybody up: deleted bytes go out of SQLite's write-ahead log and are
    overwritten in its file but for copies of rows that were moved; PostgreSQL can use their space again."""
    if database.sqlite:
        return await anyio.to_thread.run_sync(_rewrite, sqlite_path(read_url(database.shown)), False)
    return await _vacuum(database, "VACUUM", tables)


def _rewrite(path: Path, whole: bool) -> str | None:
    try:
        with closing(sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)) as connection:
            connection.execute("PRAGMA secure_delete=ON")
            if whole:
                # Deleted rows are overwritten with zeros, but copies of rows that moved within the file may be left.
                connection.execute("VACUUM")
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        return f"the database file cannot be rewritten now: {error}"
    return "somebody is reading the database, so that its write-ahead log cannot be emptied now" if busy else None


async def _vacuum(database: Database, command: str, tables: list[str]) -> str | None:
    try:
        async with database.writing() as connection:
            # SQLAlchemy begins its transaction with the first statement that goes through it, and this is none.
            driver: Any = (await connection.get_raw_connection()).driver_connection
            await driver.execute(f"SET lock_timeout = '{int(WAIT_S)}s'")
            try:
                for table in tables:
                    await driver.execute(f"{command} {table}", timeout=LONGEST_S)
            finally:
                await driver.execute("RESET lock_timeout")
    except (SQLAlchemyError, OSError) as error:
        return f"PostgreSQL did not rewrite its tables: {error}"
    except Exception as error:
        # The driver's own errors, which have no common name without importing it.
        if getattr(error, "sqlstate", None) is None:
            raise
        return f"PostgreSQL did not rewrite its tables: {error}"
    return None
