"""Values in what agents and servers wrote: numbers, dates, times, names, identifiers, texts, whatever their format.

    values_in("Paid 1,200.50 EUR on 5 March 2026.")    # a number, a name, a date
    same("1,200.50", 1200.5)                           # True

Above: reading.py, which finds values in what was seen (`Seen`), the checks, writers of rubrics, the model judge. Below:
numerals.py, words.py. No checks are here. Texts come from
strangers: the time is linear in them, and no more than `MAX_CHARACTERS` of one text and `MAX_VALUES` of one thing are
read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, cast

from judge.checks.numerals import Form, Numeral, numerals, rounded
from judge.checks.words import Word, clean, fold, words

MAX_CHARACTERS = 100_000
"""Read of one text."""
MAX_TOLD = 30_000
"""Read of a text from which all values are taken: a task, an answer, an argument."""
MAX_VALUES = 1_000
"""Taken from one argument list, task or answer."""
MAX_DEPTH = 100
"""JSON that is nested deeper is not read below."""
MAX_NODES = 5_000
SHORT = 4
"""Words of an argument that is rather a name than a sentence."""


class ValueKind(StrEnum):
    """What a value is."""

    NUMBER = "number"
    DATE = "date"
    """A day, or a month of a year."""
    TIME = "time"
    NAME = "name"
    """A word that is written as a name."""
    IDENTIFIER = "identifier"
    """A file, address, code, key: what has marks or digits in it."""
    TEXT = "text"
    """Something quoted, or a whole text that is one value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value as somebody wrote it."""

    kind: ValueKind
    forms: tuple[Form, ...]
    """Canonical; the likeliest reading first. Of names, identifiers and texts one folded text."""
    written: str
    place: str = ""
    """Where in a JSON value, as `/rows/0/total`; empty in a plain text."""
    start: int = 0
    """Where in its text, as `clean` gives it."""
    end: int = 0
    slack: float = 0.0
    """Of a number: half a unit of its last digit."""

    @property
    def number(self) -> float | None:
        """Of a number its likeliest reading, as far as a float can hold it."""
        first = self.forms[0]
        return first if self.kind is ValueKind.NUMBER and isinstance(first, float) else None


def values_in(given: Any) -> tuple[Value, ...]:
    """The values of a text or of JSON, in their order.

    A string of JSON that is one number, date, time or word is one value. Of other strings, and of a plain text, the
    numbers, dates, times, quoted texts, identifiers and names count; other words do not.
    """
    if isinstance(given, str):
        return _of_text(given[:MAX_TOLD])
    found: list[Value] = []
    for place, leaf in leaves(given):
        if isinstance(leaf, str):
            found += in_argument(leaf, place)
        elif (value := of_number(leaf, place)) is not None:
            found.append(value)
        if len(found) >= MAX_VALUES:
            break
    return tuple(found[:MAX_VALUES])


@lru_cache(maxsize=16)
def _of_text(text: str) -> tuple[Value, ...]:
    """Remembered, since several checks ask for the values of the same task and answer."""
    return tuple(in_text(text))[:MAX_VALUES]


def leaves(given: Any) -> Iterator[tuple[str, Any]]:
    """Texts, numbers, truth values and nulls of JSON with their places; at most `MAX_NODES`, no deeper than
    `MAX_DEPTH`."""
    waiting: list[tuple[str, int, Any]] = [("", 0, given)]
    nodes = 0
    while waiting and nodes < MAX_NODES:
        place, depth, node = waiting.pop()
        nodes += 1
        below: list[tuple[str, Any]]
        if isinstance(node, Mapping):
            below = [(str(key), item) for key, item in cast("Mapping[Any, Any]", node).items()]
        elif isinstance(node, list | tuple):
            below = [(str(key), item) for key, item in enumerate(cast("list[Any]", node)[:MAX_NODES])]
        else:
            yield place, node
            continue
        if depth < MAX_DEPTH:
            waiting += [(f"{place}/{key}", depth + 1, item) for key, item in reversed(below)]


def of_number(given: Any, place: str = "") -> Value | None:
    """A number of JSON as a value; None of anything else."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    if isinstance(given, float) and not math.isfinite(given):
        return None
    if isinstance(given, int) and abs(given) >= 10**15:
        # Too many digits for a float; Python refuses to write out more than 4,300.
        written = f"{given}" if abs(given) < 10**40 else f"about 2 to the power of {given.bit_length()}"
        return Value(kind=ValueKind.NUMBER, forms=(written.lstrip("-"),), written=written, place=place)
    written = repr(given)
    decimals = len(written.partition(".")[2]) if "e" not in written and not written.endswith(".0") else 0
    return Value(
        kind=ValueKind.NUMBER,
        forms=(rounded(float(given)),),
        written=written,
        place=place,
        slack=0.5 * 10.0**-decimals,
    )


