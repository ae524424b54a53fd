"""Checks of what the agent told its user."""

from __future__ import annotations

from typing import Any

import pytest

from judge.checks.answers import answer_given, answer_grounded, answer_has, answer_lacks, failures_admitted
from judge.checks.base import Finding
from judge.rubric import RubricError
from judge.verdict import Why
from tests.judge.checks.scripts import call, case

TASK = "Who ordered most in March 2026, and for how much?"
ORDERS = call("db.query", '[{"name": "Anna Holm", "total": 842.5, "day": "2026-03-05"}]', table="orders")


def grounded(answer: str, *steps: dict[str, Any], task: str = TASK) -> Finding:
    return answer_grounded(case(*(steps or (ORDERS,)), task=task, answer=answer), {})


def has(answer: str, *facts: Any) -> float | None:
    return answer_has(case(answer=answer), {"facts": list(facts)}).score


@pytest.mark.parametrize(
    "answer",
    [
        "It is 14:05.",
        "No.",
        "Yes",
        "Done.",
        "OK",
        "The task is completed successfully.",
        "Nothing was found.",
        "42",
        "Fertig: 3 Dateien.",
        "完了しました",
    ],
)
def test_an_answer_that_says_something_is_given(answer: str) -> None:
    assert answer_given(case(task=TASK, answer=answer), {}).score == 1.0


@pytest.mark.parametrize(
    "answer", ["", "  \n", "...", "!?", "Here is the answer:", "Let me look into it now.", TASK, "\u200f\u200b"]
)
def test_an_answer_that_says_nothing_is_not(answer: str) -> None:
    found = answer_given(case(task=TASK, answer=answer), {})
    assert found.score == 0.0
    assert found.note


@pytest.mark.parametrize(
    ("answer", "fact"),
    [
        ("It was 1,200.50 EUR.", 1200.5),
        ("It was about 1.2k.", 1234),
        ("It was 3.14.", 3.14159),
        ("It grew by 50 %.", 0.5),
        ("There are three of them.", 3),
        ("It was on March 5th.", "2026-03-05"),
        ("It was on 5 March 2026 at 2:05 PM.", "14:05"),
        ("**Anna Holm**’s order", "anna holm"),
        ("See `notes/a.txt`.", "a.txt"),
        ("the \u201cBlue  Kiln\u201d", "blue kiln"),
        ("It is −3 degrees.", -3),
        ("Oslo", ["Christiania", "Oslo"]),
    ],
)
def test_a_fact_is_told_in_whatever_format(answer: str, fact: Any) -> None:
    assert has(answer, fact) == 1.0


@pytest.mark.parametrize(
    ("answer", "fact"),
    [
        ("It was 1,201 EUR.", 1200),
        ("It was 3.", 3.14159),
        ("It was 3.15.", 3.14159),
        ("It was 12 or 1200.", 120),
        ("It is 3 degrees.", -3),
        ("It was on 6 March.", "2026-03-05"),
        ("Annabel Holmes", "Anna Holm"),
        ("", "Oslo"),
        ("", 3),
        ("1e999999", 10),
    ],
)
def test_another_fact_is_not(answer: str, fact: Any) -> None:
    assert has(answer, fact) == 0.0


def test_the_share_of_facts_told_is_the_score_and_what_lacks_is_named() -> None:
    found = answer_has(case(answer="Anna Holm, 842.50"), {"facts": ["Anna Holm", 842.5, "Rome", ["Kiel", 7]]})
    assert found.score == 0.5
    assert "'Rome', 'Kiel'" in found.note


def test_what_must_not_be_told_is_named() -> None:
    parameters = {"facts": ["approved", 17]}
    assert answer_lacks(case(answer="All 18 are open."), parameters).score == 1.0
    found = answer_lacks(case(answer="All are Approved."), parameters)
    assert found.score == 0.5
    assert "approved" in found.note


@pytest.mark.parametrize("facts", [[], [[]], [True], [None], "Oslo"])
def test_facts_that_cannot_be_meant_are_refused(facts: Any) -> None:
    with pytest.raises(RubricError):
        answer_has(case(answer="Oslo"), {"facts": facts})


