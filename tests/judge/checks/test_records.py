"""Arguments fall into records of what belongs together."""

from __future__ import annotations

from typing import Any

import pytest

from judge.case import Case
from judge.checks.records import MAX_RECORDS, atoms_of, fact, passed, whole_record
from judge.scripted import scripted


def records(*arguments: Any, outcome: str = "ok") -> list[list[Any]]:
    steps = [{"box.put": each, "gives": "fine", "outcome": outcome} for each in arguments]
    case = Case(scripted({"task": "Put it.", "answer": "Done.", "steps": steps}))
    return [list(record.values) for _, record in passed(case).all]


def test_plain_arguments_are_one_record_and_lists_of_numbers_belong_to_theirs():
    assert records({"path": "a", "size": 3, "rows": [4, 5], "force": True, "note": None}) == [["a", 3, 4, 5]]


def test_each_text_of_a_list_could_have_been_passed_by_a_call_of_its_own():
    assert records({"repo": "a", "files": ["x", "y"]}) == [["a", "x"], ["a", "y"]]


def test_each_row_that_a_statement_inserts_is_a_record_and_keeps_its_table():
    given = records({"query": "INSERT INTO gaps (code, difference) VALUES ('A(1', -3), ('B', 11)", "db": "x"})
    head = "INSERT INTO gaps (code, difference) VALUES "
    assert given == [[f"{head}('A(1', -3)", "x"], [f"{head}('B', 11)", "x"]]
    one = "INSERT INTO gaps VALUES ('A', -3)"
    assert records({"query": one}) == [[one]]


@pytest.mark.parametrize("text", ["('" * 50_000, "(" * 100_000, "(1," * 30_000, "('" + "a" * 100_000])
def test_statements_of_strangers_are_taken_apart_in_bounded_work(text: str):
    assert len(records({"query": f"INSERT INTO a VALUES {text}"})) <= MAX_RECORDS


def test_each_nested_object_is_a_record_with_what_stands_around_it():
    given = {"folder": "a", "edits": [{"old": 1, "new": 2}, {"old": 3, "new": 4}]}
    assert records(given) == [["a"], ["a", 1, 2], ["a", 3, 4]]


def test_calls_that_failed_passed_nothing_on():
    assert records({"path": "a"}, outcome="tool_error") == []
    assert records({"path": "a"}, {"path": "b"}) == [["a"], ["b"]]


def test_a_record_has_values_in_whatever_format_and_within_longer_texts():
    record = whole_record({"text": "Total of 1,200.50 EUR on 5 March 2026 for Ada Lovelace", "where": "/srv/a/b.csv"})
    for given in ("1200.5", 1200.5, "2026-03-05", "Ada Lovelace", "b.csv", "a/b.csv"):
        assert record.has(fact(given)), given
    for given in ("120", "2026-03-06", "Lovelac", "c.csv"):
        assert not record.has(fact(given)), given


def test_a_short_text_of_names_is_one_value_and_words_of_a_query_language_are_none():
    written = [
        each.written for each in atoms_of(whole_record(["Nadia Brook", "SELECT a FROM t WHERE n = 'Bo' AND d = 7"]))
    ]
    assert written == ["Nadia Brook", "Bo", "7"]
    assert [each.written for each in atoms_of(whole_record(["12", 12, "12.0", "", "  "]))] == ["12"]


@pytest.mark.parametrize(
    "given",
    [
        {"rows": [{"n": place} for place in range(5_000)]},
        {"numbers": list(range(100_000))},
        {"big": 10**40, "odd": float("nan"), "far": 1e308},
        {"text": "9" * 300_000},
    ],
)
def test_hostile_arguments_are_read_up_to_a_bound(given: Any):
    found = records(given)
    assert 1 <= len(found) <= MAX_RECORDS
    assert max(map(len, found)) <= 200


def test_deep_nesting_is_read_no_deeper_than_needed():
    given: Any = {"last": "bottom"}
    for _ in range(400):
        given = {"in": given, "at": "level"}
    found = records(given)
    assert len(found) > 10
    assert not any("bottom" in record for record in found)
