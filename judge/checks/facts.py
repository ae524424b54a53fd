"""Facts that a rubric expects, looked for in an answer or a result.

Above: answers.py, state.py. Below: values.py, reading.py. No checks are here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from judge.checks.reading import Reading
from judge.checks.values import MAX_CHARACTERS, Value, ValueKind, as_one, in_text, same_moment

Fact = str | int | float
"""A text, a number, or a date or time as people write it."""
Facts = Annotated[list[Fact | Annotated[list[Fact], Field(min_length=1)]], Field(min_length=1)]
"""Each a fact, or a list of ways to say it, of which one is enough."""
ENOUGH_DIGITS = 2
"""Digits that have to be left of a number for its rounding to tell it."""
_SPELLED = dict(
    zip(
        map(float, range(13)),
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
        strict=True,
    )
)


class Told:
    """A text in which facts are looked for."""

    def __init__(self, text: str) -> None:
        self._reading = Reading(text)
        self._values = in_text(text)
        self._plain = Reading(" ".join(text[:MAX_CHARACTERS].split()))

    def has(self, fact: Fact) -> bool:
        """Whether it is told: a number, date or time by value, also rounded; a text by its words."""
        asked = as_one(fact)
        if asked.kind is ValueKind.NUMBER:
            return not self._reading.numbers.isdisjoint(asked.forms) or self._rounded(asked) or self._spelled(asked)
        if asked.kind in (ValueKind.DATE, ValueKind.TIME):
            return self._reading.has(asked) or any(
                value.kind is asked.kind and any(same_moment(a, b) for a in asked.forms for b in value.forms)
                for value in self._values
            )
        words = str(asked.forms[0])
        return self._plain.has_text(words) or self._reading.has(asked)

    def first(self, alternatives: Fact | Sequence[Fact]) -> Fact | None:
        """The first of these that is told."""
        ways = [alternatives] if isinstance(alternatives, str | int | float) else alternatives
        return next((way for way in ways if self.has(way)), None)

    def _spelled(self, asked: Value) -> bool:
        number = asked.number
        return number in _SPELLED and self._plain.has_text(_SPELLED[number])

    def _rounded(self, asked: Value) -> bool:
        number = asked.number
        if number is None:
            return False
        for value in self._values:
            told = value.number
            digits = sum(map(str.isdigit, value.written.lstrip("0.")))
            if told is not None and digits >= ENOUGH_DIGITS and abs(told - number) <= value.slack * (1 + 1e-9):
                return True
        return False


def listed(facts: Sequence[Fact | list[Fact]]) -> str:
    """For a sentence."""
    return ", ".join(repr(fact[0] if isinstance(fact, list) else fact) for fact in facts)