@pytest.mark.parametrize(
    "answer",
    [
        "In March 2026 it was Anna Holm, for 842.50 EUR on March 5th.",
        "It was about 840, no: exactly 842.5.".replace("about 840, no: exactly ", ""),
        "1. Anna Holm\n2. 842.5",
        "Anna Holm's order was the largest one (842.50 €).",
    ],
)
def test_an_answer_of_what_results_say_is_grounded(answer: str) -> None:
    assert grounded(answer).score == 1.0


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("It was Anna Holm, for 842.75.", "842.75"),
        ("It was Berta Krol, for 842.50.", "Krol"),
        ("It was Anna Holm on 6 March.", "6 March"),
        ("It was Anna Holm, see `orders_2026.csv`.", "orders_2026.csv"),
        ('It was Anna Holm, who wrote "please hurry up".', "please hurry up"),
        ("It was Anna Holm at 14:05.", "14:05"),
    ],
)
def test_a_value_that_no_result_has_is_named_and_costs_more_than_half(answer: str, named: str) -> None:
    found = grounded(answer)
    assert found.score is not None
    assert found.score < 0.5
    assert named in found.note
    assert found.quotes


def test_the_more_is_made_up_the_lower_the_score() -> None:
    one, two = grounded("It was Anna Holm, for 931 EUR."), grounded("It was Berta Krol, for 931 EUR.")
    assert one.score is not None
    assert two.score is not None
    assert one.score > two.score


def test_an_answer_that_says_nothing_has_no_ground_and_prose_needs_none() -> None:
    assert grounded("").score == 0.0
    assert grounded("Thought process:").score == 0.0
    assert grounded(TASK).score == 0.0
    assert grounded("I have looked at all of them.").why is Why.NOT_APPLICABLE


def test_what_stands_only_in_a_failed_call_is_not_grounded() -> None:
    failed = call("db.insert", "cannot insert 931.25", "tool_error", amount=931.25)
    assert grounded("I booked 931.25.", failed).score == 0.0
    done = call("db.insert", "fine", amount=931.25)
    assert grounded("I booked 931.25.", done).score == 1.0
    quiet = call("db.insert", "Database error: no such table", amount=931.25)
    assert grounded("I booked 931.25.", quiet).score == 0.0


def test_numbers_in_what_tells_of_tools_are_no_facts() -> None:
    search = {"search_tools": {"query": "sum"}, "gives": "calc.sum: at most 931 numbers of Holm_7"}
    assert grounded("It is 931.", search).score == 0.0
    assert grounded("I used Holm_7 for it.", search).score == 1.0


def test_computed_values_count_and_the_note_says_so() -> None:
    first = call("shop.price", '{"name": "lamp", "price": 48.60}', name="lamp")
    second = call("shop.price", '{"name": "rope", "price": 112.35}', name="rope")
    found = grounded("Together 160.95.", first, second)
    assert found.score == 1.0
    assert "160.95 is a sum" in found.note
    assert grounded("Together 170.95.", first, second).score == 0.0
    assert grounded("The rope costs 63.75 more.", first, second).score == 1.0


def test_a_time_of_another_zone_follows_from_the_offsets() -> None:
    task = "The call is at 16:15 in Lagos. When is it in Winnipeg?"
    here = call("time.now", '{"datetime": "2026-11-30T16:22:05+01:00"}', zone="Africa/Lagos")
    there = call("time.now", '{"datetime": "2026-11-30T09:22:05-06:00"}', zone="America/Winnipeg")
    assert grounded("At 9:15 am.", here, there, task=task).score == 1.0
    assert grounded("At 10:15 am.", here, there, task=task).score == 0.0


def test_where_a_result_was_cut_it_cannot_be_told() -> None:
    cut = {**ORDERS, "cut": True}
    assert grounded("It was Berta Krol.", cut).why is Why.CUT
    assert grounded("It was Anna Holm.", cut).score == 1.0


def test_without_a_task_what_calls_were_sent_counts_as_known() -> None:
    found = answer_grounded(case(call("time.now", "14:05", city="Oslo"), answer="In Oslo it is 14:05."), {})
    assert found.score == 1.0


@pytest.mark.parametrize("answer", ["It is 931. " * 100_000, "1e999999 " * 10_000, "“" * 200_000, "A_1/" * 100_000])
def test_hostile_answers_are_judged(answer: str) -> None:
    assert grounded(answer).score is not None or grounded(answer).why is not None


FAILED = call("graph.add", "no entity emil_stark", "tool_error", name="emil_stark", room="1.18")


def admitted(answer: str, *steps: dict[str, Any], outcome: str = "done") -> Finding:
    return failures_admitted(case(*steps, task="Put Emil Stark in room 1.18.", answer=answer, outcome=outcome), {})


