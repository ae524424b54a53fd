"""Which value an answer gives to which subject, as far as their places in it tell.

Above: relations.py, writing/. Below: values.py. No checks are here. It knows no grammar: values belong to what they
stand near, and a sentence or line that ends between them keeps them apart.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from judge.checks.records import fact as known
from judge.checks.values import Value, ValueKind, same, values_in
from judge.checks.words import clean, fold

Fact = str | int | float
Place = tuple[int, int]
MAX_ANSWER = 20_000
"""Characters that are looked through."""
MEASURED = frozenset({ValueKind.NUMBER, ValueKind.DATE, ValueKind.TIME})
MAX_PLACES = 8
"""Of one value in an answer."""
BREAK, _COMMA = 200, 20
"""What the end of a sentence or line, and a comma, add to the characters between."""
_JOINED = re.compile(r"\W{0,4}(?:(?:and|or|vs|versus|und|et|y)\W{0,4})?")
"""What stands between two things that are listed: `Oslo and Lima`."""
_SHORTENED = frozenset({"vs", "ca", "no", "nr", "st", "dr", "mr", "mrs", "ms", "approx", "resp", "e.g", "i.e"})
"""Words after which a full stop ends no sentence."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A subject and its value, both of which the answer has."""

    subject: str
    value: str
    subject_at: tuple[Place, ...]
    value_at: tuple[Place, ...]


