"""The database, on SQLite and on PostgreSQL alike where nothing else is said."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, func, make_url, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError, StatementError
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.errors import ConfigurationError
from proxy.store.database import Database, is_outage, sqlite_engine
from proxy.store.migrating import migrate
from proxy.store.tables import DefinitionRow, EpisodeRow, StepRow, StreamRow
from tests.fixtures.rows import fill, row

pytestmark = pytest.mark.anyio

WAIT_S = 30.0


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[Database]:
    database = Database(url, **options)
    try:
        yield database
    finally:
        await database.close()


async def streams(connection: AsyncConnection) -> int:
    return (await connection.execute(select(func.count()).select_from(StreamRow))).scalar_one()


def some(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [row(StreamRow, id=f"{number}") for number in range(first, first + count)]


async def test_what_is_added_twice_is_there_once(database: Database) -> None:
    async with database.writing() as connection:
        assert await database.add(connection, StreamRow, some(3)) == 3
        assert await database.add(connection, StreamRow, some(5)) == 2
    async with database.writing() as connection:
        assert await database.add(connection, StreamRow, some(5)) == 0
        assert await database.add(connection, StreamRow, some(1)) == 0
        assert await database.add(connection, StreamRow, some(1, first=5)) == 1
        assert await database.add(connection, StreamRow, []) == 0
        assert await streams(connection) == 6


async def test_a_large_batch_is_counted_exactly(database: Database) -> None:
    await fill(database)
    steps = [row(StepRow, id=f"{number}", episode_id="x", seq=number) for number in range(2, 5002)]
    async with database.writing() as connection:
        assert await database.add(connection, StepRow, steps[:1000]) == 1000
        assert await database.add(connection, StepRow, steps) == 4000


async def test_a_number_of_a_stream_is_there_once_whatever_the_step_is_called(database: Database) -> None:
    await fill(database)
    async with database.writing() as connection:
        assert await database.add(connection, StepRow, [row(StepRow, id="other", stream="x", seq=1)]) == 0


async def test_rows_that_name_different_columns_are_refused(database: Database) -> None:
    rows: list[dict[str, Any]] = [{"id": "1"}, {"id": "2", "replica": "1"}]
    async with database.writing() as connection:
        with pytest.raises(ValueError, match="different columns"):
            await database.add(connection, StreamRow, rows)


async def test_an_unknown_column_is_refused(database: Database) -> None:
    async with database.writing() as connection:
        with pytest.raises(ValueError, match="no_such_column"):
            await database.add(connection, StreamRow, [row(StreamRow, no_such_column=1)])


async def test_a_step_needs_its_episode_and_goes_with_it(database: Database) -> None:
    with pytest.raises(IntegrityError):
        async with database.writing() as connection:
            await database.add(connection, StepRow, [row(StepRow)])
    await fill(database)
    async with database.writing() as connection:
        await connection.execute(delete(EpisodeRow))
        assert (await connection.execute(select(func.count()).select_from(StepRow))).scalar_one() == 0


async def test_a_reader_sees_one_state_until_its_end(database: Database) -> None:
    async with database.reading() as reader:
        assert await streams(reader) == 0
        async with database.writing() as writer:
            await database.add(writer, StreamRow, some(2))
        assert await streams(reader) == 0
    async with database.reading() as reader:
        assert await streams(reader) == 2


async def test_a_reader_does_not_wait_for_a_writer(database: Database) -> None:
    with anyio.fail_after(WAIT_S):
        async with database.writing() as writer:
            await database.add(writer, StreamRow, some(2))
            async with database.reading() as reader:
                assert await streams(reader) == 0


async def test_a_reader_cannot_write(database: Database) -> None:
    with pytest.raises(DBAPIError, match=r"read-?only"):
        async with database.reading() as reader:
            await database.add(reader, StreamRow, some(1))
    async with database.writing() as connection:
        assert await database.add(connection, StreamRow, some(1)) == 1


async def test_an_exception_undoes_what_was_written(database: Database) -> None:
    async def fail() -> None:
        async with database.writing() as connection:
            await database.add(connection, StreamRow, some(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with database.reading() as connection:
        assert await streams(connection) == 0


async def test_a_writer_that_is_cancelled_leaves_nothing_behind_and_holds_nobody_up(database: Database) -> None:
    async def write(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with database.writing() as connection:
            await database.add(connection, StreamRow, some(3))
            task_status.started()
            await anyio.sleep_forever()

    with anyio.fail_after(WAIT_S):
        for _ in range(3):
            async with anyio.create_task_group() as tasks:
                await tasks.start(write)
                tasks.cancel_scope.cancel()
        async with database.writing() as connection:
            assert await database.add(connection, StreamRow, some(1)) == 1


async def test_writers_that_read_first_do_not_fail_each_other(database: Database, database_url: str) -> None:
    async def write(through: Database, first: int) -> None:
        for number in range(first, first + 10):
            async with through.writing() as connection:
                await streams(connection)
                await anyio.lowlevel.checkpoint()
                await through.add(connection, StreamRow, some(1, number))

    async with opened(database_url) as other:
        with anyio.fail_after(WAIT_S):
            async with anyio.create_task_group() as tasks:
                for place, through in enumerate((database, other, database, other)):
                    tasks.start_soon(write, through, place * 10)
    async with database.reading() as connection:
        assert await streams(connection) == 40


async def test_times_come_back_in_utc(database: Database) -> None:
    noon = datetime(2026, 3, 29, 12, 0, 0, 5, tzinfo=timezone(timedelta(hours=-3)))
    async with database.writing() as connection:
        await database.add(connection, StreamRow, [row(StreamRow, began_at=noon)])
        kept = (await connection.execute(select(StreamRow.began_at))).scalar_one()
        assert kept == noon
        assert kept.utcoffset() == timedelta(0)
        earlier = select(func.count()).where(StreamRow.began_at < noon + timedelta(microseconds=1))
        assert (await connection.execute(earlier)).scalar_one() == 1


async def test_a_time_without_its_zone_is_refused(database: Database) -> None:
    async with database.writing() as connection:
        with pytest.raises(StatementError, match="without its zone"):
            await database.add(connection, StreamRow, [row(StreamRow, began_at=datetime(2026, 1, 1))])  # noqa: DTZ001


words = st.text(st.characters(exclude_categories=()), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(words, inner), max_leaves=12)


@given(value=values.filter(lambda value: value is not None))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_json_comes_back_exactly(database: Database, value: Any) -> None:
    name = uuid.uuid4().hex
    async with database.writing() as connection:
        await database.add(connection, DefinitionRow, [row(DefinitionRow, hash=name, definition=value)])
        query = select(DefinitionRow.definition).where(DefinitionRow.hash == name)
        kept = (await connection.execute(query)).scalar_one()
    # Text tells 1 from 1.0 and true, and the order of keys.
    assert json.dumps(kept) == json.dumps(value)


@given(said=words)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_words_come_back_but_for_what_no_database_holds(database: Database, said: str) -> None:
    name = uuid.uuid4().hex
    async with database.writing() as connection:
        await database.add(connection, DefinitionRow, [row(DefinitionRow, hash=name, tool=said)])
        query = select(DefinitionRow.tool).where(DefinitionRow.hash == name)
        kept = (await connection.execute(query)).scalar_one()
    for before, after in zip(said, kept, strict=True):
        held = before != "\0" and not "\ud800" <= before <= "\udfff"
        assert after == (before if held else after)
        assert held or after in "?\ufffd"


async def test_an_error_does_not_repeat_what_was_to_be_written(database: Database) -> None:
    with pytest.raises(IntegrityError) as caught:
        async with database.writing() as connection:
            await database.add(connection, StepRow, [row(StepRow, error="a word of the agent")])
    assert "a word of the agent" not in str(caught.value)


async def test_a_database_without_tables_is_no_outage(database_url: str) -> None:
    async with opened(database_url) as database:
        with pytest.raises(DBAPIError) as caught:
            async with database.reading() as connection:
                await streams(connection)
    assert not is_outage(caught.value)


@pytest.fixture
async def sqlite_url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'new' / 'folder' / 'log.db'}"
    await migrate(url)
    return url


@pytest.fixture
def generous_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("generous_umask")
async def test_files_are_readable_by_their_owner_alone(tmp_path: Path, sqlite_url: str) -> None:
    folder = tmp_path / "new" / "folder"
    assert mode(folder) == 0o700
    (folder / "log.db").chmod(0o644)
    async with opened(sqlite_url) as database:
        async with database.writing() as connection:
            await database.add(connection, StreamRow, some(1))
        assert {path.name: mode(path) for path in folder.iterdir()} == {
            "log.db": 0o600,
            "log.db-wal": 0o600,
            "log.db-shm": 0o600,
        }


async def test_sqlite_is_set_up_on_every_connection(sqlite_url: str) -> None:
    async with opened(sqlite_url) as database:
        for using in (database.reading, database.writing):
            async with using() as connection:
                kept = {
                    name: (await connection.exec_driver_sql(f"PRAGMA {name}")).scalar_one()
                    for name in ("journal_mode", "synchronous", "foreign_keys", "secure_delete", "busy_timeout")
                }
                assert kept == {
                    "journal_mode": "wal",
                    "synchronous": 2,
                    "foreign_keys": 1,
                    "secure_delete": 1,
                    "busy_timeout": 10_000,
                }


async def test_a_sqlite_file_that_is_locked_too_long_is_an_outage(tmp_path: Path, sqlite_url: str) -> None:
    impatient = sqlite_engine(tmp_path / "new" / "folder" / "log.db", busy_s=0.0)
    async with opened(sqlite_url) as database, database.writing():
        with pytest.raises(DBAPIError) as caught:
            async with impatient.begin():
                pass
    assert is_outage(caught.value)
    async with impatient.begin() as connection:
        assert await streams(connection) == 0
    await impatient.dispose()


async def test_a_place_where_no_file_can_be_made_is_the_owners_to_mend(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with opened(f"sqlite:///{tmp_path / 'file' / 'log.db'}") as database:
        with pytest.raises(ConfigurationError, match="--database"):
            async with database.reading():
                pass


async def test_a_postgres_that_does_not_answer_is_an_outage_and_then_works_again(postgres_server: str) -> None:
    async with opened("postgresql://agent:hidden@127.0.0.1:1/log") as database:
        with pytest.raises(OSError, match="Connect call failed") as refused:
            async with database.reading():
                pass
    assert is_outage(refused.value)
    async with opened(f"{postgres_server}/postgres") as database:
        with pytest.raises(DBAPIError) as ended:
            async with database.reading() as connection:
                await connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
        assert is_outage(ended.value)
        async with database.reading() as connection:
            assert (
                await connection.execute(text("SELECT current_setting('application_name')"))
            ).scalar() == "toolatlas"


async def test_a_statement_that_takes_too_long_on_postgres_is_an_outage(postgres_server: str) -> None:
    async with opened(f"{postgres_server}/postgres", statement_s=0.1) as database:
        with anyio.fail_after(WAIT_S):
            with pytest.raises(TimeoutError) as caught:
                async with database.reading() as connection:
                    await connection.execute(text("SELECT pg_sleep(600)"))
    assert is_outage(caught.value)


async def test_a_refused_login_is_no_outage(postgres_server: str) -> None:
    url = make_url(f"{postgres_server}/postgres").set(username="nobody", password="hidden")
    async with opened(url.render_as_string(hide_password=False)) as database:
        with pytest.raises(DBAPIError) as caught:
            async with database.reading():
                pass
    assert not is_outage(caught.value)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://me:hidden@host/log", "begins with mysql:"),
        ("postgresql+psycopg://me:hidden@host/log", "begins with postgresql+psycopg:"),
        ("me:hidden@host", "no URL"),
        ("sqlite://", "is a file"),
        ("sqlite:///:memory:", "is a file"),
        ("sqlite://host/log.db", "is a file"),
        ("sqlite:///log.db?mode=ro", "is a file"),
        ("postgresql://me:hidden@host", "name of a database"),
        ("postgresql://me:hidden@host/log?hidden_option=1", "hidden_option"),
    ],
)
def test_another_url_is_refused_without_repeating_it(url: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Database(url)
    assert says in str(caught.value)
    assert "hidden@" not in str(caught.value)


async def test_the_password_is_not_shown() -> None:
    async with opened("postgresql://me:hidden@host/log?sslmode=require") as database:
        assert database.shown == "postgresql://me:***@host/log?sslmode=require"


def test_a_missing_driver_is_named_with_the_command_that_installs_it() -> None:
    code = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "from proxy.store.database import Database\n"
        "Database('postgresql://me:hidden@host/log')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_S)
    assert "ConfigurationError: PostgreSQL needs asyncpg: pip install 'toolatlas[postgres]'" in ended.stderr


async def test_another_process_that_closes_the_file_leaves_ours_its_write_ahead_log(tmp_path: Path) -> None:
    """It removes the log where nobody else holds a lock on the file; ours must not be lost with a new connection."""
    path = tmp_path / "log.db"
    await migrate(f"sqlite:///{path}")
    first, second = Database(f"sqlite:///{path}"), Database(f"sqlite:///{path}")
    write = (
        "import sqlite3, sys; connection = sqlite3.connect(sys.argv[1]); "
        "connection.execute(\"INSERT INTO streams VALUES ('other', '0', '1', '2026-11-30 12:00:00')\"); "
        "connection.commit(); connection.close()"
    )
    try:
        async with first.reading() as connection:
            await connection.execute(select(StreamRow))
            async with second.reading() as another:
                await another.execute(select(StreamRow))
            await anyio.run_process([sys.executable, "-c", write, str(path)])
            assert "log.db-wal" in os.listdir(tmp_path)
        async with second.reading() as connection:
            assert (await connection.execute(select(StreamRow.id))).scalars().all() == ["other"]
    finally:
        await first.close()
        await second.close()
