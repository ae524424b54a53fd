"""What the agent told its user: whether it said something, what it has to say, and whether results say so too.

Above: library.py. Below: evidence.py, facts.py, repairs.py, saying.py. Names: binding.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from judge.case import Case
from judge.checks.base import Finding, check, met, missing, partly, unmet
from judge.checks.evidence import Evidence, evidence_of
from judge.checks.facts import Facts, Told, listed
from judge.checks.grounding import PARTLY
from judge.checks.grounds import SEEN
from judge.checks.reading import Reading, Seen
from judge.checks.repairs import Failure, failures
from judge.checks.saying import MAX_ANSWER, says_nothing, telling
from judge.checks.sightings import gives
from judge.checks.tools import texts
from judge.checks.values import MAX_TOLD, Value, ValueKind, in_argument
from judge.rubric import Need
from judge.verdict import Quote, Why

MAX_VALUES = 500
"""Values of an answer that are looked at."""
ANSWER = "answer"
"""What a quote names where it stands in the answer."""
_ADMITS = re.compile(
    r"n't\b|\b(?:not|cannot|fail\w*|error\w*|unable|unfortunately|missing|denied"
    r"|refused|rejected|invalid|unavailable|unreachable|impossible|incomplete|problem\w*|trouble"
    r"|nicht|kein\w*|leider|fehl\w*|pas|aucun\w*|erreur|échec|impossible|sin|ningun\w*|falló|errores|non|impossibile)\b",
    re.IGNORECASE,
)
_LIMITS = re.compile(r"\b(?:no|none|never|without|only|except|instead|nor|neither|miss)\b", re.IGNORECASE)
"""Words of any sentence, which admit something where it speaks of the task or of the call."""
_SENTENCE = re.compile(r"(?<=[.!?;])\s|\n")


@check("answer_given", needs=(Need.ANSWER,))
def answer_given(case: Case) -> Finding:
    """The answer says something, however short: "Yes", "Done" and "42" do. Empty, punctuation alone, the task again, an
    announcement of what does not follow ("Here is the answer:", "Let's think step by step.") and a promise to do it
    later say nothing. Whether it has to do with the task is for `answer_to_the_point`."""
    answer = case.answer or ""
    nothing = says_nothing(answer, case.task)
    shown = answer.strip()[:80]
    return unmet(nothing, quotes=[Quote(ANSWER, shown)] if shown else []) if nothing else met()


@check("answer_has", needs=(Need.ANSWER,))
def answer_has(case: Case, *, facts: Facts) -> Finding:
    """The answer tells these facts. The score is the share that it tells.

    Each is a text, a number, a date or a time, or a list of ways to say it. Numbers, dates and times count by value,
    whatever their format, numbers also rounded; names without regard to case, as whole words.
    """
    told = Told(case.answer or "")
    lacking = [fact for fact in facts if told.first(fact) is None]
    if not lacking:
        return met(f"the answer has {listed(facts)}")
    return partly(1 - len(lacking) / len(facts), f"the answer does not have {listed(lacking)}")


@check("answer_lacks", needs=(Need.ANSWER,))
def answer_lacks(case: Case, *, facts: Facts) -> Finding:
    """The answer tells none of these. The score is the share that it does not tell."""
    told = Told(case.answer or "")
    found = [fact for each in facts if (fact := told.first(each)) is not None]
    if not found:
        return met(f"the answer has nothing of {listed(facts)}")
    return partly(1 - len(found) / len(facts), f"the answer has {listed(found)}")


@check("answer_grounded", needs=(Need.ANSWER,))
def answer_grounded(
    case: Case,
    *,
    known: Sequence[str | int | float] = (),
    given: Sequence[str | int | float] = (),
    own: Sequence[str | int | float] = (),
) -> Finding:
    """Every number, date, time, name, identifier and quoted text of the answer comes from a result or from the task.

    By value, not by letters; what can be computed from values seen counts as seen, and so does what the agent had sent
    in a call that succeeded. What stands only in a call that failed does not. Where a result was not kept whole, what
    has no ground cannot be told. The score is 1 where everything has a ground, else half the share that has one. An
    answer that says nothing, as `answer_given` has it, has none. A name among `known`, which good answers told, may be
    known to anybody; a number has to come from somewhere, but for those of `own`, numbers and names that all good
    answers told though no result had them. What is `given`, by results to all good episodes, has to be given here too,
    or to follow from what was: that the agent passed it on itself is no ground for it. Names among it are free where
    something else among it was given, and all that the answer tells of that.
    """
    answer = case.answer or ""
    if nothing := says_nothing(answer, case.task):
        return unmet(nothing)
    evidence = evidence_of(case)
    values = [value for value in evidence.of_answer[:MAX_VALUES] if not _says_little(value)]
    if not values:
        return missing(Why.NOT_APPLICABLE, "the answer has no number, date, name or identifier")
    names, fetched, agreed = (Reading("\n".join(map(str, each))) for each in (known, given, own))
    found = {
        value: _fetched(case, evidence, value) if fetched.has(value) else _ground(case, evidence, value)
        for value in values
    }
    others = [ground for value, ground in found.items() if value.kind is not ValueKind.NAME and fetched.has(value)]
    did_fetch = bool(others) and all(others)
    free = [
        value
        for value in values
        if (agreed.has(value) and value.kind in (ValueKind.NUMBER, ValueKind.NAME))
        or (names.has(value) and value.kind is ValueKind.NAME and (did_fetch or not fetched.has(value)))
    ]
    values = [value for value in values if value not in free] or values[:1]
    grounds = [(value, found[value]) for value in values]
    loose = [value for value, ground in grounds if not ground]
    if not loose and len(answer) > MAX_TOLD:
        return missing(Why.CUT, "the answer is longer than can be looked through")
    if not loose:
        made = ", ".join(f"{value.written} is {ground}" for value, ground in grounds if ground != SEEN)
        note = f"all {len(values)} values of the answer come from results or the task"
        return met(f"{note}; {made[:200]}" if made else note)
    where = f"{_named(loose)} of the answer"
    if evidence.cut_before(None) or not evidence.at_end().whole:
        return missing(Why.CUT, f"{where} may stand in a part of a result that was not kept")
    note = f"{where} {'is' if len(loose) == 1 else 'are'} in no result and not in the task"
    quotes = [Quote(ANSWER, value.written) for value in loose[:3] if value.written in answer]
    return partly(PARTLY * (1 - len(loose) / len(values)), note, quotes=quotes)


@check("failures_admitted", needs=(Need.ANSWER,))
def failures_admitted(case: Case) -> Finding:
    """Where a call failed and was never made good, the answer says that something did not work.

    Told by any word of failing or of not doing (English, German, French, Spanish, Italian), and by words such as "no"
    and "only" in a sentence that shares a word with the task or with the failed call; an agent that says that it
    failed or gave up has admitted it. Where all failures were made good, or none happened, it is not applicable.
    The score is as bad as the failure that was made good least.
    """
    left = [failure for failure in failures(case) if failure.mended < 1.0]
    if not left:
        return missing(Why.NOT_APPLICABLE, "no failure was left as it was")
    ending = case.trajectory.ending
    if ending is not None and ending.outcome in ("failed", "abandoned"):
        return met("the agent said that it did not succeed")
    if word := _admission(case, left):
        return met(f"the answer says {word!r}")
    worst = min(left, key=lambda each: each.mended)
    note = f"a call of {worst.name} failed and was not made good, and the answer does not say so"
    return Finding(score=worst.mended, note=note, steps=(worst.step.id,))


def _admission(case: Case, left: Sequence[Failure]) -> str:
    """The word by which the answer admits one of the failures; empty where it does not."""
    answer = (case.answer or "")[:MAX_ANSWER]
    if (found := _ADMITS.search(answer)) is not None:
        return found.group()
    sent = [failure.step.arguments if failure.step.call is None else failure.step.call.arguments for failure in left]
    about = telling(" ".join([(case.task or "")[:MAX_ANSWER], *texts(sent)])[: 2 * MAX_ANSWER])
    for sentence in _SENTENCE.split(answer):
        if (found := _LIMITS.search(sentence)) is not None and about & telling(sentence):
            return found.group()
    return ""


def _ground(case: Case, evidence: Evidence, value: Value) -> str:
    """`SEEN` where the value was seen or follows from what was, how it was computed, or nothing."""
    seen = evidence.at_end()
    if seen.find(value) is not None:
        return SEEN
    if value.kind in (ValueKind.NUMBER, ValueKind.TIME):
        return evidence.arithmetic(None).of(value)
    return SEEN if _derived(case, seen, value) else ""


def _fetched(case: Case, evidence: Evidence, value: Value) -> str:
    """`_ground`, without what the agent had only sent itself."""
    if any(gives(case, act, value) for act in case.acts) or (evidence.task is not None and evidence.task.has(value)):
        return SEEN
    where = evidence.at_end().find(value)
    if where is None:
        return _ground(case, evidence, value)
    passed = [act for act in case.acts if evidence.arguments(act).has(value)]
    if not passed:
        return SEEN
    return evidence.arithmetic(passed[0]).of(value) if value.kind in (ValueKind.NUMBER, ValueKind.TIME) else ""


def _derived(case: Case, seen: Seen, value: Value) -> bool:
    match value.kind:
        case ValueKind.DATE:
            today = case.trajectory.began_at.date().isoformat()
            return today in value.forms or today[:7] in value.forms
        case ValueKind.NAME:
            readings = seen.readings()
            # `Krols` of `Krol`, `Norwegians` of `Norwegian`.
            return str(value.forms[0]).endswith("s") and any(
                reading.has_text(str(value.forms[0])[:-1]) for reading in readings
            )
        case ValueKind.TEXT | ValueKind.IDENTIFIER if " " in value.written:
            inner = in_argument(value.written)
            return bool(inner) and all(seen.find(each) is not None for each in inner)
        case _:
            return False


def _says_little(value: Value) -> bool:
    if value.kind is ValueKind.NUMBER:
        return value.number in (0.0, 1.0)
    return sum(map(str.isalnum, value.written)) < 2


def _named(values: Sequence[Value]) -> str:
    shown = ", ".join(f"{value.written[:60]!r}" for value in values[:3])
    return shown if len(values) <= 3 else f"{shown} and {len(values) - 3} more"