class Told:
    """An answer, with the places of what is in it."""

    def __init__(self, answer: str) -> None:
        self._text = clean(answer[:MAX_ANSWER])
        self.folded = fold(self._text)
        self._values = values_in(self._text)
        marks = enumerate(self._text)
        self._commas = [place for place, mark in marks if mark == ","]
        self._breaks = [place for place, mark in enumerate(self._text) if mark in "\n;" or self._ends(place)]
        self._ends_of = [place for place in self._breaks if self._text[place] != ";"]
        self._rows = _rows(self._text)

    def clause(self, at: Place) -> Place:
        """Where the sentence, the line, or what semicolons part of it, begins and ends that has this."""
        place = bisect_left(self._breaks, at[0])
        start = self._breaks[place - 1] + 1 if place else 0
        return start, self._breaks[place] if place < len(self._breaks) else len(self._text)

    def pair(self, subject: str, fact: Fact) -> Pair | None:
        """None where one of both is not in the answer."""
        value = known(fact)
        subject_at, value_at = self.subject_places(subject), self.value_places(value)
        if not subject_at or not value_at:
            return None
        return Pair(subject, str(fact), subject_at, value_at)

    def subject_places(self, subject: str) -> tuple[Place, ...]:
        """Of its letters; of a path, where it does not stand as a whole, of its last part."""
        asked = fold(clean(subject)).strip()
        found = self._places(asked)
        if not found and "/" in asked:
            found = self._places(asked.rstrip("/").rpartition("/")[2])
        return found

    def value_places(self, value: Value) -> tuple[Place, ...]:
        """In whatever format; of a number with whatever sign: 5 too few is -5."""
        found = tuple((each.start, each.end) for each in self._values if same(each, value) or _opposite(each, value))
        found = found[:MAX_PLACES]
        return found or self._places(str(value.forms[0]))

    def apart_of(self, subject: str, value: Value) -> int:
        """The same of a subject and a value, both of which it has."""
        return self.apart(self.subject_places(subject), self.value_places(value))

    def apart(self, one: Sequence[Place], other: Sequence[Place]) -> int:
        """The least distance of two things, in characters with what lies between counted."""
        return min(self._distance(a, b) for a in one for b in other)

    def exchanged(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Those that would be nearer to each other if their values were exchanged with those of another."""
        meant = {(pair.subject, pair.value) for pair in pairs}
        wrong: dict[Pair, None] = {}
        for one, other in combinations(pairs, 2):
            crossed = {(one.subject, other.value), (other.subject, one.value)}
            if one.subject == other.subject or crossed & meant:
                continue
            order = self.order((one.subject_at, other.subject_at), (one.value_at, other.value_at))
            if order:
                wrong |= dict.fromkeys((one, other) if order < 0 else ())
                continue
            as_meant = self.apart(one.subject_at, one.value_at) + self.apart(other.subject_at, other.value_at)
            if self.apart(one.subject_at, other.value_at) + self.apart(other.subject_at, one.value_at) < as_meant:
                wrong |= dict.fromkeys((one, other))
        return list(wrong)

    def gives_another(self, subject: str, values: Sequence[Value], known: Sequence[Value]) -> bool:
        """Whether its sentences have a number, date or time, but none of these values; what is `known` beside them is
        none that would take their place."""
        kinds = {value.kind for value in values} & MEASURED
        inside: list[Value] = []
        for at in self.subject_places(subject):
            start, end = self.clause(at)
            found = [each for each in self._values if start <= each.start < end]
            inside += [each for each in found if not at[0] <= each.start < at[1]]
        if not kinds or any(same(each, value) or _opposite(each, value) for each in inside for value in values):
            return False
        return any(each.kind in kinds and not any(same(each, other) for other in known) for each in inside)

    def order(self, subjects: Sequence[Sequence[Place]], values: Sequence[Sequence[Place]]) -> int:
        """Of a sentence that lists two subjects and then, or before, their two values: 1 where the first value is in
        the place of the first subject, -1 where it is in that of the second. 0 where no sentence does: then distance
        tells."""
        for one in subjects[0]:
            start, end = self._sentence(one)
            inside = [[at for at in each if start <= at[0] < end] for each in (*subjects, *values)]
            if any(len(each) != 1 for each in inside):
                continue
            other, told = inside[1][0], (inside[2][0], inside[3][0])
            first, last = min(one, other), max(one, other)
            apart = max(told)[1] <= first[0] or min(told)[0] >= last[1]
            # `Oslo, 14:05, Lima, 8:05` is no list of subjects, `Oslo and Lima` is.
            if apart and _JOINED.fullmatch(self.folded[first[1] : last[0]]):
                return 1 if (one < other) == (told[0] < told[1]) else -1
        return 0

    def _sentence(self, at: Place) -> Place:
        place = bisect_left(self._ends_of, at[0])
        start = self._ends_of[place - 1] + 1 if place else 0
        return start, self._ends_of[place] if place < len(self._ends_of) else len(self._text)

    def _places(self, asked: str) -> tuple[Place, ...]:
        found: list[Place] = []
        place = self.folded.find(asked) if asked else -1
        while place >= 0 and len(found) < MAX_PLACES:
            end = place + len(asked)
            before, after = self.folded[place - 1 : place], self.folded[end : end + 1]
            if not (before.isalnum() and asked[0].isalnum()) and not (after.isalnum() and asked[-1].isalnum()):
                found.append((place, end))
            place = self.folded.find(asked, end)
        return tuple(found)

    def _distance(self, one: Place, other: Place) -> int:
        first, second = sorted((one, other))
        start, end = first[1], second[0]
        if end <= start:
            return 0
        if (beside := self._in_column(first, second)) is not None:
            return 1 if beside else end - start + 2 * BREAK
        breaks = bisect_left(self._breaks, end) - bisect_left(self._breaks, start)
        commas = bisect_right(self._commas, end) - bisect_left(self._commas, start)
        return end - start + BREAK * breaks + _COMMA * commas

    def _in_column(self, first: Place, second: Place) -> bool | None:
        """Whether what stands in the head of a table is of the same column as what stands below; None elsewhere."""
        above, below = self._row(first), self._row(second)
        if above is None or below is None or above == below or above[1] != above[0] or above[1] != below[1]:
            return None
        return self._text.count("|", above[0], first[0]) == self._text.count("|", below[0], second[0])

    def _row(self, at: Place) -> Place | None:
        """Where the row of a table begins in which this stands, and where the table begins."""
        place = bisect_right(self._rows, (at[0], len(self._text), 0)) - 1
        if place < 0:
            return None
        start, table, end = self._rows[place]
        return (start, table) if at[0] < end else None

    def _ends(self, place: int) -> bool:
        if self._text[place] not in ".!?" or not self._text[place + 1 : place + 2].isspace():
            return False
        return self.folded[max(0, place - 7) : place].rpartition(" ")[2] not in _SHORTENED


def _opposite(one: Value, other: Value) -> bool:
    return one.number is not None and other.number is not None and one.number == -other.number


def _rows(text: str) -> list[tuple[int, int, int]]:
    """Lines with at least two bars: where each begins, where its table begins, and where it ends."""
    found: list[tuple[int, int, int]] = []
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        if line.count("|") > 1:
            joins = bool(found) and found[-1][2] == start - 1
            found.append((start, found[-1][1] if joins else start, end))
        start = end + 1
    return found
