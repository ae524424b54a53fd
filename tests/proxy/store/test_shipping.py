"""Databases and disks that fail for a while: calls go on, and the log catches up."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import psutil
import pytest
from anyio.abc import ByteStream, SocketStream
from sqlalchemy import make_url

from proxy.store.migrating import migrate
from proxy.store.recording import StoreRecorder
from proxy.store.tables import GapRow, StepRow
from tests.fixtures.databases import empty_database
from tests.fixtures.recorded import WITHIN_S, recorder_of, rows, step_of
from tests.fixtures.running import LOOPBACK, free_port

pytestmark = pytest.mark.anyio


@pytest.fixture
def postgres_database(postgres_server: str) -> Iterator[str]:
    with empty_database(postgres_server) as url:
        yield url


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(WITHIN_S):
        while not condition():
            await anyio.sleep(0.01)


class Passage:
    """A port that leads to a PostgreSQL, unless it is shut; then what is open breaks, and connecting is refused."""

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        self._to = (parsed.host or LOOPBACK, parsed.port or 5432)
        self._port = free_port()
        self.url = parsed.set(host=LOOPBACK, port=self._port).render_as_string(hide_password=False)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        listener = await anyio.create_tcp_listener(local_host=LOOPBACK, local_port=self._port, reuse_port=True)
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self._serve)
            yield
            tasks.cancel_scope.cancel()

    async def _serve(self, near: SocketStream) -> None:
        async with near, await anyio.connect_tcp(*self._to) as far, anyio.create_task_group() as tasks:
            tasks.start_soon(self._pass, near, far)
            tasks.start_soon(self._pass, far, near)

    async def _pass(self, source: ByteStream, target: ByteStream) -> None:
        try:
            async for content in source:
                await target.send(content)
            await target.send_eof()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return


async def record(recorder: StoreRecorder, first: int, last: int) -> None:
    for number in range(first, last + 1):
        recorder.record(step_of(number))
    await until(lambda: recorder.counts.acknowledged == last)


@asynccontextmanager
async def locked(path: str) -> AsyncGenerator[None]:
    """Nobody else can write to a SQLite file."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


async def test_steps_that_came_while_postgresql_was_away_are_in_the_tables_once_it_is_back(
    tmp_path: Path, postgres_database: str
) -> None:
    await migrate(postgres_database)
    passage = Passage(postgres_database)
    recorder = recorder_of(tmp_path / "journals", passage.url)
    async with recorder.running():
        await outage(recorder, passage.open)
    assert [row["seq"] for row in await rows(postgres_database, StepRow, StepRow.seq)] == list(range(1, 301))
    assert not await rows(postgres_database, GapRow)


async def outage(recorder: StoreRecorder, open: Callable[[], AbstractAsyncContextManager[None]]) -> None:
    async with open():
        await record(recorder, 1, 100)
        assert await recorder.flushed(WITHIN_S)
    await record(recorder, 101, 200)
    await until(lambda: recorder.counts.problem is not None)
    assert recorder.counts.shipped == 100
    assert recorder.counts.waiting_bytes > 0
    assert not await recorder.flushed(0.05)
    assert "***" in (recorder.counts.problem or "")
    async with open():
        await record(recorder, 201, 300)
        assert await recorder.flushed(WITHIN_S)
        assert recorder.counts.problem is None


async def test_steps_that_came_while_sqlite_was_locked_are_in_the_tables_once_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    recorder = recorder_of(tmp_path / "journals", f"sqlite:///{path}")
    async with recorder.running():
        await record(recorder, 1, 100)
        assert await recorder.flushed(WITHIN_S)
        async with locked(str(path)):
            await record(recorder, 101, 300)
            assert not await recorder.flushed(0.05)
            assert recorder.counts.shipped == 100
        assert await recorder.flushed(WITHIN_S)
    assert [row["seq"] for row in await rows(f"sqlite:///{path}", StepRow, StepRow.seq)] == list(range(1, 301))


async def test_a_postgresql_without_tables_is_waited_for_and_it_is_said_what_to_run(
    tmp_path: Path, postgres_database: str
) -> None:
    recorder = recorder_of(tmp_path, postgres_database)
    async with recorder.running():
        await record(recorder, 1, 10)
        await until(lambda: "toolatlas migrate" in (recorder.counts.problem or ""))
        await migrate(postgres_database)
        assert await recorder.flushed(WITHIN_S)
        assert recorder.counts.problem is None
    assert len(await rows(postgres_database, StepRow)) == 10


async def test_a_full_disk_drops_what_has_no_room_counts_it_and_says_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    recorder = recorder_of(tmp_path / "journals", url, queue_bytes=300_000)
    async with recorder.running():
        await record(recorder, 1, 10)
        assert await recorder.flushed(WITHIN_S)
        writer = psutil.Process(recorder.writer_pid)
        limit = writer.rlimit(resource.RLIMIT_FSIZE)
        # No file of the writer may grow: neither its journal nor the database.
        writer.rlimit(resource.RLIMIT_FSIZE, (1, limit[1]))
        with anyio.fail_after(WITHIN_S):
            while not recorder.counts.dropped:
                recorder.record(step_of(arguments={"text": "x" * 20_000}))
                await anyio.lowlevel.checkpoint()
        await until(lambda: "File too large" in (recorder.counts.problem or ""))
        writer.rlimit(resource.RLIMIT_FSIZE, limit)
        await until(lambda: recorder.counts.acknowledged == recorder.counts.assigned)
        recorder.record(step_of())
        assert await recorder.flushed(WITHIN_S)
        counts = recorder.counts
    assert counts.problem is None
    kept = {row["seq"] for row in await rows(url, StepRow)}
    gaps = await rows(url, GapRow)
    missing = {number for gap in gaps for number in range(gap["first_seq"], gap["last_seq"] + 1)}
    assert kept | missing == set(range(1, counts.assigned + 1))
    assert not kept & missing
    assert len(missing) == counts.dropped > 0


async def test_a_journal_has_a_limit_and_what_is_beyond_it_is_counted(tmp_path: Path) -> None:
    away = "postgresql://nobody:nothing@127.0.0.1:1/none"
    recorder = recorder_of(tmp_path, away, queue_bytes=300_000, journal_bytes=200_000, drain_s=0.1)
    async with recorder.running():
        with anyio.fail_after(WITHIN_S):
            while not recorder.counts.dropped:
                recorder.record(step_of(arguments={"text": "x" * 5_000}))
                await anyio.lowlevel.checkpoint()
        await until(lambda: "journal holds" in (recorder.counts.problem or ""))
        assert recorder.counts.acknowledged < recorder.counts.assigned
