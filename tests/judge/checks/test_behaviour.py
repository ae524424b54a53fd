"""Checks of how the agent went about it."""

from __future__ import annotations

from typing import Any

import pytest

from judge.checks.behaviour import (
    failed_calls_repaired,
    gave_up,
    no_needless_search,
    no_repeats,
    worked,
)
from judge.verdict import Why
from proxy.store.recorder import Level
from tests.judge.checks.scripts import call, case

READ = call("files.read_file", "12 lamps", path="stock.txt")
TASK = "What do lamps.csv and 'Oak shelves' say for May, and what time is it in Oslo and in Lima?"


def failed(name: str, outcome: str = "tool_error", /, **arguments: Any) -> dict[str, Any]:
    return call(name, "that did not work", outcome, **arguments)


def test_something_worked_where_one_call_succeeded() -> None:
    assert worked(case(failed("files.read_file"), READ), {}).score == 1.0
    assert worked(case({**READ, "by_code": True}), {}).score == 1.0
    assert worked(case(failed("files.read_file")), {}).score == 0.0
    assert worked(case(call("db.read_query", "Error: no such table")), {}).score == 0.0
    assert worked(case({"search_tools": {"query": "files"}}), {}).score == 0.0
    assert worked(case(READ, level=Level.METADATA), {}).score == 1.0


@pytest.mark.parametrize(("outcome", "score"), [("failed", 1.0), ("abandoned", 1.0), ("done", 0.0)])
def test_giving_up_is_what_the_agent_says(outcome: str, score: float) -> None:
    assert gave_up(case(READ, outcome=outcome), {}).score == score


def test_who_says_nothing_of_the_end_has_not_given_up() -> None:
    assert gave_up(case(READ, outcome=None), {}).why is Why.NOT_APPLICABLE


@pytest.mark.parametrize(("times", "score"), [(1, 1.0), (2, 2 / 3), (3, 1 / 3), (4, 0.0), (9, 0.0)])
def test_each_repetition_costs_a_third(times: int, score: float) -> None:
    found = no_repeats(case(*[READ] * times), {})
    assert found.score == pytest.approx(score)
    assert len(found.steps) == times - 1


def test_repetitions_by_code_and_in_another_order_of_arguments_count() -> None:
    one, other = call("shop.find", name="lamp", color="red"), call("shop.find", color="red", name="lamp")
    assert no_repeats(case(one, {**other, "by_code": True}), {}).score == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "between",
    [
        call("files.write_file", path="stock.txt", content="13 lamps"),
        call("shop.thing", name="does who knows what"),
        failed("files.write_file", path="stock.txt"),
        failed("files.read_file", "timeout", path="stock.txt"),
    ],
)
def test_reading_again_after_what_may_have_changed_it_is_no_repetition(between: dict[str, Any]) -> None:
    assert no_repeats(case(READ, between, READ), {}).score == 1.0


def test_reading_something_else_in_between_excuses_nothing() -> None:
    assert no_repeats(case(READ, call("files.list_files"), READ), {}).score == pytest.approx(2 / 3)


def test_what_changes_something_twice_is_a_repetition_too() -> None:
    write = call("files.write_file", path="a", content="b")
    assert no_repeats(case(write, write), {}).score == pytest.approx(2 / 3)
    assert no_repeats(case(write, call("files.write_file", path="a", content="c"), write), {}).score == 1.0


def test_an_answer_that_was_another_is_no_repetition_but_a_clock_read_twice_is() -> None:
    assert no_repeats(case(READ, call("files.read_file", "no lamps", path="stock.txt")), {}).score == 1.0
    clock = call("time.get_time", "14:05:01"), call("time.get_time", "14:05:02")
    assert no_repeats(case(*clock), {}).score == pytest.approx(2 / 3)


def test_a_job_may_be_asked_after_again() -> None:
    first, second = call("build.job_status", "40 percent", id=7), call("build.job_status", "80 percent", id=7)
    assert no_repeats(case(first, second), {}).score == 1.0
    assert no_repeats(case(first, first), {}).score == pytest.approx(2 / 3)