def in_text(text: str, place: str = "", *, alone: bool = False) -> list[Value]:
    """The values of a text that people read, in their order. `alone`: it is no sentence, and may begin with a name."""
    cleaned = clean(text[:MAX_TOLD])
    spoken = words(cleaned, alone=alone)
    taken = bytearray(len(cleaned))
    found: list[Value] = []
    for word in spoken:
        if word.kind != "name":
            found.append(_of_word(word, place))
            # What stands in quotes is looked at as well, but not what is in an identifier.
            if word.kind == "identifier":
                taken[word.start : word.end] = b"\1" * (word.end - word.start)
    for numeral in numerals(cleaned):
        if len(found) >= 2 * MAX_VALUES:
            break
        if taken[numeral.start] and numeral.kind == "number":
            continue
        if numeral.inside or _is_ordinal(cleaned, numeral):
            continue
        found.append(of_numeral(cleaned, numeral, place))
        taken[numeral.start : numeral.end] = b"\1" * (numeral.end - numeral.start)
    found += [_of_word(word, place) for word in spoken if word.kind == "name" and not taken[word.start]]
    found.sort(key=lambda value: value.start)
    return found


def in_argument(text: str, place: str = "") -> list[Value]:
    """The values of a string that stands alone, as an argument does: one, or those of the text."""
    cleaned = clean(text[:MAX_TOLD]).strip()
    if not cleaned:
        return []
    if (whole := _one_numeral(cleaned, place)) is not None:
        return [whole]
    if len(cleaned) <= 200 and not any(map(str.isspace, cleaned)):
        kind = ValueKind.NAME if cleaned.isalpha() else ValueKind.IDENTIFIER
        return [Value(kind=kind, forms=(fold(cleaned),), written=cleaned, place=place, end=len(cleaned))]
    return in_text(text, place, alone=len(cleaned.split()) <= SHORT and cleaned[-1] not in ".!?")


def as_one(given: str | int | float) -> Value:
    """A fact or an argument as one value: a number, date or time where it is one altogether, else a text."""
    if not isinstance(given, str):
        value = of_number(given)
        return value or Value(kind=ValueKind.TEXT, forms=(str(given).casefold(),), written=str(given))
    cleaned = clean(given[:MAX_CHARACTERS]).strip()
    whole = _one_numeral(cleaned, "")
    if whole is not None:
        return whole
    form = _moment(cleaned) or " ".join(fold(cleaned).split())
    return Value(kind=ValueKind.TEXT, forms=(form,), written=cleaned, end=len(cleaned))


def same(first: Any, second: Any) -> bool:
    """Whether two values are the same, whatever their format: texts, numbers or `Value`.

    Numbers by value, dates and times by what they mean (where one has no year or no seconds, these are not compared),
    texts without regard to case, quotes and white space. No rounding: 3.1 is not 3.14.
    """
    if isinstance(first, bool) or isinstance(second, bool) or first is None or second is None:
        one, other = _plain(first), _plain(second)
        return type(one) is type(other) and one == other
    one = first if isinstance(first, Value) else as_one(first)
    other = second if isinstance(second, Value) else as_one(second)
    if ValueKind.NUMBER in (one.kind, other.kind):
        return one.kind is other.kind and _same_number(one, other)
    if one.kind is other.kind and one.kind in (ValueKind.DATE, ValueKind.TIME):
        return any(same_moment(a, b) for a in one.forms for b in other.forms)
    return one.forms[0] == other.forms[0]


