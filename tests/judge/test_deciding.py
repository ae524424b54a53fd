"""Running the checks of a rubric over one trajectory."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from judge.case import Case
from judge.checks.base import Finding, check, met, unmet
from judge.checks.library import Library
from judge.deciding import decide
from judge.rubric import Category, Criterion, Kind, Need, Rubric
from judge.scope import Scope
from judge.verdict import Quote, Verdict, Why
from proxy.store.recorder import Level
from tests.judge.checks.scripts import call, case

ALL = Scope(task=True, answer=True, model=False)


@check("most_calls", contents=False)
def most_calls(case: Case, *, most: int) -> Finding:
    """At most `most` calls."""
    few = len(case.acts) <= most
    return met(acts=case.acts, quotes=[Quote("answer", "so it is")]) if few else unmet("too many", acts=case.acts)


@check("reads_answer", needs=(Need.ANSWER,))
def reads_answer(case: Case) -> Finding:
    """The answer is yes."""
    return met() if case.answer == "yes" else unmet("no")


@check("breaks")
def breaks(case: Case, *, how: str) -> Finding:
    """Never ends well."""
    if how == "raises":
        raise KeyError("secret words of the episode")
    if how == "deep":
        return breaks(case, {"how": "deep"})
    return {
        "too much": Finding(score=1.5),
        "no number": Finding(score=float("nan")),
        "nothing": Finding(score=None),
        "both": Finding(score=1.0, why=Why.CUT),
    }[how]


LIBRARY = Library({each.name: each for each in (most_calls, reads_answer, breaks)})


def by_check(name: str, **parameters: Any) -> Criterion:
    return Criterion(
        id=f"c-{name}",
        category=Category.TASK_FULFILMENT,
        text="It is so.",
        weight=5,
        kind=Kind.CHECK,
        check=name,
        parameters=parameters,
        needs=frozenset(),
    )


def by_model(*needs: Need) -> Criterion:
    return Criterion(
        id="c-model",
        category=Category.TASK_FULFILMENT,
        text="It is so.",
        weight=5,
        kind=Kind.JUDGE,
        needs=frozenset(needs),
    )


def one(criterion: Criterion, lived: Case, scope: Scope = ALL) -> Verdict:
    (verdict,) = decide(Rubric((criterion,)), lived, LIBRARY, scope)
    assert verdict.criterion == criterion.id
    return verdict


def test_each_criterion_gets_its_verdict_in_order() -> None:
    rubric = Rubric((by_check("reads_answer"), by_model(), by_check("most_calls", most=3)))
    verdicts = decide(rubric, case(call("time.now"), answer="yes"), LIBRARY, ALL)
    assert [verdict.criterion for verdict in verdicts] == ["c-reads_answer", "c-model", "c-most_calls"]
    assert [verdict.score for verdict in verdicts] == [1.0, None, 1.0]


def test_a_verdict_has_all_that_the_check_found() -> None:
    verdict = one(by_check("most_calls", most=0), case(call("time.now")))
    assert (verdict.score, verdict.note, verdict.steps) == (0.0, "too many", ("s_0000000000000000",))
    assert one(by_check("most_calls", most=1), case(call("time.now"))).quotes == (Quote("answer", "so it is"),)


def test_what_the_episode_does_not_show_is_out_of_scope() -> None:
    blind = Scope(task=True, answer=False, model=False)
    assert one(by_check("reads_answer"), case(), blind).why is Why.OUT_OF_SCOPE
    assert one(by_model(Need.ANSWER), case(), blind).why is Why.OUT_OF_SCOPE
    assert one(by_model(Need.TASK), case(), blind).why is Why.NO_MODEL
    assert one(by_model(Need.TASK), case(), Scope(task=True, answer=False, model=True)).why is Why.NO_MODEL


@pytest.mark.parametrize("how", ["raises", "deep", "too much", "no number", "nothing", "both"])
def test_a_check_that_breaks_breaks_only_its_criterion(how: str, caplog: pytest.LogCaptureFixture) -> None:
    rubric = Rubric((by_check("breaks", how=how), by_check("most_calls", most=0)))
    with caplog.at_level(logging.WARNING, "toolatlas.judge"):
        broken, whole = decide(rubric, case(answer="yes"), LIBRARY, ALL)
    assert (broken.score, broken.why, whole.score) == (None, Why.BROKEN, 1.0)
    assert "secret" not in broken.note
    assert rubric.hash in caplog.text


def test_the_note_names_the_class_of_the_error() -> None:
    assert one(by_check("breaks", how="raises"), case()).note == "the check breaks raised KeyError"


@pytest.mark.parametrize(
    ("criterion", "note"),
    [
        (by_check("most_calls", most="three"), "parameter most"),
        (by_check("most_calls"), "parameter most"),
        (by_check("most_calls", most=3, least=1), "parameter least"),
        (by_check("unheard_of"), "unheard_of"),
    ],
)
def test_parameters_that_do_not_fit_and_unknown_checks_are_broken(criterion: Criterion, note: str) -> None:
    verdict = one(criterion, case())
    assert verdict.why is Why.BROKEN
    assert note in verdict.note


def test_only_checks_that_read_contents_need_them() -> None:
    outline = case(call("time.now"), answer="yes", level=Level.METADATA)
    assert one(by_check("most_calls", most=1), outline).score == 1.0
    assert one(by_check("reads_answer"), outline).why is Why.NOT_LOGGED
