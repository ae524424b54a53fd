"""Streams that a gateway left behind: what the next one makes of them."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import anyio.lowlevel
import pytest

from proxy.store.adopting import adopt_all
from proxy.store.database import Database
from proxy.store.journal import Journal, framed
from proxy.store.records import ending_record, gap_record, step_record
from proxy.store.redaction import Redactor
from proxy.store.rows import Rows
from proxy.store.streams import StreamFolder, abandoned
from proxy.store.tables import EndingRow, GapRow, StepRow, StreamRow
from proxy.store.tokens import Tokens
from tests.fixtures.recorded import KEY, ending_of, episode_of, rows, step_of

pytestmark = pytest.mark.anyio


def left_behind(where: Path, lines: list[bytes], *, assigned: int, acknowledged: int, after: int = 0) -> Path:
    """A stream as a killed gateway leaves it."""
    folder = StreamFolder.create(where, replica="old", version="0")
    counters = folder.counters()
    counters.assigned, counters.acknowledged = assigned, acknowledged
    counters.close()
    journal = Journal(folder.path)
    made = Rows(Redactor(KEY), Tokens())
    header = framed(json.dumps({"kind": "segment", "after": after}).encode())
    journal.append(header, [framed(json.dumps(made.of(json.loads(line))).encode()) for line in lines])
    journal.sync()
    journal.close()
    folder.close()
    return folder.path


def steps(first: int, last: int) -> list[bytes]:
    return [step_record(step_of(seq), seq) for seq in range(first, last + 1)]


async def adopt(where: Path, database: Database) -> None:
    await adopt_all(where, database, anyio.lowlevel.checkpoint)


def gaps_of(found: list[dict[str, object]]) -> list[tuple[object, object, object]]:
    return [(row["first_seq"], row["last_seq"], row["reason"]) for row in found]


async def test_what_is_durable_comes_into_the_tables_and_what_is_not_is_named(
    tmp_path: Path, database: Database, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = left_behind(tmp_path, steps(1, 5), assigned=9, acknowledged=4)
    with caplog.at_level(logging.WARNING):
        await adopt(tmp_path, database)
    assert not path.exists()
    assert [row["seq"] for row in await rows(database_url, StepRow, StepRow.seq)] == [1, 2, 3, 4, 5]
    (ending,) = await rows(database_url, EndingRow)
    (gap,) = await rows(database_url, GapRow)
    (stream,) = await rows(database_url, StreamRow)
    assert (ending["reason"], ending["steps"]) == ("lost", 5)
    assert (gap["stream"], gap["first_seq"], gap["last_seq"], gap["reason"]) == (path.name, 6, 9, "killed")
    assert (stream["id"], stream["replica"]) == (path.name, "old")
    assert "its steps 6 to 9 were not written" in caplog.text


async def test_nothing_is_reported_where_nothing_is_missing(
    tmp_path: Path, database: Database, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    left_behind(tmp_path, [*steps(1, 3), ending_record(ending_of(episode_of()))], assigned=3, acknowledged=3)
    with caplog.at_level(logging.WARNING):
        await adopt(tmp_path, database)
    assert [row["reason"] for row in await rows(database_url, EndingRow)] == ["finished"]
    assert await rows(database_url, GapRow) == []
    assert caplog.text == ""


async def test_bringing_a_journal_again_changes_nothing(tmp_path: Path, database: Database, database_url: str) -> None:
    lines = [*steps(1, 30), ending_record(ending_of(episode_of()))]
    path = left_behind(tmp_path, lines, assigned=30, acknowledged=30)
    kept = {file.name: file.read_bytes() for file in path.iterdir()}
    await adopt(tmp_path, database)
    path.mkdir()
    for name, content in kept.items():
        (path / name).write_bytes(content)
    await adopt(tmp_path, database)
    assert len(await rows(database_url, StepRow)) == 30
    assert len(await rows(database_url, EndingRow)) == 1


async def test_a_damaged_line_costs_its_step_alone_and_is_named_as_a_gap(
    tmp_path: Path, database: Database, database_url: str
) -> None:
    path = left_behind(tmp_path, steps(1, 5), assigned=5, acknowledged=5)
    (file,) = path.glob("*.journal")
    file.write_bytes(file.read_bytes().replace(b"question 3", b"question ?"))
    await adopt(tmp_path, database)
    assert [row["seq"] for row in await rows(database_url, StepRow, StepRow.seq)] == [1, 2, 4, 5]
    assert gaps_of(list(await rows(database_url, GapRow))) == [(3, 3, "damaged")]


async def test_a_gap_that_was_said_is_not_found_again(tmp_path: Path, database: Database, database_url: str) -> None:
    left_behind(tmp_path, [*steps(1, 2), gap_record(3, 6), *steps(7, 8)], assigned=8, acknowledged=8)
    await adopt(tmp_path, database)
    assert gaps_of(list(await rows(database_url, GapRow))) == [(3, 6, "overload")]


async def test_a_record_that_the_database_refuses_does_not_stop_the_others(
    tmp_path: Path, database: Database, database_url: str
) -> None:
    bad = step_record(step_of(2), 2).replace(b'"duration_ms":2.5', b'"duration_ms":"long"')
    bad = bad.replace(b'"started_at":"2', b'"started_at":"x')
    left_behind(tmp_path, [*steps(1, 1), bad, *steps(3, 4)], assigned=4, acknowledged=4)
    await adopt(tmp_path, database)
    assert [row["seq"] for row in await rows(database_url, StepRow, StepRow.seq)] == [1, 3, 4]
    assert gaps_of(list(await rows(database_url, GapRow))) == [(2, 2, "refused")]


async def test_a_stream_that_somebody_holds_is_left_alone(tmp_path: Path, database: Database) -> None:
    folder = StreamFolder.create(tmp_path, replica="one", version="0")
    await adopt(tmp_path, database)
    assert folder.path.exists()
    folder.close()
    await adopt(tmp_path, database)
    assert not folder.path.exists()


async def test_an_abandoned_stream_is_given_to_one_only(tmp_path: Path) -> None:
    StreamFolder.create(tmp_path, replica="one", version="0").close()
    first = abandoned(tmp_path)
    assert next(first).about()["replica"] == "one"
    assert list(abandoned(tmp_path)) == []
    first.close()
    assert len(list(abandoned(tmp_path))) == 1
