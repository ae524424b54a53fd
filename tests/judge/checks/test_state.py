"""The check of what was read back."""

from __future__ import annotations

from typing import Any

import pytest

from judge.checks.base import Finding
from judge.checks.state import read_back
from judge.rubric import RubricError
from judge.verdict import Why
from tests.judge.checks.scripts import call, case

WRITE = call("db.write_query", query="UPDATE stock SET n = 41")
READ = call("db.read_query", "[{'sku': 'IN-2041', 'n': 41}]", sku="IN-2041")
READS = {"tools": ["db.read_query"]}


def back(*steps: dict[str, Any], tools: dict[str, Any] | None = None, **parameters: Any) -> Finding:
    return read_back(case(*steps, tools=tools), {**READS, **parameters})


def test_the_last_reading_after_the_last_write_counts() -> None:
    old = call("db.read_query", "[{'sku': 'IN-2041', 'n': 17}]", sku="IN-2041")
    assert back(old, WRITE, READ, contains=[41]).score == 1.0
    found = back(READ, WRITE, old, contains=[41])
    assert found.score == 0.0
    assert "41" in found.note
    assert found.steps == ("s_0000000000000002",)


def test_what_was_read_before_the_last_write_does_not_count() -> None:
    assert back(READ, WRITE, contains=[41]).why is Why.NOT_APPLICABLE
    assert back(READ, WRITE, contains=[41], required=True).score == 0.0


def test_a_write_or_a_reading_that_failed_is_none() -> None:
    failed = {**WRITE, "outcome": "tool_error"}
    assert back(READ, failed, contains=[41]).score == 1.0
    assert back(WRITE, READ, {**READ, "outcome": "tool_error"}, contains=[41]).score == 1.0
    assert back(WRITE, {**READ, "gives": "Error: locked"}, contains=[41]).why is Why.NOT_APPLICABLE


def test_facts_count_by_share_and_by_value() -> None:
    found = back(WRITE, READ, contains=["in-2041", "41.0", [7, 8]], lacks=[17])
    assert found.score == 0.75
    assert "7" in found.note
    assert back(WRITE, READ, lacks=[41]).score == 0.0
    assert back(WRITE, call("db.read_query", " 41.00\n"), equals=41).score == 1.0
    assert back(WRITE, call("db.read_query", "42"), equals=41).score == 0.0


def test_arguments_narrow_it_to_readings_of_one_thing() -> None:
    other = call("db.read_query", "[{'sku': 'IN-2096', 'n': 53}]", sku="IN-2096")
    assert back(WRITE, READ, other, contains=[41], arguments={"sku": "in-2041"}).score == 1.0
    assert back(WRITE, READ, other, contains=[41]).score == 0.0
    assert back(WRITE, other, contains=[41], arguments={"sku": "IN-2041"}).why is Why.NOT_APPLICABLE


def test_the_definition_says_what_a_write_is_where_it_does() -> None:
    odd = call("db.read_and_mark", id="7")
    tools = {"db.read_and_mark": {"annotations": {"readOnlyHint": False}}}
    assert back(READ, odd, contains=[41]).score == 1.0
    assert back(READ, odd, contains=[41], tools=tools).why is Why.NOT_APPLICABLE
    assert back(READ, odd, contains=[41], writes=["db.read_and_mark"]).why is Why.NOT_APPLICABLE


def test_a_reading_that_was_cut_decides_only_by_what_is_there() -> None:
    cut = {**READ, "cut": True}
    assert back(WRITE, cut, contains=[99]).why is Why.CUT
    assert back(WRITE, cut, contains=[41]).score == 1.0
    assert back(WRITE, cut, lacks=[41]).score == 0.0
    assert back(WRITE, cut, lacks=[99]).why is Why.CUT


def test_without_facts_it_is_enough_to_have_read() -> None:
    assert back(WRITE, READ).score == 1.0


@pytest.mark.parametrize("wrong", [{"contains": []}, {"contains": [True]}, {"contains": 7}])
def test_parameters_that_cannot_be_meant_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(RubricError):
        back(READ, **wrong)