def same_moment(first: Form, second: Form) -> bool:
    """Of two dates or two times: equal as far as both say. A month is not a day."""
    a, b = str(first), str(second)
    if ":" in a:
        return a[:5] == b[:5] if len(a) == 5 or len(b) == 5 else a == b
    if a.startswith("--") or b.startswith("--"):
        return len(a) > 4 and len(b) > 4 and a[-5:] == b[-5:] and (len(a) != 7 or a[0] == "-") and b.count("-") > 1
    return a == b


def of_numeral(cleaned: str, numeral: Numeral, place: str = "") -> Value:
    return Value(
        kind=ValueKind(numeral.kind),
        forms=numeral.forms,
        written=cleaned[numeral.start : numeral.end],
        place=place,
        start=numeral.start,
        end=numeral.end,
        slack=numeral.slack,
    )


def _same_number(one: Value, other: Value) -> bool:
    dimensions = [{str(form).partition(":")[0] for form in each.forms if ":" in str(form)} for each in (one, other)]
    if all(dimensions):
        # Both have a unit: 3 km is neither 3 m nor 3 kg.
        return any(":" in str(form) and form in other.forms for form in one.forms)
    return any(form in other.forms for form in one.forms)


def _plain(value: Any) -> Any:
    """Truth values and null as they may be written in a text."""
    if isinstance(value, Value):
        value = value.written
    return {"true": True, "false": False, "null": None, "none": None}.get(str(value).casefold(), value)


def _one_numeral(cleaned: str, place: str) -> Value | None:
    """The number, date or time that the whole text is."""
    if len(cleaned) > 60 or not any(map(str.isdigit, cleaned)):
        return None
    found = list(numerals(cleaned))
    if not found or found[0].inside:
        return None
    first = found[0]
    before = cleaned[: first.start]
    if len(found) == 1 and first.end == len(cleaned) and before in ("", "-", "+", "$", "€", "£"):
        return of_numeral(cleaned, first, place)
    return None


def _moment(cleaned: str) -> str:
    """A date with a time in one form; empty where the text is something else."""
    if not 12 <= len(cleaned) <= 40:
        return ""
    found = list(numerals(cleaned))
    if [each.kind for each in found] != ["date", "time"]:
        return ""
    date, time = found
    between = cleaned[date.end : time.start]
    if date.start or time.end != len(cleaned) or between.strip(" ,T") or len(date.forms) != 1:
        return ""
    hour = str(time.forms[0])
    if len(hour) == 8:
        hour = hour.removesuffix(":00")
    zone = cleaned[time.start : time.end].lstrip("0123456789:., ").upper().replace(":", "").replace("Z", "+0000")
    return f"{date.forms[0]} {hour}{zone if zone[:1] in '+-' else ''}"


def _of_word(word: Word, place: str) -> Value:
    return Value(
        kind=ValueKind(word.kind),
        forms=(fold(word.text),),
        written=word.text,
        place=place,
        start=word.start,
        end=word.end,
    )


def _is_ordinal(cleaned: str, numeral: Numeral) -> bool:
    """Whether it numbers a line: `2. …` or `2) …`."""
    if numeral.kind != "number" or numeral.end - numeral.start > 3:
        return False
    if cleaned[numeral.end : numeral.end + 2] not in (". ", ") "):
        return False
    line = cleaned[max(0, numeral.start - 20) : numeral.start].rpartition("\n")[2]
    return not line.strip(" \t*(#>-") and (numeral.start < 20 or "\n" in cleaned[numeral.start - 20 : numeral.start])
