"""Checks of the values that calls were made with."""

from __future__ import annotations

from typing import Any

import pytest

from judge.checks.calling import argument_equals, argument_matches, arguments_of_each, valid_at_first_try
from judge.rubric import RubricError
from judge.verdict import Why
from proxy.store.recorder import Level
from tests.judge.checks.scripts import call, case

SENT = call("bank.pay", to={"iban": "NO93"}, sums=[12.5, 3], note="for March", day="2026-03-05")
PAID = {"tools": ["bank.pay"]}


@pytest.mark.parametrize(
    ("parameter", "values", "score"),
    [
        ("to.iban", ["NO93"], 1.0),
        ("to.iban", ["DE12", "no93"], 1.0),
        ("to.iban", ["DE12"], 0.0),
        ("sums.0", ["12.50"], 1.0),
        ("sums.1", [3], 1.0),
        ("sums.2", [3], 0.0),
        ("sums.x", [3], 0.0),
        ("day", ["5 March 2026"], 1.0),
        ("sums", [[12.5, 3]], 1.0),
        ("sums", [[3, 12.5]], 0.0),
        ("to", [{"iban": "NO93"}], 1.0),
        ("nothing", [None], 0.0),
    ],
)
def test_an_argument_is_found_by_its_way_and_compared_by_value(parameter: str, values: list[Any], score: float) -> None:
    assert argument_equals(case(SENT), {**PAID, "parameter": parameter, "values": values}).score == score


def test_a_name_with_a_dot_in_it_is_found() -> None:
    sent = call("bank.pay", **{"to.iban": "NO93", "a.b": {"c": 1}})
    assert argument_equals(case(sent), {**PAID, "parameter": "to.iban", "values": ["NO93"]}).score == 1.0
    assert argument_equals(case(sent), {**PAID, "parameter": "a.b.c", "values": [1]}).score == 1.0


def test_one_right_call_will_do_unless_every_one_has_to_be_right() -> None:
    two = case(call("bank.pay", sum=1), call("bank.pay", sum=2))
    asked = {**PAID, "parameter": "sum", "values": [2]}
    assert argument_equals(two, asked).score == 1.0
    found = argument_equals(two, {**asked, "every": True})
    assert (found.score, found.steps) == (0.5, ("s_0000000000000000",))
    assert "sum was 1, not 2" in found.note


def test_a_call_that_succeeded_counts_before_one_that_failed() -> None:
    failed = call("bank.pay", "no money", "tool_error", sum=2)
    asked = {**PAID, "parameter": "sum", "values": [2]}
    assert argument_equals(case(failed, call("bank.pay", sum=1)), asked).score == 0.0
    assert argument_equals(case(failed), asked).score == 1.0


def test_without_a_call_it_does_not_apply_unless_it_is_required() -> None:
    asked = {**PAID, "parameter": "sum", "values": [2]}
    assert argument_equals(case(), asked).why is Why.NOT_APPLICABLE
    assert argument_equals(case(), {**asked, "required": True}).score == 0.0
    assert arguments_of_each(case(), asked).why is Why.NOT_APPLICABLE
    assert arguments_of_each(case(), {**asked, "required": True}).score == 0.0


def test_an_argument_that_was_not_kept_whole_is_missing_not_wrong() -> None:
    asked = {"tools": ["files"], "parameter": "text", "values": ["all of it"]}
    cut = case(call("files.write", text="all [toolatlas/cut: 90000 characters] it"))
    assert argument_equals(cut, asked).why is Why.CUT
    assert arguments_of_each(cut, asked).why is Why.CUT
    members = case(call("files.write", text={"toolatlas/cut": {"members": 3, "bytes": 9}}))
    assert argument_equals(members, asked).why is Why.CUT


@pytest.mark.parametrize(
    ("parameter", "pattern", "score"),
    [("note", "March", 1.0), ("note", "^March", 0.0), ("note", "(?i)MARCH$", 1.0), ("to", '"iban"', 1.0)],
)
def test_a_pattern_is_looked_for(parameter: str, pattern: str, score: float) -> None:
    assert argument_matches(case(SENT), {**PAID, "parameter": parameter, "pattern": pattern}).score == score


