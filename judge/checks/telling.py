"""Checks that compare the answer of an episode with what good episodes of its task, or of its family, told.

Above: library.py, writing/derived.py, whose rubrics are made of them. Below: base.py, pairing.py, sightings.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from judge.case import Act, Case
from judge.checks.base import Finding, check, met, missing, partly
from judge.checks.evidence import evidence_of
from judge.checks.pairing import Told
from judge.checks.reading import Reading
from judge.checks.records import fact
from judge.checks.sightings import done, gives, is_few, listed, named_share, share_of, told_in, told_once
from judge.checks.tools import said
from judge.checks.values import Value, ValueKind, values_in
from judge.checks.words import fold
from judge.rubric import Need
from judge.verdict import Why

Names = Annotated[Sequence[str], Field(min_length=1)]
Fact = str | int | float
Facts = Annotated[Sequence[Fact], Field(min_length=1)]
Kinds = Annotated[Sequence[Literal["number", "date", "time", "name", "identifier", "text"]], Field(min_length=1)]
_MEASURED = (ValueKind.NUMBER, ValueKind.DATE, ValueKind.TIME)


@check("result_in_answer", needs={Need.ANSWER})
def result_in_answer(case: Case, *, each_of: Annotated[Sequence[Names], Field(min_length=1)]) -> Finding:
    """The answer takes a value from a result of each of these: `each_of` lists what is needed, each as alternatives. It
    has to be a value that neither the task nor the arguments of that call gave. A hash may be given in short. The score
    is the share."""
    task = Reading(case.task or "")
    told = [value for value in told_in(case.answer or "") if not task.has(value)]
    lacking: list[str] = []
    speaking: list[Act] = []
    cut = False
    for names in each_of:
        acts = done(case, names)
        taken = [act for act in acts if any(gives(case, act, value) for value in told)]
        speaking += taken
        if not taken:
            lacking.append(said(names))
            cut = cut or any(case.cut(act.step) for act in acts)
    return share_of("the answer takes nothing from", lacking, len(each_of), speaking, cut)


@check("answer_adds_nothing", needs={Need.ANSWER})
def answer_adds_nothing(case: Case, *, known: Sequence[Fact] = ()) -> Finding:
    """Every number, date and time of the answer stands in the task, in a result, or in `known`, which good answers
    said: nothing is made of them that was not asked for. Whole numbers up to 3 are left out, for people count without
    digits in mind. The score is half the share of those that do, once there is one that does not. Not applicable where
    the answer has none."""
    told = [value for value in values_in(case.answer or "") if value.kind in _MEASURED and not is_few(value)]
    if not told:
        return missing(Why.NOT_APPLICABLE, "the answer has no number, date or time")
    seen = [told_once("\n".join(map(str, known))), *evidence_of(case).facts()]
    new = [value.written for value in told if not any(reading.has(value) for reading in seen)]
    if not new:
        return met()
    if evidence_of(case).cut_before(None):
        return missing(Why.CUT, f"{listed(new)} may stand in a part of a result that was not kept")
    return partly(0.5 * (1 - len(new) / len(told)), f"neither in a result nor in good answers: {listed(new)}")


@check("answer_pairs", needs={Need.ANSWER})
def answer_pairs(case: Case, *, pairs: Annotated[Sequence[Facts], Field(min_length=2)]) -> Finding:
    """The answer gives each value to its own subject and not to another's. `pairs` lists subjects with their values,
    `[["Oslo", "14:05"], ["Lima", "8:05"]]`; two of them are exchanged where their values would stand nearer to the
    subjects the other way round, the end of a sentence or line counting as far; and one is another's where all that
    sentences about a subject give of its kind is neither its own, nor of the task, nor of `pairs`. The score is the
    share of pairs with neither. Not applicable where the answer does not have two subjects with their values."""
    told = Told(case.answer or "")
    another = _given_another(told, case.task or "", pairs)
    known = [pair for subject, *facts in pairs for fact in facts if (pair := told.pair(str(subject), fact)) is not None]
    if len({pair.subject for pair in known}) < 2 and not another:
        return missing(Why.NOT_APPLICABLE, "the answer does not have two subjects with their values")
    wrong = [f"{each.subject}: {each.value}" for each in told.exchanged(known)]
    if not wrong and not another:
        return met()
    wrong += [each for each in another if each not in wrong]
    return partly(max(0.0, 1 - len(wrong) / max(len(known), 2)), f"exchanged, or another value: {listed(wrong)}")


@check("answer_chooses", needs={Need.ANSWER})
def answer_chooses(
    case: Case,
    *,
    pairs: Annotated[Sequence[Annotated[Sequence[str], Field(min_length=2, max_length=2)]], Field(min_length=1)],
) -> Finding:
    """Of two that the task offers, such as 'open' or 'closed', the answer has the right one, and not the other alone.
    Each pair is the right one and the other. The score is the share of pairs. Not applicable where the answer has none
    of them."""
    answer = Reading(case.answer or "")
    told = [(right, other) for right, other in pairs if any(answer.has_text(fold(each)) for each in (right, other))]
    if not told:
        return missing(Why.NOT_APPLICABLE, "the answer has nothing of what the task offers")
    wrong = [f"{other} for {right}" for right, other in told if not answer.has_text(fold(right))]
    return met() if not wrong else partly(1 - len(wrong) / len(told), f"the answer has {listed(wrong)}")


def _given_another(told: Told, task: str, pairs: Sequence[Facts]) -> list[str]:
    known = [*values_in(task), *(fact(each) for _, *facts in pairs for each in facts)]
    by_subject: dict[str, list[Value]] = {}
    for subject, *facts in pairs:
        by_subject.setdefault(str(subject), []).extend(map(fact, facts))
    return [
        f"{subject}: {values[0].written}"
        for subject, values in by_subject.items()
        if told.gives_another(subject, values, known)
    ]


@check("task_in_answer", needs={Need.TASK, Need.ANSWER})
def task_in_answer(case: Case, *, kinds: Kinds) -> Finding:
    """Everything of these kinds (number, date, time, name, identifier, text) that the task names stands in the answer.
    The score is the share. Not applicable where the task names nothing of these kinds."""
    return named_share(case, kinds, Reading(case.answer or "").has, "the answer does not have")
