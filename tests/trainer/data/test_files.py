"""Rows in files: equal when read, the same bytes when written, and clear about what is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import ConfigurationError
from proxy.router.base import History, Query
from tests.trainer.data.made import origin, ranking, unhurried
from trainer.data.files import SCHEMA, line_of, read_policy_rows, read_ranking_rows, read_rows, write_rows
from trainer.rows import PolicyRow, RankingRow, Segment, SegmentKind, Used

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(max_size=20)
NAMES = st.lists(TEXTS, max_size=3).map(tuple)
ORIGINS = st.builds(
    origin,
    agent=TEXTS,
    family=st.none() | TEXTS,
    task=st.none() | TEXTS,
    servers=st.frozensets(TEXTS, max_size=4),
    reward=NUMBERS,
    advantage=NUMBERS,
)
QUERIES = st.builds(
    Query,
    text=TEXTS,
    task=st.none() | TEXTS,
    servers=st.none() | st.frozensets(TEXTS, max_size=4),
    history=st.builds(History, searched=NAMES, revealed=NAMES, called=NAMES),
    episode=st.none() | TEXTS,
)
RANKINGS = st.builds(
    RankingRow,
    id=TEXTS,
    origin=ORIGINS,
    query=QUERIES,
    policy=TEXTS,
    adapter=st.none() | TEXTS,
    candidates=st.lists(st.tuples(TEXTS, NUMBERS), max_size=3).map(tuple),
    shown=NAMES,
    propensities=st.none() | st.lists(NUMBERS, max_size=3).map(tuple),
    order_propensity=st.none() | NUMBERS,
    used=st.lists(
        st.builds(Used, tool=TEXTS, ok=st.booleans(), credit=st.none() | NUMBERS, shown=st.booleans()), max_size=2
    ).map(tuple),
    advantage=NUMBERS,
    weight=NUMBERS,
)
POLICIES = st.builds(
    PolicyRow,
    id=TEXTS,
    origin=ORIGINS,
    rendering=st.integers(0, 9),
    tokenizer=TEXTS,
    segments=st.lists(
        st.builds(
            Segment,
            kind=st.sampled_from(SegmentKind),
            tokens=st.lists(st.integers(0, 2**20), max_size=4).map(tuple),
            weights=st.lists(NUMBERS, max_size=4).map(tuple),
            step_id=st.none() | TEXTS,
        ),
        max_size=3,
    ).map(tuple),
    advantages=st.dictionaries(TEXTS, NUMBERS, max_size=3),
    weight=NUMBERS,
)


@unhurried
@given(st.lists(RANKINGS | POLICIES, max_size=4))
def test_what_is_read_is_what_was_written(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    assert write_rows(path, rows) == len(rows)
    read = list(read_rows(path))
    assert read == rows
    assert [line_of(row) for row in read] == path.read_text("ascii").splitlines(keepends=True)
    for row in read:
        assert type(row.origin.servers) is frozenset
        assert row.origin.began_at.tzinfo is not None
        assert all(type(each) is tuple for each in ((row.candidates, row.shown) if hasattr(row, "shown") else ()))
    assert [*read_ranking_rows(path)] == [row for row in rows if isinstance(row, RankingRow)]
    assert [*read_policy_rows(path)] == [row for row in rows if isinstance(row, PolicyRow)]


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "rows.jsonl"
    write_rows(path, [ranking(1)])
    before = path.read_bytes()

    def broken() -> Any:
        yield ranking(2)
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        write_rows(path, broken())
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_rows(path, [ranking(3, advantage=float("nan"))])
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["rows.jsonl"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("nothing", "line 2: no row of training"),
        ("[]", "line 2: no row of training"),
        ('{"schema": "toolatlas.trajectory/1", "kind": "episode"}', f"line 2: not of {SCHEMA}"),
        (f'{{"schema": "{SCHEMA}", "kind": "other"}}', "line 2: no row of training"),
        (f'{{"schema": "{SCHEMA}", "kind": "ranking", "id": 3}}', "line 2: no row, its id does not fit"),
        (line_of(ranking(1))[:90], "line 2: no row of training"),
    ],
)
def test_what_is_no_row_is_named_with_its_line(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(line_of(ranking(1)) + line + "\n", "utf-8")
    with pytest.raises(ConfigurationError, match=problem):
        list(read_rows(path))


def test_a_file_that_is_not_there_or_no_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        list(read_rows(tmp_path / "none.jsonl"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        list(read_rows(tmp_path / "binary"))