def test_failed_calls_are_no_repetitions() -> None:
    down = failed("files.read_file", "server_down", path="stock.txt")
    assert no_repeats(case(down, down, READ), {}).score == 1.0
    assert no_repeats(case(down, down), {}).why is Why.NOT_APPLICABLE


def test_an_error_that_a_server_does_not_mark_is_no_repetition_either() -> None:
    hidden = call("db.read_query", "Database error: locked", sql="SELECT 1")
    assert no_repeats(case(hidden, hidden, READ), {}).score == 1.0
    assert no_repeats(case(hidden, hidden), {}).why is Why.NOT_APPLICABLE


def test_true_is_not_one() -> None:
    assert no_repeats(case(call("shop.find", a=True), call("shop.find", a=1)), {}).score == 1.0


def test_arguments_nested_deep_or_long_are_compared() -> None:
    deep: Any = "end"
    for _ in range(900):
        deep = [deep]
    lived = case(call("shop.find", a=deep), call("shop.find", a=deep), call("shop.find", a=["x"] * 20_000))
    assert no_repeats(lived, {}).score == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "steps",
    [
        [failed("time.now", city="Osloo"), call("time.now", city="Oslo")],
        [failed("time.now", city="Oslo"), call("time.now", city="Europe/Oslo")],
        [failed("time.now", "timeout", city="Oslo"), call("time.now", city="Oslo")],
        [failed("time.now"), call("time.now", city="Oslo")],
        [failed("files.read_file", path="/home/lamps.csv"), call("archive.read_text", path="old/lamps.csv")],
        [call("time.now", city="Oslo"), failed("time.now", "server_down", city="Oslo")],
        [failed("db.read_query", sql="SELECT ammount FROM may"), call("db.read_query", sql="SELECT amount FROM may")],
        [failed("time.now", city="Oslo"), {**call("time.now", city="Oslo"), "by_code": True}],
    ],
)
def test_a_failure_is_made_good_by_a_later_call_for_the_same_end(steps: list[dict[str, Any]]) -> None:
    assert failed_calls_repaired(case(*steps, task=TASK), {}).score == 1.0


@pytest.mark.parametrize(
    "steps",
    [
        [failed("time.now", city="Oslo")],
        [failed("time.now", city="Oslo"), call("time.now", city="Lima")],
        [call("time.now", city="Lima"), failed("time.now", city="Oslo")],
        [failed("time.now", city="Osloo"), call("time.now", city="Lima")],
        [failed("files.read_file", path="files/lamps.csv"), call("files.list_files", path="files")],
        [failed("files.write_file", path="sum.txt", content="12"), call("files.read_file", path="sum.txt")],
        [failed("time.now", city="Oslo"), failed("time.now", city="Oslo")],
    ],
)
def test_a_failure_is_left_where_nothing_later_was_about_the_same(steps: list[dict[str, Any]]) -> None:
    found = failed_calls_repaired(case(*steps, task=TASK), {})
    assert found.score == 0.0
    assert found.steps


def test_reading_that_failed_and_was_reached_otherwise_gets_half() -> None:
    steps = [failed("files.read_file", path="notes.md"), call("time.now", city="Oslo")]
    assert failed_calls_repaired(case(*steps, task=TASK), {}).score == 0.5
    other = [failed("files.get_info", path="lamps.csv"), call("files.sum_up", table="lamps.csv", column="May")]
    assert failed_calls_repaired(case(*other, task=TASK), {}).score in (0.5, 1.0)


def test_the_worst_failure_decides() -> None:
    steps = [failed("time.now", city="Lima"), call("time.now", city="Lima"), failed("mail.send", to="ann")]
    assert failed_calls_repaired(case(*steps, task=TASK), {}).score == 0.0


