"""The journal's files: what was durable comes back once and in order, whatever happened to the end of them."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.store.journal import Journal, Position, framed

HEADER = framed(b'{"kind":"segment"}')
RECORDS = st.lists(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=40), max_size=3), max_size=12)


def line(record: Any) -> bytes:
    return framed(json.dumps(record).encode())


def numbered(first: int, last: int) -> list[bytes]:
    return [line({"n": number}) for number in range(first, last + 1)]


def numbers(journal: Journal, start: Position | None = None) -> list[int]:
    """All that is there, read a little at a time."""
    found: list[int] = []
    while (batch := journal.read(start, 40)).records:
        found += [record["n"] for record in batch.records if "n" in record]
        start = batch.end
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(groups=st.lists(RECORDS, max_size=5), segment_bytes=st.integers(1, 400), limit=st.integers(1, 300))
def test_what_was_appended_is_read_in_order_over_files_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[dict[str, Any]]], segment_bytes: int, limit: int
) -> None:
    journal = Journal(tmp_path_factory.mktemp("journal"), segment_bytes=segment_bytes)
    for group in groups:
        journal.append(HEADER, [line(record) for record in group])
        journal.sync()
    found: list[dict[str, Any]] = []
    place = None
    while (batch := journal.read(place, limit)).records:
        found += [record for record in batch.records if record != {"kind": "segment"}]
        place = batch.end
        assert not batch.damaged
    journal.close()
    assert found == [record for group in groups for record in group]


def test_what_is_not_synced_yet_is_not_read(folder: Path) -> None:
    journal = Journal(folder)
    journal.append(HEADER, numbered(1, 2))
    assert numbers(journal) == []
    journal.sync()
    journal.append(HEADER, numbered(3, 3))
    assert numbers(journal) == [1, 2]
    journal.close()


def test_half_a_line_at_the_end_is_left_out_and_counted_and_what_comes_later_is_read(folder: Path) -> None:
    journal = Journal(folder)
    journal.append(HEADER, numbered(1, 3))
    journal.sync()
    journal.close()
    (file,) = folder.glob("*.journal")
    file.write_bytes(file.read_bytes()[:-5])
    again = Journal(folder)
    again.append(HEADER, numbered(3, 4))
    again.sync()
    assert again.read(None, 10_000).damaged == 1
    assert numbers(again) == [1, 2, 3, 4]
    again.close()


@pytest.mark.parametrize("place", [0, 3, 9, 14, 20])
def test_a_changed_byte_costs_its_line_and_no_other(folder: Path, place: int) -> None:
    journal = Journal(folder)
    journal.append(b"", numbered(1, 3))
    journal.sync()
    (file,) = folder.glob("*.journal")
    content = bytearray(file.read_bytes())
    second = content.index(b"\n") + 1
    content[second + min(place, content.index(b"\n", second) - second - 1)] ^= 1
    file.write_bytes(content)
    batch = journal.read(None, 10_000)
    journal.close()
    assert [record["n"] for record in batch.records] == [1, 3]
    assert batch.damaged == 1


def test_discarding_removes_the_files_of_which_nothing_is_left(folder: Path) -> None:
    journal = Journal(folder, segment_bytes=1)
    for number in range(1, 5):
        journal.append(HEADER, numbered(number, number))
        journal.sync()
    assert len(list(folder.glob("*.journal"))) == 4
    journal.discard(Position(3, 0))
    assert len(list(folder.glob("*.journal"))) == 2
    assert numbers(journal) == [3, 4]
    journal.close()


def test_the_file_in_use_goes_when_all_of_it_is_read_and_nothing_happens(folder: Path) -> None:
    journal = Journal(folder)
    journal.append(HEADER, numbered(1, 2))
    journal.sync()
    end = journal.read(None, 10_000).end
    journal.discard(end)
    assert journal.waiting_bytes == 0
    assert list(folder.glob("*.journal"))
    journal.discard(end, idle=True)
    assert not list(folder.glob("*.journal"))
    journal.append(HEADER, numbered(3, 3))
    journal.sync()
    assert numbers(journal, end) == [3]
    assert journal.waiting_bytes > 0
    journal.close()


def test_the_file_in_use_stays_while_something_in_it_is_not_read(folder: Path) -> None:
    journal = Journal(folder)
    journal.append(HEADER, numbered(1, 1))
    journal.sync()
    end = journal.read(None, 10_000).end
    journal.append(HEADER, numbered(2, 2))
    journal.discard(end, idle=True)
    journal.sync()
    assert numbers(journal, end) == [2]
    journal.close()


def test_a_disk_that_is_full_keeps_none_of_what_was_refused_and_all_that_was_there(folder: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    journal = Journal(folder)
    journal.append(HEADER, numbered(1, 2))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        with pytest.raises(OSError, match="File too large"):
            journal.append(HEADER, [line({"n": 3, "much": "x" * 10_000})])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    journal.append(HEADER, numbered(4, 4))
    journal.sync()
    assert numbers(journal) == [1, 2, 4]
    journal.close()


def test_files_are_readable_by_their_owner_alone(folder: Path) -> None:
    journal = Journal(folder)
    journal.append(HEADER, numbered(1, 1))
    journal.close()
    assert [path.stat().st_mode & 0o777 for path in folder.glob("*.journal")] == [0o600]
