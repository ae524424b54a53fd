"""What stands around a value in an answer: the words and other values of its sentence or line, the near ones more.

Above: roles.py, writing/. Below: pairing.py. No checks are here. Two values that are told in each other's place are
found by it even where no name stands beside them: `43 before and 53 now`, `mean 29.8, limit 25`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from math import sqrt

from judge.checks.pairing import Place, Told
from judge.checks.sightings import named_in
from judge.checks.values import Value, ValueKind
from judge.checks.words import vocabulary

Around = Mapping[str, float]
"""Words, case-folded, and other facts as the rubric writes them, behind `FACT`; each with its nearness, 0 to 1."""
FACT = "="
MAX_WORDS = 16
"""Kept of what stands around one fact, the nearest."""
NEAR = 12
"""Characters after which half of the nearness is left."""
MAX_TIMES = 3
"""Times that a fact is told; what is told more often has no place of its own."""
_WORD = re.compile(r"[^\W\d_]{2,40}")
_LIST = re.compile(r"[\s,&/*•·-]{1,6}(?:(?:and|or|und|et|y)\s{1,3})?(?:[\"'`*]{0,2})")
_EMPTY = vocabulary("and the an are is was were in on at for it its with by has have this that which there")


class Surroundings:
    """What stands around each of some facts in one answer, and which of them stand side by side in a list. What the
    task quotes, `over the limit`, is one thing: its words are not looked at."""

    def __init__(self, answer: str, task: str, facts: Sequence[Value]) -> None:
        told = Told(answer)
        self._places = [told.value_places(fact) for fact in facts]
        self._told = told
        words = [(match.group(), match.span()) for match in _WORD.finditer(told.folded)]
        quoted = [place for phrase in named_in(task, [ValueKind.TEXT]) for place in told.subject_places(phrase.written)]
        words = [
            (word, at)
            for word, at in words
            if word not in _EMPTY and not any(start <= at[0] < end for start, end in quoted)
        ]
        self.around: list[Around | None] = [self._around(at, facts, words) for at in range(len(facts))]
        """By fact; None where it is not told, or too often."""
        self.listed = self._listed(facts)
        """Places of the pairs that stand in one list, whose order says nothing."""

    def _around(self, at: int, facts: Sequence[Value], words: Sequence[tuple[str, Place]]) -> Around | None:
        own = self._places[at]
        if not 0 < len(own) <= MAX_TIMES:
            return None
        others = [(f"{FACT}{facts[each].written}", place) for each, found in enumerate(self._places) for place in found]
        found: dict[str, float] = {}
        for place in own:
            start, end = self._told.clause(place)
            for name, there in (*words, *others):
                if start <= there[0] < end and not any(there[0] < last and first < there[1] for first, last in own):
                    apart = max(there[0] - place[1], place[0] - there[1], 0)
                    found[name] = max(found.get(name, 0.0), NEAR / (NEAR + apart))
        nearest = sorted(found.items(), key=lambda each: (-each[1], each[0]))[:MAX_WORDS]
        return {name: round(nearness, 3) for name, nearness in nearest}

    def _listed(self, facts: Sequence[Value]) -> frozenset[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        for kind in {fact.kind for fact in facts}:
            told = sorted(
                (place, at) for at, fact in enumerate(facts) if fact.kind is kind for place in self._places[at]
            )
            row: list[int] = []
            for (one, first), (other, second) in pairwise(told):
                joined = one[1] <= other[0] and _LIST.fullmatch(self._told.folded[one[1] : other[0]])
                row = [*(row or [first]), second] if joined else []
                found |= {(min(pair), max(pair)) for pair in combinations(row, 2)}
        return frozenset(found)


def likeness(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """The cosine of two differences, -1 to 1; 0 where one of them is nothing."""
    sizes = sqrt(sum(each * each for each in one.values()) * sum(each * each for each in other.values()))
    return sum(each * other.get(name, 0.0) for name, each in one.items()) / sizes if sizes else 0.0


def difference(one: int, other: int, around: Sequence[Around | None], written: Sequence[str]) -> dict[str, float]:
    """What stands nearer to the one fact than to the other, and with a minus what stands farther; nothing where one of
    them is not told. That they stand near each other says nothing."""
    first, second = around[one], around[other]
    if first is None or second is None:
        return {}
    names = {**first, **second}.keys() - {f"{FACT}{written[one]}", f"{FACT}{written[other]}"}
    return {name: first.get(name, 0.0) - second.get(name, 0.0) for name in sorted(names)}


def told_apart(
    one: int, other: int, told: Sequence[Sequence[Around | None]], written: Sequence[str]
) -> list[dict[str, float]]:
    """The differences of two facts in each of several answers; none unless all answers tell them apart in the same
    way."""
    found = [difference(one, other, around, written) for around in told]
    if not all(found):
        return []
    alike = all(likeness(first, second) > 0 for first, second in combinations(found, 2))
    return found if alike else []
