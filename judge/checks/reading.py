"""Texts that were seen, indexed so that one can ask whether a value stands in them.

Above: evidence.py, the checks. Below: values.py. A `Reading` is one text; `Seen` is several in the order in which they
came. What is asked for is found by value, not by letters: see `Reading.has`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

from judge.checks.numerals import Form, numerals
from judge.checks.values import MAX_CHARACTERS, Value, ValueKind, same_moment
from judge.checks.words import clean, fold, unescaped, vocabulary

SHORTEST_HASH = 7
"""Characters to which people shorten a hash."""
MAX_SEEN = 300_000
"""Characters of one episode that are looked through; what comes after them counts as not kept."""
_REGIONS = vocabulary("africa america antarctica arctic asia atlantic australia europe indian pacific etc us")
"""First parts of the names of time zones."""
_HEX = re.compile("[0-9a-f]+")
_ANCESTOR = re.compile(r"[~^][~^0-9]{0,9}$")
"""Of a revision: `HEAD~2`, `9f3ab2c^`."""


class Reading:
    """One text, read once, when it is first asked for.

    Args:
        text: As it was seen; JSON as text.
        echoed: What the agent itself had put in: where it stands there, the text is no evidence for it.
    """

    def __init__(self, text: str, *, echoed: Reading | None = None) -> None:
        self.raw = text[:MAX_CHARACTERS]
        self.whole = len(text) <= MAX_CHARACTERS
        self._echoed = echoed

    @cached_property
    def cleaned(self) -> str:
        """With the escapes of JSON undone, as `values.clean` gives it."""
        return clean(unescaped(self.raw))

    @cached_property
    def folded(self) -> str:
        return fold(self.cleaned)

    @cached_property
    def numbers(self) -> frozenset[Form]:
        """Every reading of every number in it."""
        return self._numerals[0]

    @cached_property
    def moments(self) -> frozenset[str]:
        """Dates and times."""
        return self._numerals[1]

    @cached_property
    def plain(self) -> Sequence[tuple[float, int]]:
        """Numbers that stand by themselves, in their likeliest reading, with their places."""
        return [
            (float(each.forms[0]), each.start)
            for each in numerals(self.cleaned)
            if each.kind == "number" and not each.inside and isinstance(each.forms[0], float)
        ]

    @cached_property
    def ordered(self) -> Sequence[float]:
        """The numbers, sorted."""
        return sorted(form for form in self.numbers if isinstance(form, float))

    def has(self, value: Value) -> bool:
        """Whether the value stands in it.

        A number by value, also where this text gives more digits of it than asked for, and where a difference is told
        without its sign; a date or time by what it means; everything else by its letters, as whole words, a path or
        address also in two parts (a folder and what is below it), a time zone by its city.
        """
        if not self._has(value):
            return False
        return self._echoed is None or not self._echoed._has(value)

    def has_text(self, folded: str) -> bool:
        """Whether these words stand in it, not as a part of others."""
        return _stands(self.folded, folded) and (self._echoed is None or not self._echoed.has_text(folded))

    def has_part(self, folded: str) -> bool:
        """As `has_text`; a hash may be shortened."""
        return self.has_text(folded) or (
            len(folded) >= SHORTEST_HASH
            and _HEX.fullmatch(folded) is not None
            and _stands(self.folded, folded, begins=True)
            and (self._echoed is None or not self._echoed.has_part(folded))
        )

    def _has(self, value: Value) -> bool:
        match value.kind:
            case ValueKind.NUMBER:
                return self._has_number(value)
            case ValueKind.DATE | ValueKind.TIME:
                return self._has_moment(value)
            case ValueKind.NAME:
                return _stands(self.folded, str(value.forms[0]))
            case _:
                return self._has_words(str(value.forms[0]))

    def _has_number(self, value: Value) -> bool:
        numbers = self.numbers
        for form in value.forms:
            if form in numbers:
                return True
            if isinstance(form, str):
                if ":" not in form and len(form) >= SHORTEST_HASH and _stands(self.folded, form, begins=True):
                    return True
            elif form > 0 and -form in numbers:
                return True
        return value.slack > 0 and value.number is not None and self._rounds_to(value.number, value.slack)

    def _rounds_to(self, number: float, slack: float) -> bool:
        """Whether one of the numbers has more digits and rounds to this one."""
        ordered = self.ordered
        room = slack * (1 + 1e-9)
        for asked in (number, -number) if number > 0 else (number,):
            place = bisect_left(ordered, asked - room)
            if place < len(ordered) and ordered[place] <= asked + room:
                return True
        return False

    def _has_moment(self, value: Value) -> bool:
        moments = self.moments
        for form in value.forms:
            asked = str(form)
            if asked in moments:
                return True
            if ":" in asked:
                if len(asked) == 5 and any(each.startswith(asked) for each in moments):
                    return True
            elif len(asked) == 7 and asked[0] != "-":
                # A month is seen where one of its days is.
                if any(each.startswith(asked) for each in moments):
                    return True
            elif any(same_moment(asked, each) for each in moments if ":" not in each):
                return True
        return False

    def _has_words(self, asked: str) -> bool:
        folded = self.folded
        if _stands(folded, asked):
            return True
        bare = asked.strip("/%*").removeprefix("./").rstrip("/")
        if len(bare) < 2:
            return False
        if bare != asked and _stands(folded, bare):
            return True
        if "/" in bare:
            region, _, city = bare.partition("/")
            return region in _REGIONS and _stands(folded, city.rpartition("/")[2].replace("_", " "))
        if len(bare) >= SHORTEST_HASH and _HEX.fullmatch(bare):
            return _stands(folded, bare, begins=True)
        if "_" in bare or "-" in bare:
            spaced = bare.replace("_", " ").replace("-", " ")
            return _stands(folded, spaced)
        return False

    @cached_property
    def _numerals(self) -> tuple[frozenset[Form], frozenset[str]]:
        numbers: set[Form] = set()
        moments: set[str] = set()
        cleaned = self.cleaned
        for kind, forms, start, end, _, inside in numerals(cleaned):
            if kind != "number":
                moments.update(map(str, forms))
                if kind == "date" and str(forms[0])[0] != "-":
                    numbers.add(float(str(forms[0])[:4]))
                continue
            if inside and not _by_itself(cleaned, start, end):
                continue
            numbers.update(forms)
            if "," in cleaned[start:end]:
                # `[100,200]` is a list.
                numbers.update(float(part) for part in cleaned[start:end].split(",") if part.isdigit())
        return frozenset(numbers), frozenset(moments)


class Seen:
    """Readings in the order in which they came, each with the step that it is of."""

    def __init__(self) -> None:
        self._places: list[tuple[str, Reading]] = []
        self._of_numbers: list[tuple[str, Reading]] = []
        self._characters = 0
        self.whole = True
        """Whether everything added was short enough to be looked through."""

    def __len__(self) -> int:
        return len(self._places)

    def add(self, text: str | Reading, step_id: str, *, numbers: bool = True) -> None:
        """`step_id` is what `find` says: of a step, or `task`. Without `numbers`, only words are found there."""
        reading = text if isinstance(text, Reading) else Reading(text)
        self._characters += len(reading.raw)
        if self._characters > MAX_SEEN:
            self.whole = False
            return
        self.whole = self.whole and reading.whole
        self._places.append((step_id, reading))
        if numbers:
            self._of_numbers.append((step_id, reading))

    def find(self, value: Value) -> str | None:
        """The first step where it stands; None where it stands nowhere.

        What is put together, a path or a revision with its file, counts where each part stands in one of them.
        """
        for step_id, reading in self._of_numbers if value.kind is ValueKind.NUMBER else self._places:
            if reading.has(value):
                return step_id
        if value.kind in (ValueKind.IDENTIFIER, ValueKind.TEXT):
            return self._in_parts(str(value.forms[0]))
        return None

    def readings(self) -> Sequence[Reading]:
        return [reading for _, reading in self._places]

    def _in_parts(self, asked: str) -> str | None:
        """A path, address or revision (`9f3ab2c:notes.md`, `kiln@1.4.2`) of which each part stands in some text."""
        parts = re.split("[/:@]", asked.strip("/"))
        if not 2 <= len(parts) <= 20 or any(part in ("", "..") for part in parts[1:] if part != ""):
            return None
        where: str | None = None
        for part in parts:
            part = _ANCESTOR.sub("", part)
            if part in ("", ".", "http", "https", "file", "head"):
                continue
            where = next((step_id for step_id, reading in self._places if reading.has_part(part)), None)
            if where is None:
                return None
        return where


def _by_itself(cleaned: str, start: int, end: int) -> bool:
    """Whether a number in a word might be named without the rest: of `ORD-1042`, `v2`, not of `9f3ab2`."""
    if cleaned[end : end + 1].isalnum() or start == 0:
        return False
    return cleaned[start - 1] in "-_" or start == 1 or not cleaned[start - 2].isalnum()


def _stands(text: str, asked: str, *, begins: bool = False) -> bool:
    """Whether `asked` stands in `text` with no letter or digit right before or after it; or `begins` a word there."""
    if not asked:
        return False
    place = text.find(asked)
    size = len(asked)
    while place >= 0:
        before, after = text[place - 1 : place], text[place + size : place + size + 1]
        if not (before.isalnum() and asked[0].isalnum()) and (begins or not (after.isalnum() and asked[-1].isalnum())):
            return True
        place = text.find(asked, place + size)
    return False
