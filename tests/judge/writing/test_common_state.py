"""What good episodes saw of the state that they left behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judge.case import Case
from judge.scripted import scripted
from judge.writing.common_state import common_state
from judge.writing.sources import Source

TASK = "24 of 'brass lamp' have come: add them to the table stock, and tell me the new number."
BEFORE = {
    "db.read_query": {"query": "SELECT * FROM stock"},
    "gives": "[{'sku': 'IN-20', 'name': 'brass lamp', 'n': 17}]",
}
SET = {"db.write_query": {"query": "UPDATE stock SET n = 41 WHERE sku = 'IN-20'"}, "gives": "1 row"}
ADD = {"db.write_query": {"query": "UPDATE stock SET n = n + 24 WHERE name = 'brass lamp'"}, "gives": "1 row"}
AFTER = {"db.read_query": {"query": "SELECT sku, n FROM stock"}, "gives": "[{'sku': 'IN-20', 'n': 41}]"}


def source(*steps: Mapping[str, Any], answer: str = "IN-20, brass lamp: 41 now.") -> Source:
    return Source(Case(scripted({"task": TASK, "answer": answer, "steps": list(steps)})))


def test_what_all_saw_together_after_their_changes_is_the_state_whichever_way_they_went():
    groups, servers = common_state([source(BEFORE, SET, AFTER), source(BEFORE, ADD, AFTER)])
    assert [[value for value in group if value in ("IN-20", "41")] for group in groups] == [["IN-20", "41"]]
    assert servers == ["db"]


def test_what_was_so_before_is_no_state_and_what_one_did_not_look_at_is_none():
    assert common_state([source(AFTER, SET, AFTER), source(AFTER, ADD, AFTER)]) == ([], [])
    assert common_state([source(BEFORE, SET, AFTER), source(BEFORE, ADD)]) == ([], [])
    assert common_state([source(BEFORE, AFTER), source(BEFORE, AFTER)]) == ([], [])


def test_what_they_saw_differently_is_no_state():
    other = {**AFTER, "gives": "[{'sku': 'IN-20', 'n': 24}]"}
    groups, _ = common_state([source(BEFORE, SET, AFTER), source(BEFORE, ADD, other)])
    assert not any("41" in group or "24" in group for group in groups)
