"""Trajectories written by hand."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from judge.case import Case
from judge.scripted import scripted
from proxy.store.recorder import Level, Outcome

SCRIPT = yaml.safe_load("""
task: What time is it in Oslo?
answer: It is 14:05 in Oslo.
outcome: done
steps:
  - search_tools: {query: time in a city}
    gives: "time.now(city: str) - the time now"
  - time.now: {city: Oslo}
    gives: "no such city"
    outcome: tool_error
  - time.now: {city: Europe/Oslo}
    gives: "14:05"
    by_code: true
    cut: true
""")


def test_a_script_tells_a_whole_trajectory() -> None:
    lived = Case(scripted(SCRIPT))
    assert (lived.task, lived.answer, lived.full) == ("What time is it in Oslo?", "It is 14:05 in Oslo.", True)
    assert [act.outcome for act in lived.acts] == [Outcome.TOOL_ERROR, Outcome.OK]
    assert [act.by_code for act in lived.acts] == [False, True]
    assert [lived.text(act.step) for act in lived.acts] == ["[error]\nno such city", "14:05"]
    assert [lived.cut(act.step) for act in lived.acts] == [False, True]
    ending = lived.trajectory.ending
    assert ending is not None
    assert (ending.steps, ending.calls, ending.failures, ending.outcome) == (3, 2, 1, "done")


def test_the_same_script_has_the_same_id_and_another_another() -> None:
    assert scripted(SCRIPT).id == scripted(dict(SCRIPT)).id
    assert scripted(SCRIPT).id != scripted({**SCRIPT, "answer": "No."}).id
    assert scripted(SCRIPT).id != scripted(SCRIPT, level=Level.METADATA).id


def test_nothing_of_the_contents_is_there_at_metadata() -> None:
    trajectory = scripted(SCRIPT, level=Level.METADATA)
    lived = Case(trajectory)
    assert (lived.task, lived.answer, lived.full) == (None, None, False)
    assert "Oslo" not in repr(trajectory)
    assert [act.written for act in lived.acts] == ["time.now", "time.now"]


@pytest.mark.parametrize(
    "script",
    [
        {"title": "x"},
        {"steps": [{}]},
        {"steps": [{"gives": "x"}]},
        {"steps": [{"a.b": {}, "c.d": {}}]},
        {"steps": [{"a.b": {}, "give": "x"}]},
        {"steps": [{"a.b": {}, "outcome": "fine"}]},
        {"steps": [{"a.b": {}, "gives": None}]},
        {"steps": [{"a.b": {}, "gives": {"x": 1}}]},
        {"steps": ["a.b"]},
        {"steps": {"a.b": {}}},
        {"steps": None},
        {"task": 7},
        {"answer": ["x"]},
        {"outcome": "fine"},
    ],
)
def test_a_script_that_cannot_be_meant_is_refused(script: Any) -> None:
    with pytest.raises(ValueError, match="script"):
        scripted(script)
