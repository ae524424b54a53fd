"""Whether a value stands in what was seen, passed on or told, as checks of relations and their writer ask it.

Above: relations.py, serving.py, telling.py, ways.py, writing/. Below: evidence.py, records.py. No checks are here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

from judge.case import Act, Case
from judge.checks.base import Finding, met, missing, partly
from judge.checks.evidence import evidence_of
from judge.checks.reading import Reading
from judge.checks.records import passed
from judge.checks.tools import chosen
from judge.checks.values import Value, ValueKind, values_in
from judge.verdict import Why

MAX_ACTS = 200
"""Whose arguments and results are compared; those after them count as not seen."""
MAX_ANSWER = 20_000
"""Characters of an answer in which hashes are looked for."""
SHORTEST_HASH = 7
"""Of one that an answer gives in short."""
FEW = 3.0
"""Whole numbers up to it are counted without anything being meant by them."""
NAMING = (ValueKind.NAME, ValueKind.IDENTIFIER, ValueKind.TEXT)
"""Kinds of values that tell what a task is about."""
_AROUND = ".,;:!?()[]{}<>\"'`*"


def gives(case: Case, act: Act, value: Value) -> bool:
    """Whether a call was answered with it and had not been sent it."""
    return evidence_of(case).reading_of(act).has(value) and not any(
        record.has(value) for record in passed(case).of(act)
    )


def told_in(answer: str) -> list[Value]:
    """The values of an answer, and hashes given in short, which may look like a number with its unit."""
    found = list(values_in(answer))
    known = {value.forms for value in found}
    for word in dict.fromkeys(word.strip(_AROUND) for word in answer[:MAX_ANSWER].split()):
        if _is_hash(word) and not word.isdigit() and not word.isalpha() and (word,) not in known:
            found.append(Value(kind=ValueKind.IDENTIFIER, forms=(word,), written=word))
    return found


def named_in(text: str, kinds: Collection[str]) -> list[Value]:
    """The different values of these kinds in a task."""
    return list({(value.kind, value.forms): value for value in values_in(text) if value.kind in kinds}.values())


def is_word(value: Value) -> bool:
    """Whether it is a word that names nothing: `daily`, `person`."""
    return value.written.isalpha() and value.written.islower()


def is_few(value: Value) -> bool:
    """Whether it is a whole number from 0 to `FEW`."""
    return value.number is not None and 0 <= value.number <= FEW and value.number.is_integer()


def is_slight(value: Value) -> bool:
    """Whether it says so little that where it comes from says nothing."""
    return is_word(value) or is_few(value)


def done(case: Case, names: Sequence[str]) -> list[Act]:
    """Calls of these tools or servers, or of all where none is named, that succeeded and did not answer an error."""
    evidence = evidence_of(case)
    return [act for act in (chosen(case.acts, names) if names else case.acts) if not evidence.failed(act)][:MAX_ACTS]


def share_of(lacks: str, lacking: Sequence[str], of: int, speaking: Sequence[Act], cut: bool) -> Finding:
    """What `of` things come to of which some are `lacking`; missing where those may stand in what was not kept."""
    if not lacking:
        return met(acts=once(speaking))
    note = f"{lacks} {listed(lacking)}"
    return missing(Why.CUT, note) if cut else partly(1 - len(lacking) / of, note, acts=once(speaking))


@lru_cache(maxsize=256)
def told_once(parameters: str) -> Reading:
    """Of a rubric's parameters, which are the same for many episodes."""
    return Reading(parameters)


def _is_hash(word: str) -> bool:
    return len(word) >= SHORTEST_HASH and all(character in "0123456789abcdef" for character in word)


def once(acts: Sequence[Act]) -> list[Act]:
    """Each call once, in order."""
    return list({act.id: act for act in acts}.values())


def listed(shown: Sequence[str]) -> str:
    """For a note: the first five, shortened, and how many more."""
    short = [each if len(each) <= 60 else f"{each[:60]}…" for each in shown[:5]]
    return ", ".join(short) + (f" and {len(shown) - 5} more" if len(shown) > 5 else "")


def named_share(case: Case, kinds: Collection[str], holds: Callable[[Value], bool], lacks: str) -> Finding:
    """The share of what the task names of these kinds that `holds`; not applicable where it names none."""
    named = named_in(case.task or "", kinds)
    if not named:
        return missing(Why.NOT_APPLICABLE, "the task names nothing of this kind")
    return share_of(lacks, [value.written for value in named if not holds(value)], len(named), (), cut=False)
