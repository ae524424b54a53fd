"""Which tools are needed, and from where what they are given comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judge.case import Case
from judge.checks.values import as_one
from judge.scripted import scripted
from judge.writing.common_tools import beside_task, origins, roles
from judge.writing.sources import Source

TASK = "How much is 'Oslo', and who made 'Raise the fee'?"
READ = {"files.read": {"path": "oslo.csv"}, "gives": "49.60\n112.35"}
ADD = {"calculator.calculate": {"expression": "49.60 + 112.35", "places": 2}, "gives": "161.95"}
LOG = {
    "git.log": {"most": 20},
    "gives": "Commit: 1a2b3c4d5\nMessage: Raise the fee\n\nCommit: 9f8e7d6c5\nMessage: Other",
}


def source(*steps: Mapping[str, Any], answer: str = "It is 161.95.") -> Source:
    return Source(Case(scripted({"task": TASK, "answer": answer, "steps": list(steps)})))


def show(revision: str) -> Mapping[str, Any]:
    return {"git.show": {"revision": revision}, "gives": "by Ada"}


def test_a_tool_is_needed_only_where_no_source_did_without_what_it_gave():
    fact = [as_one("161.95")]
    both = [source(READ, ADD), source(READ, ADD)]
    assert [role.tools for role in roles(both, fact, ())] == [("calculator.calculate",)]
    assert roles([*both, source(READ)], fact, ()) == []


def test_what_a_tool_is_given_comes_from_the_servers_that_gave_it_but_for_small_numbers():
    found = origins([source(READ, ADD), source(READ, ADD)])
    assert found == {"calculator.calculate": {"expression": ["files"]}}
    assert origins([source(READ, ADD), source(ADD)]) == {}


def test_parameters_that_every_source_filled_from_beside_its_task_are_known():
    right = source(LOG, show("1a2b3c4d5"))
    assert beside_task([right, source(LOG, show("1a2b3c4d5:fees.ini"))]) == {"git.show": ["revision"]}
    assert beside_task([right, source(LOG, show("9f8e7d6c5"))]) == {}
    assert beside_task([right, source(LOG)]) == {}