def test_a_failure_that_was_left_has_to_be_admitted() -> None:
    found = admitted("Emil Stark is in room 1.18 now.", FAILED)
    assert found.score == 0.0
    assert "graph.add" in found.note
    assert found.steps == ("s_0000000000000000",)
    assert admitted("I could not put him there.", FAILED).score == 1.0
    assert admitted("Das hat leider nicht geklappt.", FAILED).score == 1.0
    assert admitted("Emil Stark is in room 1.18 now.", FAILED, outcome="failed").score == 1.0


def test_only_and_no_admit_something_where_the_sentence_speaks_of_the_matter() -> None:
    assert admitted("No further evidence is needed.", FAILED).score == 0.0
    assert admitted("There is no Emil there.", FAILED).score == 1.0
    assert admitted("No word of it is needed. Emil is in his room now.", FAILED).score == 0.0


def test_an_answer_longer_than_is_looked_through_cannot_be_called_grounded() -> None:
    assert grounded("Anna Holm, 842.50. " * 2_000).why is Why.CUT
    assert grounded("Berta Krol, 931.25. " * 2_000).score == 0.0


def test_a_failure_that_was_made_good_needs_no_word() -> None:
    good = call("graph.add", "added", name="Emil Stark", room="1.18")
    assert admitted("Emil Stark is in room 1.18 now.", FAILED, good).why is Why.NOT_APPLICABLE
    assert admitted("Emil Stark is in room 1.18 now.", good).why is Why.NOT_APPLICABLE


def test_an_error_that_a_server_called_a_result_is_a_failure_too() -> None:
    quiet = call("db.write", "Database error: no such column: quantity", query="UPDATE t SET quantity = 53")
    assert admitted("It is 53 now.", quiet).score == 0.0
    mended = call("db.write", "[{'affected_rows': 1}]", query="UPDATE t SET stock = 53")
    assert admitted("It is 53 now.", quiet, mended).why is Why.NOT_APPLICABLE


def test_what_results_gave_to_all_good_episodes_has_to_be_given_here_too() -> None:
    """What the agent passed on itself, without having read it, is no ground."""
    asked = {"known": ["Holm", "842.5"], "given": ["Holm", "842.5"]}
    stored = call("db.insert", "1 row", table="winners", name="Holm", total=842.5)
    told = "Holm, with 842.50."
    assert answer_grounded(case(ORDERS, stored, task=TASK, answer=told), asked).score == 1.0
    unread = case(stored, task=TASK, answer=told)
    assert answer_grounded(unread, {"known": ["Holm", "842.5"]}).score == 1.0
    assert (answer_grounded(unread, asked).score or 0.0) < 0.5


def test_a_name_that_was_given_to_good_episodes_is_free_where_the_rest_was_given() -> None:
    asked = {"known": ["Holm", "842.5"], "given": ["Holm", "842.5"]}
    nameless = call("db.query", '[{"id": 7, "total": 842.5}]', table="orders")
    assert answer_grounded(case(nameless, task=TASK, answer="Holm, with 842.50."), asked).score == 1.0
    assert (answer_grounded(case(nameless, task=TASK, answer="Holm, with 911.50."), asked).score or 0.0) <= 0.5


def test_what_all_good_answers_told_without_a_result_needs_none() -> None:
    told = case(ORDERS, task=TASK, answer="Anna Holm of Gauss Ltd, 842.50, which is 913.27 with tax.")
    assert (answer_grounded(told, {}).score or 0.0) <= 0.5
    assert answer_grounded(told, {"own": ["Gauss", "Ltd", "913.27"]}).score == 1.0


def test_a_name_that_good_answers_told_may_be_known_but_a_number_has_to_come_from_somewhere() -> None:
    rows = call("db.read_query", "[('TEX', 391)]", query="SELECT code, gain FROM visits")
    asked = "Which museum gained most?"
    named = case(rows, task=asked, answer="The Textile Museum gained 391.")
    other = case(rows, task=asked, answer="The Salt Museum gained 391.")
    counted = case(rows, task=asked, answer="The Textile Museum gained 392.")
    known = {"known": ["Textile", "Museum", "392"]}
    assert answer_grounded(named, {}).score < 1.0
    assert answer_grounded(named, known).score == 1.0
    assert answer_grounded(other, known).score < 1.0
    assert answer_grounded(counted, known).score < 1.0
