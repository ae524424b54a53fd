"""What several checks ask of a call."""

from __future__ import annotations

from typing import Any

import pytest

from judge.checks.choosing import called, order, right_first
from judge.checks.tools import reads, succeeded
from tests.judge.checks.scripts import call, case


def works(text: str, tool: str = "db.run_query", outcome: str = "ok") -> bool:
    lived = case(call(tool, text, outcome))
    return succeeded(lived, lived.acts[0])


@pytest.mark.parametrize(
    "text",
    [
        "Error: no such table: lamps",
        "Database error: locked",
        "ValueError: not a number",
        "Error executing query",
        "Traceback (most recent call last)",
        "Failed to connect",
        "[ERROR] disk full",
        "Internal server error.",
        '{"error": "no such row"}',
        "Fehler: gesperrt",
    ],
)
def test_nothing_but_an_error_is_no_success_whatever_the_server_calls_it(text: str) -> None:
    assert not works(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No error was found.",
        "No error.",
        "no errors",
        "Error rates of May: 0.1",
        "Errors: none",
        "[{'error': 0.1}]",
        "2 tests failed",
        "12 lamps",
        "Error: " + "x" * 1_000,
    ],
)
def test_a_result_that_speaks_of_errors_is_a_success(text: str) -> None:
    assert works(text)


def test_what_others_wrote_is_no_complaint_of_the_tool_that_gives_it() -> None:
    assert works("Error: disk full", "files.read_file")
    assert not works("fine", outcome="tool_error")


def test_an_error_that_a_server_calls_a_result_counts_for_no_check_of_what_was_called() -> None:
    quiet, good = call("db.run_query", "Error: locked"), call("mail.send", "sent")
    lived = case(quiet, good)
    assert called(lived, {"each_of": [["db"]]}).score == 0.0
    assert called(lived, {"each_of": [["db"]], "failed": True}).score == 1.0
    assert order(lived, {"pairs": [[["db"], ["mail"]]]}).score == 0.0
    assert right_first(case(quiet, good, call("db.run_query", "3 rows")), {"any_of": ["db"]}).score == pytest.approx(
        2 / 3
    )


@pytest.mark.parametrize("text", ["a" * 600, "a " * 300, "no " * 200, "-" * 600, "_error" * 90])
def test_hostile_texts_are_told_quickly(text: str) -> None:
    assert works(text)


@pytest.mark.parametrize(
    ("arguments", "looks"),
    [
        ({"sql": "SELECT sum(amount) FROM read_csv('week31.csv')"}, True),
        ({"query": "with x as (select 1) select * from x"}, True),
        ({"statement": "EXPLAIN SELECT 'delete' FROM t"}, True),
        ({"sql": "SELECT replace(name, 'a', 'b') FROM t"}, True),
        ({"sql": "SELECT 1; DROP TABLE t"}, False),
        ({"sql": "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x"}, False),
        ({"sql": "SELECT * INTO other FROM t"}, False),
        ({"sql": "UPDATE t SET n = 1"}, False),
        ({"sql": "SELECT 1 " + " " * 30_000}, False),
        ({"text": "Select one of these"}, False),
        ({"sql": 3}, False),
    ],
)
def test_of_a_tool_that_takes_statements_the_statement_says_whether_it_only_looks(
    arguments: dict[str, Any], looks: bool
):
    lived = case({"duck.execute_query": arguments, "gives": "fine"})
    assert (reads(lived, lived.acts[0]) is True) == looks
