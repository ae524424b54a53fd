"""Whether a number can be computed from numbers that were seen, as far as that is cheap to try and no coincidence.

Above: evidence.py. Below: reading.py. No checks are here. Tried are counts of lines and records; sums, means and ranges
of a column (numbers under one key, or at one place of lines); and sums, differences, products, ratios and shares of two
numbers. Enough numbers give nearly any other so: it counts only where at most `CHANCE` of all
numbers as precise and about as large can be had.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cached_property
from math import isfinite

from judge.checks.reading import Reading
from judge.checks.values import Value, ValueKind

CHANCE = 0.1
CHANCE_OF_PAIRS = 0.35
"""Higher, since agents do compute with two numbers, and even a few of those give many results."""
MAX_OPERANDS = 60
MAX_NUMBERS = 2_000
MAX_OFFSETS = 6
_OFFSET = re.compile(r"[0-9]:[0-9]{2}(?:\.[0-9]{1,9})?([-+])([01][0-9]):?([0-9]{2})(?![0-9])")
_KEY = re.compile(r"[\"']?([A-Za-z_][\w .-]{0,40})[\"']?\s?[:=]\s?[\"']?[$€£]?$")
_KEYS = re.compile(r"[\"']([\w .-]{1,40})[\"']\s?:")


class Arithmetic:
    """What comes of these texts."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings = readings

    def of(self, value: Value, *, chance: float = CHANCE_OF_PAIRS) -> str:
        """How the number or time comes about, in a few words; empty where it cannot be told.

        `chance` is that at which two numbers prove nothing.
        """
        if value.kind is ValueKind.TIME:
            known = self._shifted
            return "a time in another zone" if any(str(form)[:5] in known for form in value.forms) else ""
        number = value.number
        if value.kind is not ValueKind.NUMBER or number is None:
            return ""
        if number in self._counts:
            return "a count"
        slack = max(value.slack, abs(number) * 1e-9)
        unit = 2 * value.slack or 1.0
        if _told(self._sums, abs(number), slack, unit, CHANCE):
            return "a sum, mean or range"
        if _told(self._pairs, abs(number), slack, unit, chance):
            return "computed from two values"
        return "the time between two" if _told(self._spans, number, slack, unit, CHANCE) else ""

    @cached_property
    def _counts(self) -> frozenset[float]:
        return frozenset(float(count) for each in self._readings for count in _counts(each))

    @cached_property
    def _sums(self) -> Sequence[float]:
        return sorted({abs(each) for each in _aggregates(self._readings)})

    @cached_property
    def _spans(self) -> Sequence[float]:
        return sorted(_spans(self._readings))

    @cached_property
    def _shifted(self) -> frozenset[str]:
        """The times that were seen, moved by what lies between two offsets from UTC that were seen."""
        offsets = {
            (-1 if sign == "-" else 1) * (int(hours) * 60 + int(minutes))
            for each in self._readings
            for sign, hours, minutes in _OFFSET.findall(each.cleaned)[:MAX_NUMBERS]
        }
        times = {moment[:5] for each in self._readings for moment in each.moments if ":" in moment}
        if len(offsets) > MAX_OFFSETS or len(times) > MAX_OPERANDS:
            return frozenset()
        shifts = {a - b for a in offsets for b in offsets} - {0}
        minutes = {(int(time[:2]) * 60 + int(time[3:]) + shift) % 1440 for time in times for shift in shifts}
        return frozenset(f"{each // 60:02}:{each % 60:02}" for each in minutes)

    @cached_property
    def _pairs(self) -> Sequence[float]:
        """What any two numbers give, sorted, without doubles."""
        operands = _operands(self._readings)
        found: set[float] = set()
        for place, a in enumerate(operands):
            for b in operands[place:]:
                found.update((a + b, b - a, a * b, a / b, b / a, 100 * a / b, 100 * b / a, 100 * (b - a) / a))
        return sorted(each for each in found if isfinite(each))


def _told(results: Sequence[float], asked: float, slack: float, unit: float, chance: float) -> bool:
    """Whether the number is among sorted results, and not because there are so many of them."""
    place = bisect_left(results, asked - slack)
    if not asked or place == len(results) or results[place] > asked + slack:
        return False
    near = bisect_right(results, asked * 2) - bisect_left(results, asked / 2)
    return near <= chance * max(1.0, asked * 1.5 / unit)


def _counts(reading: Reading) -> frozenset[int]:
    """How many lines there are, with or without a heading, and how often the keys of records come."""
    lines = [line for line in reading.cleaned.splitlines() if line.strip()]
    found = {len(lines), len(lines) - 1} if len(lines) > 1 else set[int]()
    found.update(Counter(line.lstrip()[:6] for line in lines).values())
    found.update(Counter(_KEYS.findall(reading.cleaned)).values())
    return frozenset(found) - {1}


def _aggregates(readings: Sequence[Reading]) -> Iterator[float]:
    merged: dict[str, list[float]] = defaultdict(list)
    for reading in readings:
        for key, numbers in _columns(reading).items():
            if "/" not in key:
                merged[key] += numbers
            yield from _of_column(numbers)
    for numbers in merged.values():
        yield from _of_column(numbers)


def _of_column(numbers: Sequence[float]) -> Iterator[float]:
    if len(numbers) < 2:
        return
    total = sum(numbers)
    if isfinite(total):
        yield total
        yield total / len(numbers)
        yield max(numbers) - min(numbers)


def _columns(reading: Reading) -> dict[str, list[float]]:
    """Numbers under the same key, and at the same place of lines that have as many numbers."""
    columns: dict[str, list[float]] = defaultdict(list)
    text = reading.cleaned
    on_line: list[float] = []
    line_end = -1
    for number, start in reading.plain[:MAX_NUMBERS]:
        key = _KEY.search(text, max(0, start - 50), start)
        if key is not None:
            columns[key.group(1).strip().lower()].append(number)
        if start > line_end:
            _lay(columns, on_line)
            on_line = []
            line_end = text.find("\n", start)
            line_end = len(text) if line_end < 0 else line_end
        on_line.append(number)
    _lay(columns, on_line)
    return columns


def _lay(columns: dict[str, list[float]], on_line: Sequence[float]) -> None:
    for place, number in enumerate(on_line[:20]):
        columns[f"{len(on_line)}/{place}"].append(number)


def _operands(readings: Sequence[Reading]) -> list[float]:
    """All numbers but 0 and 1, where there are not too many of them."""
    found: set[float] = set()
    for reading in readings:
        found.update(abs(number) for number, _ in reading.plain[:MAX_NUMBERS])
        if len(found) > MAX_OPERANDS + 2:
            return []
    return sorted(found - {0.0, 1.0})


def _spans(readings: Sequence[Reading]) -> frozenset[float]:
    """Days between any two dates, and minutes and hours between any two times."""
    days: set[date] = set()
    minutes: set[int] = set()
    for reading in readings:
        for moment in reading.moments:
            if ":" in moment:
                minutes.add(int(moment[:2]) * 60 + int(moment[3:5]))
            elif len(moment) == 10:
                days.update(_day(moment))
    found: set[float] = set()
    if len(days) <= 12:
        for a in days:
            for b in days:
                found.update((abs((a - b).days), abs((a - b).days) + 1))
    if len(minutes) <= 8:
        for a in minutes:
            for b in minutes:
                found.update((abs(a - b), abs(a - b) / 60))
    return frozenset(map(float, found)) - {0.0, 1.0}


def _day(moment: str) -> list[date]:
    try:
        return [date.fromisoformat(moment)]
    except ValueError:
        return []
