"""Makes the tables of a database, brings them up to date, and takes revisions back.

Above: commands/migrate.py, and whatever opens the log. Below: Alembic with the revisions in migrations/, which lies
beside `proxy` in a checkout and in an installation alike.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.errors import ConfigurationError
from proxy.store.database import Database, postgres_engine, read_url, sqlite_engine, sqlite_path
from proxy.store.tables import Base

HEAD = "0006"
"""The revision that tables.py describes."""
NOTHING = "base"
OLDEST_POSTGRES = (14,)
WAIT_S = 60.0
"""How long a migration waits for another one, and for transactions that use the tables."""

_SCRIPTS = Path(__file__).parents[2] / "migrations"
_LOCK = 0x746F6F6C61746C73
"""Of PostgreSQL's advisory locks, the one that a migration holds."""


async def migrate(url: str, *, to: str = "head") -> None:
    """Bring the database to a revision, `head` or `base`, in one transaction.

    Backwards loses what only later revisions keep. Where several processes do it at once, one does and the others
    find it done. Alembic's state is global: do not migrate two databases in one process at the same time.

    Raises:
        ConfigurationError: There is no such revision, or the database is none that this version can migrate.
    """
    async with _exclusive(url) as connection:
        await connection.run_sync(_move, to)


async def revision(url: str) -> str | None:
    """Where the database stands; None where nothing was migrated yet. Makes no file.

    Raises:
        ConfigurationError: It is at a revision that this version does not know.
    """
    parsed = read_url(url)
    if parsed.drivername == "sqlite" and not sqlite_path(parsed).exists():
        return None
    async with _reading(url) as connection:
        return await connection.run_sync(_revision)


async def differences(url: str) -> list[str]:
    """What the tables of a database have more, less, or otherwise than tables.py says; empty for the same."""
    async with _reading(url) as connection:
        return await connection.run_sync(_differences)


def configuration(connection: Connection) -> Config:
    """Alembic's, without a file: where the revisions are, and the connection that env.py takes."""
    config = Config()
    # It interpolates.
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


@asynccontextmanager
async def _reading(url: str) -> AsyncGenerator[AsyncConnection]:
    database = Database(url)
    try:
        async with database.reading() as connection:
            yield connection
    finally:
        await database.close()


@asynccontextmanager
async def _exclusive(url: str) -> AsyncGenerator[AsyncConnection]:
    """A transaction that no other migration runs beside, without a time limit for its statements."""
    parsed = read_url(url)
    # Alembic makes a table anew to alter it on SQLite; with foreign keys on, dropping the old one would delete the
    # rows that refer to it.
    sqlite = parsed.drivername == "sqlite"
    engine = (
        sqlite_engine(sqlite_path(parsed), foreign_keys=False, busy_s=WAIT_S)
        if sqlite
        else postgres_engine(parsed, statement_s=None)
    )
    try:
        async with engine.begin() as connection:
            if not sqlite:
                version = connection.dialect.server_version_info
                if version is not None and version < OLDEST_POSTGRES:
                    raise ConfigurationError(
                        f"PostgreSQL {version[0]} is too old; {OLDEST_POSTGRES[0]} or later is needed"
                    )
                await connection.execute(text(f"SET LOCAL lock_timeout = '{WAIT_S:.0f}s'"))
                await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            yield connection
            if sqlite and (broken := (await connection.exec_driver_sql("PRAGMA foreign_key_check")).all()):
                raise RuntimeError(f"{len(broken)} rows would refer to rows that are not there; nothing was changed")
    finally:
        await engine.dispose()


def _move(connection: Connection, to: str) -> None:
    config = configuration(connection)
    order = _order(config)
    target = HEAD if to == "head" else to
    if target not in order:
        raise ConfigurationError(f"there is no revision {to!r}; there are: {', '.join(order)}, head")
    now = _revision(connection)
    if now is None and (foreign := set(inspect(connection).get_table_names()) & set(Base.metadata.tables)):
        raise ConfigurationError(
            f"the database has tables that are not ours, such as {min(foreign)}; give toolatlas a database of its own"
        )
    ahead = order.index(target) - order.index(now or NOTHING)
    if ahead > 0:
        command.upgrade(config, target)
    elif ahead < 0:
        command.downgrade(config, target)


def _order(config: Config) -> list[str]:
    """All revisions, oldest first."""
    found = ScriptDirectory.from_config(config).walk_revisions()
    return [NOTHING, *reversed([script.revision for script in found])]


def _revision(connection: Connection) -> str | None:
    now = MigrationContext.configure(connection).get_current_revision()
    if now is not None and now not in _order(configuration(connection)):
        raise ConfigurationError(
            f"the database is at revision {now}, and this version of toolatlas knows none later than {HEAD}: "
            "a newer version has migrated it. Install that version, or choose another database"
        )
    return now


def _differences(connection: Connection) -> list[str]:
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return [str(difference) for difference in compare_metadata(context, Base.metadata)]
