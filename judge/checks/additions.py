"""What an answer claims beside all that good answers of the same task told: a status, a cause, a deed, a comparison.

Above: wording.py, writing/drafting.py. Below: clauses.py. No checks are here. A part of a sentence that tells none of
their facts has to rest on words of the task, of results, of what tools were sent, or of good answers. What reports are
made of is free, but not where it states something of the world: "it is still open", "that is higher than before".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from judge.case import Case
from judge.checks.clauses import (
    MAX_ANSWER,
    Clause,
    number_seen,
    pieces,
    stemmed,
    stems_of,
    stems_seen,
    words_in,
    words_seen,
)
from judge.checks.evidence import evidence_of
from judge.checks.facts import Told
from judge.checks.once import once_a_case
from judge.checks.report_words import CLAIMING, COURTESY, DEEDS, FAILING, NUMBERS, UNDOING
from judge.checks.units import MEASURES
from judge.checks.values import ValueKind, values_in
from judge.checks.words import clean

NEW = 0.5
"""Share of the words of a part, from which on it adds something."""
SHORTEST = 3
"""Words of a part that claims something; fewer are a heading or an exclamation."""
_PART = re.compile(r"[.!?;:](?=\s)|\n|\s-\s|,\s(?=[a-z])|\s(?=(?:because|due to|owing to)\s)")
_ANNOUNCES = re.compile(r"(?!(?:as|according)\b).*:$", re.IGNORECASE | re.DOTALL)
"""What follows claims; but a source that it names is a claim of its own."""
_UNITS = "|".join(sorted(map(re.escape, MEASURES), key=len, reverse=True))
_UNIT = re.compile(rf"(?<![^\W\d_])(?:{_UNITS})(?![^\W\d_])")
_MEASURED = re.compile(rf"(?<=\d)\s?({_UNITS})(?![^\W_])")
_ORDINAL = re.compile(r"(?<!\w)\d{1,3}(?:st|nd|rd|th)(?!\w)")


def additions(case: Case, known: Sequence[str], facts: Sequence[str | int | float]) -> list[Clause]:
    """Parts of the answer that tell none of `facts` and nothing that the task quotes, and half of whose words are new:
    neither seen nor in `known`, the words of good answers."""
    tools = stems_of(sorted({act.written for act in case.acts}))
    ground = stems_seen(case) | stems_of(known) | plain_stems() | tools
    undone = stemmed("\n".join(sorted(UNDOING)))
    if ground & undone:
        # One word for it is as good as another.
        ground |= undone
    quoted = [value.written for value in values_in(case.task or "") if value.kind is ValueKind.TEXT]
    spelled = {NUMBERS[word] for word in (words_seen(case) | set(known)) & NUMBERS.keys()} | _counted(case)
    parts = [part for part in pieces(case, _PART) if _says_new(case, part, ground, spelled)]
    return [part for part in parts if not any(map(Told(part.text).has, (*facts, *quoted)))]


def claiming_words(texts: Iterable[str]) -> list[str]:
    """Words of reports in these texts that may state something of the world, and units, sorted."""
    shown = [clean(text[:MAX_ANSWER]) for text in texts]
    units = {unit for text in shown for unit in _UNIT.findall(text)}
    return sorted({word for text in shown for word in words_in(text)} & CLAIMING | units)


def strange_units(case: Case, known: Sequence[str]) -> list[str]:
    """Units and currencies right behind a number of the answer, of which neither what was seen nor `known` has any of
    the same measure: `53 kg` where only 53 was told."""
    told = set(_MEASURED.findall(clean((case.answer or "")[:MAX_ANSWER])))
    if not told:
        return []
    texts = [reading.cleaned for reading in evidence_of(case).facts()]
    texts += [evidence_of(case).arguments(act).cleaned for act in case.acts]
    seen = {MEASURES[unit] for text in (*texts, "\n".join(known)) for unit in _UNIT.findall(text)}
    return sorted(unit for unit in told if MEASURES[unit] not in seen)


def _says_new(case: Case, part: Clause, ground: frozenset[str], counted: Collection[float | None]) -> bool:
    """Whether half of what it says is new; a heading and an announcement say nothing."""
    evidence = evidence_of(case)
    readings = evidence.facts()
    ordinals = [each for each in _ORDINAL.findall(part.text) if not any(r.has_text(each) for r in readings)]
    claiming = stemmed(" ".join(word for word in part.tokens if word in CLAIMING))
    words = (claiming | frozenset(part.words)) - stemmed("\n".join(sorted(COURTESY)))
    uncounted = [value for value in part.spelled if value.number not in counted and not number_seen(evidence, value)]
    new = sum(word not in ground for word in words) + len(ordinals) + len(uncounted)
    if not new or new < NEW * (len(words) + len(ordinals) + len(uncounted)):
        return False
    return len(part.tokens) + len(ordinals) >= SHORTEST and not _ANNOUNCES.match(part.text)


@once_a_case
def _counted(case: Case) -> frozenset[float]:
    """What can be counted: calls of a tool, lines of a result with and without a heading, items of the answer."""
    calls = Counter(act.written for act in case.acts)
    lines = {reading.raw.strip().count("\n") for reading in evidence_of(case).facts()}
    answer = (case.answer or "")[:MAX_ANSWER]
    items = {answer.count(mark) for mark in (",", ";", "\n")}
    return frozenset(map(float, {*calls.values(), *lines, *items, *(each + 1 for each in lines | items)}))


def plain_stems() -> frozenset[str]:
    """Stems of what agents may say of any episode: courtesies, what they do, what failed."""
    return stemmed("\n".join(sorted(COURTESY | DEEDS | FAILING)))
