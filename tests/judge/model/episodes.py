"""Episodes, criteria and settings that the tests of the model judge share."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from judge.case import Case
from judge.model.transcript import Pieces, Transcript, transcript
from judge.rubric import Category, Criterion, Kind, Rubric
from judge.scripted import scripted
from judge.settings import ModelSettings
from proxy.store.trajectory import Trajectory

TASK = "What time is it in Oslo now?"
OSLO: dict[str, Any] = {
    "task": TASK,
    "answer": "The clock in Oslo shows 14:05.",
    "steps": [
        {"search_tools": {"query": "time in a city"}, "gives": "time.get_current_time(timezone: str) - the time now"},
        {
            "time.get_current_time": {"timezone": "Europe/Oslo"},
            "gives": '{"datetime": "2026-11-30T14:05:00+01:00"}',
        },
    ],
}


def case(**changed: Any) -> Case:
    """The episode above, with some of it changed."""
    return Case(scripted({**OSLO, **changed}))


def lived(given: Case) -> Case:
    """The same as if an agent had done it, which not everybody may see."""
    members = {each.name: getattr(given.trajectory, each.name) for each in fields(Trajectory)}
    return Case(Trajectory(**members), given.catalogue)


def show(given: Case, settings: ModelSettings | None = None) -> Transcript:
    return transcript(Pieces.of(given, as_it_is), settings or ModelSettings())


def as_it_is(episode: str, text: str) -> str:
    return text


def criterion(id: str = "told", **changed: Any) -> Criterion:
    members: dict[str, Any] = {
        "id": id,
        "category": Category.TASK_FULFILMENT,
        "text": "The time in Oslo was told.",
        "weight": 8,
        "kind": Kind.JUDGE,
        **changed,
    }
    return Criterion(**members)


def rubric(*ids: str) -> Rubric:
    return Rubric(tuple(criterion(each) for each in ids))
