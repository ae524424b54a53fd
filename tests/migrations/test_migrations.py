"""Migrations on both databases: up, down with rows in the tables, several at once, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import Connection, func, inspect, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.errors import ConfigurationError
from proxy.store.database import Database
from proxy.store.migrating import HEAD, differences, migrate, revision
from proxy.store.tables import Base
from tests.fixtures.rows import fill, tables

pytestmark = pytest.mark.anyio

WAIT_S = 60.0


@asynccontextmanager
async def writing(url: str) -> AsyncIterator[AsyncConnection]:
    database = Database(url)
    try:
        async with database.writing() as connection:
            yield connection
    finally:
        await database.close()


async def counts(url: str) -> dict[str, int]:
    async with writing(url) as connection:
        return {
            table.__tablename__: (await connection.execute(select(func.count()).select_from(table))).scalar_one()
            for table in tables()
        }


async def filled(url: str) -> None:
    database = Database(url)
    try:
        await fill(database)
    finally:
        await database.close()


def described(connection: Connection) -> dict[str, Any]:
    """Everything that the database knows of our tables, with the names of keys and indexes."""
    inspector = inspect(connection)

    def ordered(found: list[Any]) -> list[Any]:
        return sorted(found, key=lambda item: str(item["name"]))

    return {
        table: {
            "columns": [{**column, "type": str(column["type"])} for column in inspector.get_columns(table)],
            "key": inspector.get_pk_constraint(table),
            "references": ordered(list(inspector.get_foreign_keys(table))),
            "unique": ordered(list(inspector.get_unique_constraints(table))),
            "indexes": ordered(list(inspector.get_indexes(table))),
        }
        for table in Base.metadata.tables
    }


async def test_revisions_make_exactly_the_tables_that_the_code_describes(database_url: str) -> None:
    await migrate(database_url)
    assert await revision(database_url) == HEAD, "HEAD in migrating.py is not the newest revision"
    assert await differences(database_url) == []
    async with writing(database_url) as connection:
        migrated = await connection.run_sync(described)
    await migrate(database_url, to="base")
    async with writing(database_url) as connection:
        await connection.run_sync(Base.metadata.create_all)
        assert await connection.run_sync(described) == migrated


async def test_a_database_with_rows_goes_back_to_nothing_and_up_again(database_url: str) -> None:
    await migrate(database_url)
    await filled(database_url)
    await migrate(database_url)
    assert set((await counts(database_url)).values()) == {1}, "migrating again changed something"
    await migrate(database_url, to="base")
    assert await revision(database_url) is None
    async with writing(database_url) as connection:
        left = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    assert left == ["alembic_version"], "something stayed behind"
    await migrate(database_url, to="base")
    await migrate(database_url, to="0001")
    assert set((await counts(database_url)).values()) == {0}, "the first revision taken back loses the whole log"
    await filled(database_url)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("ALTER TABLE steps ADD COLUMN mood TEXT", "mood"),
        ("DROP INDEX ix_episodes_began_at_id", "ix_episodes_began_at_id"),
        ("CREATE TABLE moods (mood TEXT)", "moods"),
    ],
)
async def test_the_check_finds_what_was_changed_by_hand(
    database: Database, database_url: str, change: str, name: str
) -> None:
    async with database.writing() as connection:
        await connection.execute(text(change))
    (found,) = await differences(database_url)
    assert name in found


async def test_processes_that_migrate_at_the_same_time_all_succeed(database_url: str) -> None:
    code = "import asyncio, sys; from proxy.store.migrating import migrate; asyncio.run(migrate(sys.argv[1]))"
    command = [sys.executable, "-c", code, database_url]
    with anyio.fail_after(WAIT_S):
        started = [
            await anyio.open_process(command, stdin=subprocess.DEVNULL, stdout=None, stderr=None) for _ in range(4)
        ]
        assert [await process.wait() for process in started] == [0] * 4
    assert await differences(database_url) == []


async def test_a_database_that_a_newer_version_migrated_is_refused_and_left_alone(
    database: Database, database_url: str
) -> None:
    async with database.writing() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for refused in (migrate(database_url), migrate(database_url, to="base"), revision(database_url)):
        with pytest.raises(ConfigurationError, match=r"revision 9999.*a newer version has migrated it"):
            await refused
    await filled(database_url)


async def test_tables_of_another_program_are_left_alone(database_url: str) -> None:
    async with writing(database_url) as connection:
        await connection.execute(text("CREATE TABLE steps (stair TEXT)"))
        await connection.execute(text("INSERT INTO steps VALUES ('first')"))
    with pytest.raises(ConfigurationError, match="a database of its own"):
        await migrate(database_url)
    async with writing(database_url) as connection:
        assert (await connection.execute(text("SELECT stair FROM steps"))).scalar_one() == "first"


async def test_an_unknown_revision_is_refused_with_those_there_are(database_url: str) -> None:
    with pytest.raises(ConfigurationError, match="no revision '7'; there are: base, 0001"):
        await migrate(database_url, to="7")


async def test_asking_for_the_revision_of_a_file_that_is_not_there_makes_none(tmp_path: Path) -> None:
    assert await revision(f"sqlite:///{tmp_path / 'log.db'}") is None
    assert os.listdir(tmp_path) == []
