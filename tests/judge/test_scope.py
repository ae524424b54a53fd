"""Scopes: what was seen, and what can be decided from it."""

from __future__ import annotations

from typing import Any

import pytest

from judge.case import Case
from judge.checks.base import Finding, check, met
from judge.checks.library import Library
from judge.rubric import Category, Criterion, Kind, Need
from judge.scope import Scope
from judge.scripted import scripted
from proxy.store.recorder import Level

STEPS: list[dict[str, Any]] = [{"time.now": {"zone": "Europe/Oslo"}, "gives": "14:05"}]
TASK = "What time is it in Oslo?"


@check("reads_answer", needs=(Need.ANSWER,))
def reads_answer(case: Case) -> Finding:
    """It was answered."""
    return met()


LIBRARY = Library({"reads_answer": reads_answer})


def criterion(kind: Kind, *, check: str | None = None, needs: frozenset[Need] = frozenset()) -> Criterion:
    return Criterion(
        id="c", category=Category.TASK_FULFILMENT, text="So.", weight=5, kind=kind, check=check, needs=needs
    )


def scope(*, task: bool = False, answer: bool = False, model: bool = False) -> Scope:
    return Scope(task=task, answer=answer, model=model)


ALL = [scope(task=task, answer=answer, model=model) for task in (0, 1) for answer in (0, 1) for model in (0, 1)]


def test_the_eight_texts_are_those_of_the_contract_and_read_back() -> None:
    texts = [
        "calls",
        "calls+model",
        "calls+answer",
        "calls+answer+model",
        "calls+task",
        "calls+task+model",
        "calls+task+answer",
        "calls+task+answer+model",
    ]
    assert [str(each) for each in ALL] == texts
    assert [Scope.read(text) for text in texts] == ALL


@pytest.mark.parametrize("text", ["", "task", "calls+", "calls+answer+task", "calls+task+task", "calls+judge", "Calls"])
def test_what_is_no_scope_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match="is no scope"):
        Scope.read(text)


def test_of_an_episode_it_is_what_the_agent_passed_on() -> None:
    both = Case(scripted({"task": TASK, "answer": "14:05", "steps": STEPS}))
    neither = Case(scripted({"steps": STEPS}))
    assert Scope.of(both, model=True) == scope(task=True, answer=True, model=True)
    assert Scope.of(both, model=False) == scope(task=True, answer=True)
    assert Scope.of(neither, model=True) == scope(model=True)


def test_an_empty_answer_is_one_and_an_empty_task_is_none() -> None:
    assert Scope.of(Case(scripted({"task": "  ", "answer": "", "steps": STEPS})), model=False) == scope(answer=True)


def test_an_episode_that_was_not_logged_whole_shows_a_model_nothing() -> None:
    case = Case(scripted({"task": TASK, "answer": "14:05", "steps": STEPS}, level=Level.METADATA))
    assert Scope.of(case, model=True) == scope()


def test_a_check_is_shown_where_its_own_needs_were_seen() -> None:
    asked = criterion(Kind.CHECK, check="reads_answer")
    assert [each.shows(asked, LIBRARY) for each in ALL] == [each.answer for each in ALL]


def test_a_models_criterion_needs_a_model_and_what_it_names() -> None:
    asked = criterion(Kind.JUDGE, needs=frozenset({Need.TASK}))
    assert [each.shows(asked, LIBRARY) for each in ALL] == [each.model and each.task for each in ALL]


def test_a_check_that_is_not_here_does_not_vanish_from_the_scope() -> None:
    assert scope().shows(criterion(Kind.CHECK, check="of_another_package"), LIBRARY)
