"""Checks of where the values in arguments come from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from judge.case import Case
from judge.checks.base import Finding
from judge.checks.grounding import MAX_VALUES, argument_from_result, argument_from_task, argument_grounded
from judge.rubric import RubricError
from judge.scripted import scripted
from judge.verdict import Why
from tests.judge.checks.scripts import call, case

TASK = "Send 1,200.50 EUR to Anna Holm on 5 March 2026. Her account is in customers.csv."
LOOKED_UP = call("files.read", "name,account\nAnna Holm,NO9386011117947\n", path="customers.csv")


def grounded(*steps: dict[str, Any], task: str = TASK, **parameters: Any) -> Finding:
    return argument_grounded(case(*steps, task=task), parameters)


def sent(argument: Any, *before: dict[str, Any], task: str = TASK, tool: str = "bank.pay") -> Finding:
    """What is found of one call with one argument."""
    return grounded(*before, {tool: {"value": argument}, "gives": "fine"}, task=task)


def test_values_of_the_task_and_of_earlier_results_are_grounded_in_whatever_format() -> None:
    pay = call("bank.pay", account="NO9386011117947", amount=1200.5, day="2026-03-05", to="Anna Holm")
    found = grounded(LOOKED_UP, pay)
    assert found.score == 1.0
    assert "all 6 values" in found.note


def test_a_made_up_value_is_named_with_its_call_and_costs_more_than_half() -> None:
    pay = call("bank.pay", account="NO9386011117948", amount=1200.5)
    found = grounded(LOOKED_UP, pay)
    assert found.score == 0.25
    assert "NO9386011117948" in found.note
    assert "bank.pay" in found.note
    assert found.steps == ("s_0000000000000001",)


def test_a_result_counts_only_for_calls_after_it() -> None:
    pay = call("bank.pay", account="NO9386011117947")
    assert grounded(pay, LOOKED_UP).score == 0.0
    assert grounded(LOOKED_UP, pay).score == 1.0


def test_the_worst_call_counts() -> None:
    half = call("bank.pay", account="NO9386011117948", amount=1200.5)
    found = grounded(LOOKED_UP, half, call("bank.pay", account="NO0000000000000"))
    assert found.score == 0.0
    assert len(found.steps) == 2
    assert grounded(LOOKED_UP, call("bank.pay", account="NO0000000000000"), half).score == 0.0


def test_a_failed_guess_does_no_harm_and_its_error_is_no_evidence() -> None:
    guess = call("bank.pay", "no account NO777", "tool_error", account="NO777")
    good = call("bank.pay", account="NO9386011117947")
    assert grounded(LOOKED_UP, guess, good).score == 1.0
    again = grounded(LOOKED_UP, guess, call("bank.pay", account="NO777"))
    assert again.score == 0.0
    said = call("bank.pay", "Error: no account NO777", account="NO777")
    assert grounded(LOOKED_UP, said, call("bank.pay", account="NO777")).score == 0.0


def test_an_error_that_names_the_right_value_is_evidence_for_it() -> None:
    guess = call("bank.pay", "no account NO777, did you mean NO778?", "tool_error", account="NO777")
    assert grounded(guess, call("bank.pay", account="NO778")).score == 1.0


@pytest.mark.parametrize(
    ("argument", "score"),
    [
        (0, 1.0),
        (1, 1.0),
        (True, None),
        ("", None),
        ("person", None),
        ("utf-8", None),
        (7, 0.0),
        ("Berlin", 0.0),
        ("IN-3305", 0.0),
        ("HEAD~2", 0.0),
        ("2026-03-07", 0.0),
        ("17:45", 0.0),
        ("x@example.org", 0.0),
        ("anna_holm", 1.0),
        ("Please pay Anna Holm on 5 March.", 1.0),
        ("Please pay Anna Holm (REF-4411).", 0.0),
        ("2026-01-05", 1.0),
        ("2026-03-01", 1.0),
    ],
)
def test_what_needs_a_ground_and_what_does_not(argument: Any, score: float | None) -> None:
    found = sent(argument)
    if score is None:
        assert found.why is Why.NOT_APPLICABLE
    elif score:
        assert found.score == 1.0 or found.why is Why.NOT_APPLICABLE
    else:
        assert found.score is not None
        assert found.score < 0.5


def test_usual_numbers_are_given_where_they_are_limits() -> None:
    assert grounded(call("git.log", max_count=20)).why is Why.NOT_APPLICABLE
    assert grounded(call("shop.order", quantity=20)).score == 0.0
    assert grounded(call("git.log", max_count=23)).score == 0.0


def test_of_a_statement_only_numbers_dates_and_quoted_words_count() -> None:
    task = "How many orders did Marta Oyelaran place in September 2026?"
    good = "SELECT COUNT(*) AS n FROM Orders o WHERE o.name = 'Marta Oyelaran' AND day LIKE '2026-09-%' LIMIT 10"
    assert sent(good, task=task).score == 1.0
    assert sent(good.replace("Marta", "Berta"), task=task).score != 1.0
    assert sent(good.replace("2026-09", "2026-08"), task=task).score != 1.0
    assert sent("SELECT ROUND(SUM(total), 2) FROM t WHERE id = 318", task=task).score != 1.0


def test_what_the_definition_of_the_tool_says_may_be_used() -> None:
    definition = {"inputSchema": {"properties": {"unit": {"enum": ["Fahrenheit", "Celsius"], "default": "Kelvin-7"}}}}
    step = call("weather.now", unit="Celsius", scale="Kelvin-7")
    assert argument_grounded(case(step, task="How warm is it?", tools={"weather.now": definition}), {}).score == 1.0
    assert argument_grounded(case(step, task="How warm is it?"), {}).score == 0.0


def test_a_search_is_seen_too() -> None:
    search = {"search_tools": {"query": "pay"}, "gives": "bank.pay(region: Literal['EMEA-2'])"}
    assert grounded(search, call("bank.pay", region="EMEA-2")).score == 1.0


def test_sums_counts_and_differences_of_what_was_seen_are_accepted_and_said() -> None:
    rows = call("db.query", "[{'sku': 'IN-2041', 'stock': 17}, {'sku': 'IN-2096', 'stock': 43}]")
    for number, how in ((60, "a sum"), (30, "mean"), (26, "range"), (41, "two values"), (2, "a count")):
        found = grounded(rows, call("db.set", stock=number), task="24 lamps have come.")
        assert found.score == 1.0, number
        assert how in found.note
    assert grounded(rows, call("db.set", stock=143), task="24 lamps have come.").score == 0.0


def test_with_many_numbers_two_of_them_prove_nothing() -> None:
    few = call("db.query", "10 and 17")
    many = call("db.query", "10 13 17 22 28 35 43 52 62 73")
    assert grounded(few, call("db.set", stock=27), task="Count.").score == 1.0
    assert grounded(many, call("db.set", stock=27), task="Count.").score == 0.0


def test_a_result_that_was_cut_makes_it_missing_but_only_for_what_is_not_found() -> None:
    cut = {**LOOKED_UP, "cut": True}
    assert grounded(cut, call("bank.pay", account="NO777")).why is Why.CUT
    assert grounded(cut, call("bank.pay", account="NO9386011117947")).score == 1.0
    assert grounded(call("bank.pay", account="NO777"), cut).score == 0.0


def test_results_that_came_to_code_count_for_code_alone() -> None:
    by_code = {**LOOKED_UP, "by_code": True}
    pay = call("bank.pay", account="NO9386011117947")
    assert grounded(by_code, {**pay, "by_code": True}).score == 1.0
    assert grounded(by_code, pay).score == 0.0


def test_what_code_made_of_what_it_had_is_accepted_but_not_what_the_agent_wrote_into_it() -> None:
    def run(code: str) -> Finding:
        script = {"run_python": {"code": code}, "gives": "done"}
        return grounded({**call("bank.pay", amount=931.25), "by_code": True}, script)

    assert run("pay(sum(rows) * 3)").score == 1.0
    assert run("pay(931.25)").score == 0.0


def test_what_code_printed_is_no_evidence_for_what_was_written_into_it() -> None:
    printed = {"run_python": {"code": "print('IN-3305')"}, "gives": "IN-3305"}
    assert grounded(printed, call("db.set", sku="IN-3305")).score == 0.0
    found = {"run_python": {"code": "print(rows[0])"}, "gives": "IN-3305"}
    assert grounded(found, call("db.set", sku="IN-3305")).score == 1.0


def test_it_can_be_narrowed_to_a_tool_and_to_a_parameter() -> None:
    steps = (call("bank.pay", account="NO777", amount=1200.5), call("bank.log", note="NO778"))
    assert grounded(*steps, tools=["bank.pay"], parameter="amount").score == 1.0
    assert grounded(*steps, tools=["bank.log"]).score == 0.0
    assert grounded(*steps, tools=["bank.close"]).why is Why.NOT_APPLICABLE
    with pytest.raises(RubricError):
        grounded(*steps, tools=[])


def test_hostile_arguments_are_judged_in_bounded_work() -> None:
    deep: Any = "x9"
    for _ in range(200):
        deep = [deep]
    many = [f"id_{place}" for place in range(5_000)]
    text = "\u202e1e999999 " * 50_000
    steps = [call("a.b", json.dumps(many), deep=deep, huge=10**300, many=many, text=text) for _ in range(5)]
    found = grounded(*steps)
    assert found.score is not None
    assert MAX_VALUES == 1_000


def test_an_argument_comes_from_the_task_or_not() -> None:
    parameters = {"tools": ["time.now"], "parameter": "timezone"}
    task = "What time is it in New York, and in Oslo?"
    here = call("time.now", timezone="America/New_York")
    there = call("time.now", timezone="Asia/Tokyo")
    assert argument_from_task(case(here, task=task), parameters).score == 1.0
    found = argument_from_task(case(here, there, task=task), parameters)
    assert found.score == 0.5
    assert "Asia/Tokyo" in found.note
    assert found.steps == ("s_0000000000000001",)


def test_without_such_a_call_it_is_not_so_unless_it_may_be_left_out() -> None:
    parameters = {"tools": ["time.now"], "parameter": "timezone"}
    failed = call("time.now", "no", "tool_error", timezone="Europe/Oslo")
    asked = case(failed, task="What time is it in Oslo?")
    assert argument_from_task(asked, parameters).score == 0.0
    assert argument_from_task(asked, {**parameters, "required": False}).why is Why.NOT_APPLICABLE


def test_an_argument_comes_from_the_result_of_the_right_call() -> None:
    parameters = {"tools": ["db.orders"], "parameter": "filter.id", "of": ["db.customers"]}
    customers = call("db.customers", '[{"id": 327, "name": "Marta"}]')
    others = call("db.suppliers", '[{"id": 318, "name": "Berta"}]')

    def asked(number: int, *before: dict[str, Any]) -> Finding:
        return argument_from_result(case(*before, call("db.orders", filter={"id": number})), parameters)

    assert asked(327, customers, others).score == 1.0
    found = asked(318, customers, others)
    assert found.score == 0.0
    assert "318" in found.note
    assert asked(318, {**customers, "cut": True}).why is Why.CUT
    assert argument_from_result(case(call("db.orders", filter={"id": 327}), customers), parameters).score == 0.0


def test_a_case_is_indexed_once_and_forgotten_with_it() -> None:
    import gc
    import weakref

    from judge.checks.evidence import evidence_of

    one = Case(scripted({"task": TASK, "steps": [LOOKED_UP]}))
    assert evidence_of(one) is evidence_of(one)
    known = weakref.ref(one)
    del one
    gc.collect()
    assert known() is None


@pytest.mark.parametrize(
    "whole", ["bc3c2a5c6ecd0ed6:rules.ini", "bc3c2a5c:rules.ini", "club/rules.ini", "club.rules", "club@rules.ini"]
)
def test_what_is_put_together_of_seen_parts_is_grounded_and_of_others_is_not(whole: str) -> None:
    seen = call("git.log", "commit bc3c2a5c6ecd0ed6 in club", path="."), call("git.files", "rules.ini", at="club")
    assert sent(whole, *seen).score == 1.0
    assert sent(whole.replace("rules", "dues"), *seen).score == 0.0
    assert sent(f"SELECT fee FROM t WHERE a = '{whole}'", *seen).score == 1.0


def test_an_argument_longer_than_is_looked_through_cannot_be_called_grounded() -> None:
    assert sent("Anna Holm, 1,200.50. " * 2_000).why is Why.CUT


def test_what_good_episodes_passed_on_is_known_and_what_stands_beside_it_is_not() -> None:
    made = call("db.write_query", query="INSERT INTO gaps VALUES ('7Q', -5, 'Mr. Adeyemi')")
    assert grounded(made, task="Note it.", known=["7Q", "-5", "Mr. Adeyemi"]).score == 1.0
    found = grounded(made, task="Note it.", known=["7Q", "-5"])
    assert found.score is not None
    assert found.score < 0.5
    assert "Adeyemi" in found.note
    assert "7Q" not in found.note


def test_a_whole_path_that_ends_in_one_of_the_task_is_grounded_and_one_in_another_folder_is_not() -> None:
    assert sent("/srv/home/it/counted.csv", task="Compare it/counted.csv.").score == 1.0
    assert sent("/srv/home/at/counted.csv", task="Compare it/counted.csv.").score == 0.0


def test_a_guess_that_was_answered_with_an_expected_fact_needs_no_ground_unless_it_changes_something() -> None:
    guess = call("git.show", "fee = 165", revision="HEAD:rules.ini")
    assert grounded(guess, task="What is the fee?").score == 0.0
    assert grounded(guess, task="What is the fee?", facts=["165"]).score is None
    assert grounded(guess, task="What is the fee?", facts=["166"]).score == 0.0
    echo = call("git.show", "no 165 in rules.ini", revision="165:rules.ini")
    assert grounded(echo, task="What is the fee?", facts=["165"]).score == 0.0
    write = call("files.write", "165 written", path="rules.ini")
    assert grounded(write, task="What is the fee?", facts=["165"]).score == 0.0
    unlike = call("git.show", "165", "tool_error", revision="HEAD:other.ini")
    assert grounded(unlike, guess, task="What is the fee?", facts=["165"]).score is None