@pytest.mark.parametrize("pattern", ["(", "(?=a)", "(a)\\1", "x" * 501])
def test_a_pattern_that_re2_does_not_take_is_refused(pattern: str) -> None:
    with pytest.raises(RubricError, match="pattern"):
        argument_matches.validate({**PAID, "parameter": "note", "pattern": pattern})


def test_a_pattern_takes_no_more_than_linear_time_and_no_odd_character() -> None:
    long = case(call("bank.pay", note="a" * 1_000_000 + "\ud800"))
    assert argument_matches(long, {**PAID, "parameter": "note", "pattern": "(a*)*b"}).score == 0.0


def test_each_value_is_looked_for_over_all_calls() -> None:
    asked = {"tools": ["time"], "parameter": "city", "values": ["Oslo", "Lima"]}
    oslo, lima, bern = (call("time.now", city=city) for city in ("Oslo", "Lima", "Bern"))
    assert arguments_of_each(case(oslo, lima), asked).score == 1.0
    assert arguments_of_each(case(oslo), asked).score == 0.5
    assert arguments_of_each(case(bern), asked).score == 0.0
    assert arguments_of_each(case(oslo, lima, bern), asked).score == 1.0
    found = arguments_of_each(case(oslo, lima, bern, bern), {**asked, "others": False})
    assert found.score == pytest.approx(2 / 3)
    assert found.steps == ("s_0000000000000002", "s_0000000000000003")


def test_items_of_a_list_are_values_too() -> None:
    asked = {"tools": ["files"], "parameter": "paths", "values": ["a.txt", "b.txt"]}
    assert arguments_of_each(case(call("files.read_all", paths=["b.txt", "a.txt"])), asked).score == 1.0
    assert arguments_of_each(case({**call("files.read_all", paths=["b.txt"]), "by_code": True}), asked).score == 0.5


SCHEMA = {
    "inputSchema": {
        "type": "object",
        "properties": {"sum": {"type": "number", "minimum": 1}},
        "required": ["sum"],
    }
}


@pytest.mark.parametrize(
    ("step", "score"),
    [
        (call("bank.pay", sum=2), 1.0),
        (call("bank.pay", sum="2"), 0.0),
        (call("bank.pay", sum=0), 0.0),
        (call("bank.pay"), 0.0),
        (call("bank.pay", "?", "invalid_arguments", sum=2), 0.0),
        (call("bank.pay", "no money", "tool_error", sum=2), 1.0),
        (call("shop.buy", thing="lamp"), 1.0),
    ],
)
def test_the_first_call_of_a_tool_has_to_fit_its_schema(step: dict[str, Any], score: float) -> None:
    assert valid_at_first_try(case(step, tools={"bank.pay": SCHEMA}), {}).score == score


def test_only_the_first_call_of_each_tool_counts() -> None:
    bad, good, other = call("bank.pay", "?", "invalid_arguments"), call("bank.pay", sum=2), call("shop.buy")
    assert valid_at_first_try(case(good, bad), {}).score == 1.0
    assert valid_at_first_try(case(bad, good, other), {}).score == 0.5
    assert valid_at_first_try(case(), {}).why is Why.NOT_APPLICABLE


def test_outcomes_tell_even_where_arguments_were_not_kept() -> None:
    bad = call("bank.pay", "?", "invalid_arguments", sum=2)
    assert not valid_at_first_try.contents
    assert valid_at_first_try(case(bad, level=Level.METADATA, tools={"bank.pay": SCHEMA}), {}).score == 0.0
    good = case(call("bank.pay", sum=2), level=Level.METADATA, tools={"bank.pay": SCHEMA})
    assert valid_at_first_try(good, {}).score == 1.0


def _deep() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(5_000):
        schema = {"properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "https://example.org/schema.json"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}},
        {"type": "nonsense"},
        {"properties": {"sum": {"pattern": "(a+)+$"}}},
        {"properties": 7},
        {"enum": ["x" * 30_000]},
        "no schema",
        None,
        _deep(),
    ],
)
def test_a_schema_that_cannot_be_applied_has_nothing_against_a_call(schema: Any) -> None:
    lived = case(call("bank.pay", sum=2, more="a" * 10_000 + "b"), tools={"bank.pay": {"inputSchema": schema}})
    assert valid_at_first_try(lived, {}).score == 1.0