def test_an_error_that_a_server_does_not_mark_is_a_failure_too() -> None:
    hidden = call("db.read_query", "Database error: no such column: amount", sql="SELECT amount FROM things")
    assert failed_calls_repaired(case(hidden, READ, task=TASK), {}).score == 0.5
    assert failed_calls_repaired(case(hidden, task=TASK), {}).score == 0.0
    written = call("db.write_query", "Database error: no such column: amount", sql="UPDATE lamps SET amount = 2")
    assert failed_calls_repaired(case(written, task=TASK), {}).score == 0.0
    log = call("files.read_file", "Error: disk full", path="lamps.csv")
    assert failed_calls_repaired(case(log, task=TASK), {}).why is Why.NOT_APPLICABLE
    long = call("db.read_query", "Error rates of May: " + "0.1, " * 500)
    assert failed_calls_repaired(case(long, task=TASK), {}).why is Why.NOT_APPLICABLE


def test_who_says_that_the_task_failed_hides_nothing() -> None:
    assert failed_calls_repaired(case(failed("mail.send"), outcome="failed"), {}).score == 1.0


def test_without_failures_or_with_cancelled_calls_only_it_does_not_apply() -> None:
    assert failed_calls_repaired(case(READ), {}).why is Why.NOT_APPLICABLE
    assert failed_calls_repaired(case(READ, failed("files.read_file", "cancelled")), {}).why is Why.NOT_APPLICABLE
    looked = {"search_tools": {"query": ""}, "outcome": "invalid_arguments"}
    assert failed_calls_repaired(case(READ, looked), {}).why is Why.NOT_APPLICABLE


def test_a_call_that_came_to_no_tool_is_made_good_by_going_on() -> None:
    astray = {"call_tool": {"tool": "flies.read"}, "outcome": "invalid_arguments"}
    assert failed_calls_repaired(case(astray, READ), {}).score == 1.0
    found = failed_calls_repaired(case(READ, astray), {})
    assert (found.score, found.steps) == (0.0, ("s_0000000000000001",))


def test_without_a_task_any_success_of_the_same_tool_counts() -> None:
    steps = [failed("time.now", city="Oslo"), call("time.now", city="Lima")]
    assert failed_calls_repaired(case(*steps), {}).score == 1.0


def test_very_many_failures_and_words_take_bounded_work() -> None:
    words = " ".join(f"word{place}" for place in range(4_000))
    steps = [failed("time.now", city=f"{place} {words}") for place in range(150)]
    task = " ".join(f"Name{place}" for place in range(4_000))
    assert failed_calls_repaired(case(*steps, call("time.now", city=words), task=task), {}).score is not None


def test_looking_again_for_the_same_is_needless() -> None:
    one, other = {"search_tools": {"query": "time"}}, {"search_tools": {"query": "mail"}}
    assert no_needless_search(case(one, other, READ), {}).score == 1.0
    found = no_needless_search(case(one, other, one), {})
    assert (found.score, found.steps) == (pytest.approx(2 / 3), ("s_0000000000000002",))
    assert no_needless_search(case(READ), {}).why is Why.NOT_APPLICABLE


def test_very_many_searches_are_needless_even_where_nobody_kept_what_they_asked() -> None:
    looks = [{"search_tools": {"query": str(place)}} for place in range(6)]
    assert no_needless_search(case(*looks), {"most": 4}).score == pytest.approx(1 / 3)
    assert no_needless_search(case(*looks, level=Level.METADATA), {"most": 4}).score == pytest.approx(1 / 3)
    assert no_needless_search(case(*looks, level=Level.METADATA), {}).score == 1.0


@pytest.mark.parametrize(("times", "score"), [(1, 1.0), (2, 1.0), (3, 2 / 3), (4, 1 / 3), (9, 0.0)])
def test_what_failed_may_be_tried_twice_in_a_row_and_not_more_often(times: int, score: float) -> None:
    gone = failed("files.read_file", path="lost.txt")
    assert no_repeats(case(*[gone] * times, READ), {}).score == pytest.approx(score)
    others = [failed("files.read_file", path=f"lost{place}.txt") for place in range(times)]
    assert no_repeats(case(*others, READ), {}).score == 1.0
    mended = [gone, READ] * times
    assert no_repeats(case(*mended), {}).score == 1.0
