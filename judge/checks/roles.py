"""Whether an answer tells values in the places in which good answers of the same task tell them.

Above: library.py, writing/of_task.py, whose rubrics are made of it. Below: surroundings.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Annotated

from pydantic import Field

from judge.case import Case
from judge.checks.base import Finding, check, met, missing, partly
from judge.checks.facts import Told
from judge.checks.reading import Reading
from judge.checks.records import fact
from judge.checks.sightings import is_few, listed
from judge.checks.surroundings import Surroundings, difference, likeness, told_apart
from judge.checks.values import Value, same, values_in
from judge.rubric import Need
from judge.verdict import Why

Fact = str | int | float
Around = Annotated[Sequence[Mapping[str, float] | None], Field(min_length=2)]
EXCHANGED = -0.3
"""Likeness from which on two values are told in each other's place."""
AT_MOST = 0.5
"""What is left where two are."""


@check("told_in_place", needs={Need.ANSWER})
def told_in_place(
    case: Case,
    *,
    facts: Annotated[Sequence[Fact], Field(min_length=2)],
    around: Annotated[Sequence[Around], Field(min_length=1)],
    known: Sequence[Fact] = (),
    listed_together: Sequence[Annotated[Sequence[Fact], Field(min_length=2, max_length=2)]] = (),
) -> Finding:
    """Of two values of one kind, neither stands where the other belongs. `around` has for each good answer, in the
    order of `facts`, which words, and which of `facts` behind `=`, stand around each, with their nearness from 0 to 1.
    What stands nearer to the one than to the other is compared with this answer, where all good answers agree on it.
    Items of one list, here or in `listed_together`, are not compared. Nor does a value that neither the task has nor
    `known`, which good answers told, stand where a fact of its kind lacks. The score is 1, or else half the share of
    facts that are told in their place. Not applicable where no two facts can be compared and none is replaced."""
    values, written = list(map(fact, facts)), list(map(str, facts))
    here = Surroundings(case.answer or "", case.task or "", values)
    skipped = {frozenset(map(str, pair)) for pair in listed_together}
    judged: set[int] = set()
    wrong: set[int] = set()
    notes: list[str] = []
    for one, other in combinations(range(len(values)), 2):
        if (
            values[one].kind is not values[other].kind
            or (one, other) in here.listed
            or frozenset((written[one], written[other])) in skipped
        ):
            continue
        own = difference(one, other, here.around, written)
        usual = told_apart(one, other, around, written)
        if not own or not usual:
            continue
        judged |= {one, other}
        if sum(likeness(each, own) for each in usual) / len(usual) < EXCHANGED:
            wrong |= {one, other}
            notes.append(f"{written[one]} and {written[other]}")
    for at, other in _replaced(case, values, [*values, *map(fact, known)]):
        judged.add(at)
        wrong.add(at)
        notes.append(f"{other.written} for {written[at]}")
    if not judged:
        return missing(Why.NOT_APPLICABLE, "no two facts can be told apart by what stands around them")
    if not wrong:
        return met()
    return partly(AT_MOST * (1 - len(wrong) / len(judged)), f"told in another's place: {listed(notes)}")


def _replaced(case: Case, facts: Sequence[Value], known: Sequence[Value]) -> list[tuple[int, Value]]:
    """Facts that the answer lacks, by place, each with a value of its kind that is told and is none that is known."""
    told, task = Told(case.answer or ""), Reading(case.task or "")
    new = [
        value
        for value in values_in(case.answer or "")
        if not (is_few(value) or any(same(value, each) for each in known) or task.has(value))
    ]
    found: list[tuple[int, Value]] = []
    for at, value in enumerate(facts):
        if not is_few(value) and not any(told.has(f"{sign}{value.written}") for sign in ("", "-")):
            other = next((each for each in new if each.kind is value.kind), None)
            if other is not None:
                new.remove(other)
                found.append((at, other))
    return found
