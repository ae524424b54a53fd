"""One small task over files and a calculator, which tests of several checks work with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judge.case import Case
from judge.checks.base import Finding
from judge.checks.library import library
from judge.scripted import scripted

CHECKS = library()
TASK = "Add the amounts in harbour/march.csv and harbour/april.csv, please."
READ = (
    {"files.read": {"path": "harbour/march.csv"}, "gives": "paint,48.60\nrope,112.35"},
    {"files.read": {"path": "harbour/april.csv"}, "gives": "buoy,310.50"},
)
SUM = {"calculator.calculate": {"expression": "48.60 + 112.35"}, "gives": "160.95"}
WRITE = {"files.write": {"edits": [{"who": "Nadia", "room": "4.02"}, {"who": "Emil", "room": "1.18"}]}, "gives": "ok"}


def case(*steps: Mapping[str, Any], answer: str | None = "march.csv: 160.95", task: str | None = TASK) -> Case:
    script: dict[str, Any] = {"steps": list(steps), "answer": answer}
    return Case(scripted(script if task is None else {**script, "task": task}))


def decided(name: str, of: Case, **parameters: Any) -> Finding:
    return CHECKS[name](of, parameters)


def failed(step: Mapping[str, Any]) -> dict[str, Any]:
    return {**step, "outcome": "tool_error", "gives": "no such file"}


def cut(step: Mapping[str, Any]) -> dict[str, Any]:
    return {**step, "cut": True}
