"""What an agent had seen at each moment."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from judge.checks.evidence import OWN, TASK, as_text, evidence_of, parameter_of
from judge.checks.reading import MAX_SEEN
from judge.checks.values import in_argument, values_in
from tests.judge.checks.scripts import call, case

LOOK = call("files.read", "Anna Holm, 931", path="a.csv")
TOLD = call("files.read", "Berta Krol, 842", path="b.csv")


def value(written: str) -> Any:
    return in_argument(written)[0]


def test_only_what_had_ended_before_a_call_was_seen_by_it() -> None:
    lived = case(LOOK, TOLD, call("mail.send", to="Anna"), task="Write to Cesar.")
    first, second, third = lived.acts
    evidence = evidence_of(lived)
    assert evidence.before(first).find(value("Holm")) is None
    assert evidence.before(second).find(value("Holm")) == first.id
    assert evidence.before(second).find(value("Krol")) is None
    assert evidence.before(third).find(value("Krol")) == second.id
    assert evidence.before(first).find(value("Cesar")) == TASK


def test_results_that_came_to_code_count_for_code_alone() -> None:
    inner = {**LOOK, "by_code": True}
    lived = case(inner, call("mail.send", to="x"), {**TOLD, "by_code": True})
    evidence = evidence_of(lived)
    assert evidence.before(lived.acts[1]).find(value("Holm")) is None
    assert evidence.before(lived.acts[2]).find(value("Holm")) == lived.acts[0].id
    assert evidence.at_end().find(value("Holm")) is None


def test_what_calls_were_sent_counts_at_the_end_where_they_succeeded() -> None:
    quiet = call("db.add", "Error: locked", name="Emil Stark")
    lived = case(call("db.add", "added", name="Fynn Oker"), quiet)
    evidence = evidence_of(lived)
    assert evidence.at_end().find(value("Oker")) == OWN
    assert evidence.at_end().find(value("Stark")) is None
    assert [evidence.failed(act) for act in lived.acts] == [False, True]


def test_an_error_that_repeats_what_was_sent_is_no_evidence() -> None:
    lived = case(call("db.get", "no row 931 in table T_7", "tool_error", id=931))
    seen = evidence_of(lived).at_end()
    assert seen.find(value("931")) is None
    assert seen.find(value("T_7")) is not None


def test_facts_leave_out_what_tells_of_tools_and_end_at_a_bound() -> None:
    search = {"search_tools": {"query": "sum"}, "gives": "calc.sum: at most 17 numbers"}
    lived = case(search, LOOK, TOLD, task="Add 5.")
    assert [reading.raw for reading in evidence_of(lived).facts()] == ["Add 5.", "Anna Holm, 931", "Berta Krol, 842"]
    long = case(*[call("files.read", "1 " * MAX_SEEN, path=str(place)) for place in range(9)])
    facts = evidence_of(long).facts()
    assert sum(len(reading.raw) for reading in facts) <= MAX_SEEN
    assert evidence_of(long).cut_before(None)


def test_it_is_worked_out_once_a_case_and_forgotten_with_it() -> None:
    lived = case(LOOK)
    assert evidence_of(lived) is evidence_of(lived)
    assert evidence_of(case(LOOK)) is not evidence_of(lived)
    gone = weakref.ref(evidence_of(lived))
    del lived
    gc.collect()
    assert gone() is None


def test_json_becomes_lines_and_a_value_knows_its_parameter() -> None:
    assert as_text({"a": {"b": [1, "x"]}, "c": 10**5_000}) == "0: 1\n1: x\nc: "
    assert [parameter_of(each) for each in values_in({"filter": {"ids": [17]}})] == ["ids"]
