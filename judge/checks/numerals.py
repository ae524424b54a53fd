"""Finds numbers, dates and times in texts, in linear time.

Above: values.py, which makes values of them, and reading.py, which indexes whole results. Below: units.py. Nothing is
guessed where a text can be read in two ways: every reading becomes a form, and one of them is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import NamedTuple

from judge.checks.units import MONTHS, UNITS, Unit

LONGEST_EXACT = 15
"""Digits that a float keeps; numbers of more are compared digit by digit."""

Form = float | str
"""A number as float, or as text where it has too many digits or a unit; a date as `2026-03-05`, `2026-03` or `--03-05`;
a time as `14:05` or `14:05:33`."""


class Numeral(NamedTuple):
    """One number, date or time with its place."""

    kind: str
    """`number`, `date` or `time`."""
    forms: tuple[Form, ...]
    """The first is the likeliest reading; one of them is enough."""
    start: int
    end: int
    slack: float
    """Half a unit of its last digit: what rounds to it lies so near. 0 of dates and times."""
    inside: bool
    """Of a number: it is a part of a word such as `ORD-1042` or `v2`."""


# A digit comes first in all of them: the engine then skips everything else quickly. Nothing is tried again once it has
# matched (`*+`, `(?>`), so that the time is linear in the text.
_NUMERAL = re.compile(
    r"[0-9](?>"
    r"(?P<ymd>[0-9]{3}([-/.])[0-9]{1,2}\2[0-9]{1,2}(?![0-9]))"
    r"|(?P<ym>[0-9]{3}-[0-9]{2}(?!-?[0-9A-Za-z]))"
    r"|(?P<dmy>[0-9]?([-/.])[0-9]{1,2}\5[0-9]{4}(?![0-9]))"
    r"|(?P<time>[0-9]?:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?(?:[-+][01][0-9]:?[0-9]{2})?)?(?![0-9:])Z?)"
    r"|(?P<dotted>[0-9]{0,9}(?:\.[0-9]{1,9}){2,})"
    r"|(?P<european>[0-9]{0,2}(?:\.[0-9]{3})++,[0-9]{1,9}(?![0-9]))"
    r"|(?P<number>[0-9]*+(?:[,'’_][0-9]{3}(?![0-9]))*+(?:[.,][0-9]++)?+(?:[eE][-+]?[0-9]++(?![0-9A-Za-z]))?+)"
    r")"
)
_AFTER_DAY = re.compile(r"(?:st|nd|rd|th)?\.?[ -](?:of |de )?([A-Za-zÀ-ž]{3,10})\.?(?:,?[ -]([0-9]{4})(?![0-9]))?")
_YEAR = re.compile(r"(?:st|nd|rd|th)?(?:, ?| )([0-9]{4})(?![-0-9:])")
_HALF = re.compile(r"[ ]?([aApP])(?:\.[mM]\b\.?|[mM]\b)")
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b")
_UNIT = re.compile(r"[ -]?([%‰]|[A-Za-zµ°]{1,12})")
_BEFORE_MINUS = frozenset(" \t\n([{:=,\"'`|<>~$€£")


def numerals(text: str) -> Iterator[Numeral]:
    """All of `text` in their order. Numbers that are parts of words come too, and say so."""
    done = 0
    for match in _NUMERAL.finditer(text):
        start, end = match.span()
        if start < done:
            continue
        kind = match.lastgroup
        if kind == "number":
            found = _dated(text, start, end) or _clock(text, start, end) or _number(text, start, end)
            done = found.end
            yield found
        elif kind == "dotted":
            yield Numeral("number", (match.group(),), start, end, 0.0, True)
        elif kind == "european":
            written = match.group().replace(".", "").replace(",", ".")
            yield Numeral("number", (_key(written),), start, end, _slack(written), False)
        else:
            forms = _MOMENTS[kind or ""](match.group())
            if forms and kind == "time":
                found = _clock(text, start, end) or Numeral("time", forms, start, end, 0.0, False)
                done = found.end
                yield found
            elif forms:
                yield Numeral("date", forms, start, end, 0.0, False)
            else:
                yield from _pieces(text, start, end)


def _pieces(text: str, start: int, end: int) -> Iterator[Numeral]:
    """The numbers of what looked like a date or time and is none."""
    for match in re.finditer("[0-9]{1,9}", text[start:end]):
        yield Numeral("number", (_key(match.group()),), start + match.start(), start + match.end(), 0.5, False)


def _ymd(written: str) -> tuple[Form, ...]:
    year, month, day = (int(each) for each in re.split("[-/.]", written))
    return _date(year, month, day)


def _ym(written: str) -> tuple[Form, ...]:
    year, month = int(written[:4]), int(written[5:])
    return (f"{year:04}-{month:02}",) if 1 <= month <= 12 and 1000 <= year < 2200 else ()


def _dmy(written: str) -> tuple[Form, ...]:
    """Both readings of `03/05/2026`."""
    first, second, year = (int(each) for each in re.split("[-/.]", written))
    return tuple(dict.fromkeys((*_date(year, second, first), *_date(year, first, second))))


def _date(year: int, month: int, day: int) -> tuple[Form, ...]:
    return (f"{year:04}-{month:02}-{day:02}",) if 1 <= month <= 12 and 1 <= day <= 31 and year < 3000 else ()


def _time(written: str) -> tuple[Form, ...]:
    hour, minute = int(written.split(":")[0]), int(written.split(":")[1][:2])
    if hour > 24 or minute > 59:
        return ()
    second = written.split(":")[2][:2] if written.count(":") >= 2 else None
    forms = [_hour(hour, minute, second)]
    if 1 <= hour <= 12 and written[1] == ":":
        # `7:05` may be in the evening; `07:05` is not.
        forms.append(_hour((hour + 12) % 24, minute, second))
    return tuple(forms)


def _hour(hour: int, minute: int, second: str | None) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second}" if second else "")


_MOMENTS = {"ymd": _ymd, "ym": _ym, "dmy": _dmy, "time": _time}


def _dated(text: str, start: int, end: int) -> Numeral | None:
    """A date with a month's name on either side of the number; a month where the number is a year."""
    size = end - start
    if size == 3 or size > 4:
        return None
    before = _month_before(text, start)
    if size == 4:
        if before is None:
            return None
        month, began = before
        return Numeral("date", (f"{text[start:end]}-{month:02}",), began, end, 0.0, False)
    if not text[start:end].isdigit() or not 1 <= int(text[start:end]) <= 31:
        return None
    day = int(text[start:end])
    if before is not None:
        month, began = before
        year = _YEAR.match(text, end)
        ordinal = _ORDINAL.match(text, end)
        stop = year.end() if year else ordinal.end() if ordinal else end
        return Numeral("date", _named(year and year.group(1), month, day), began, stop, 0.0, False)
    after = _AFTER_DAY.match(text, end)
    if after is None or (month := MONTHS.get(after.group(1).lower())) is None:
        return None
    return Numeral("date", _named(after.group(2), month, day), start, after.end(), 0.0, False)


def _named(year: str | None, month: int, day: int) -> tuple[Form, ...]:
    return (f"{year}-{month:02}-{day:02}",) if year else (f"--{month:02}-{day:02}",)


def _month_before(text: str, start: int) -> tuple[int, int] | None:
    """The month whose name stands before `start`, and where the name begins."""
    if start < 4 or text[start - 1] not in " -":
        return None
    stop = start - 2 if text[start - 2] in ".," else start - 1
    began = stop
    while began > 0 and stop - began < 10 and text[began - 1].isalpha():
        began -= 1
    month = MONTHS.get(text[began:stop].lower())
    return None if month is None else (month, began)


def _clock(text: str, start: int, end: int) -> Numeral | None:
    """`2:05 PM`, `2 pm`."""
    half = _HALF.match(text, end) if end < len(text) and text[end] in " aApP" else None
    if half is None or end - start > 8:
        return None
    parts = text[start:end].split(":")
    if not all(part.isdigit() for part in parts) or not 1 <= int(parts[0]) <= 12:
        return None
    hour = int(parts[0]) % 12 + (12 if half.group(1) in "pP" else 0)
    minute = int(parts[1]) if len(parts) > 1 else 0
    return Numeral("time", (_hour(hour, minute, parts[2] if len(parts) > 2 else None),), start, half.end(), 0.0, False)


def _number(text: str, start: int, end: int) -> Numeral:
    written = text[start:end]
    inside = _in_word(text, start)
    after = text[end : end + 1]
    if len(written) <= LONGEST_EXACT and written.isdigit() and after not in " -%‰°" and not after.isalpha():
        # Most numbers are of this kind.
        negative = start and text[start - 1] == "-" and (start == 1 or text[start - 2] in _BEFORE_MINUS)
        return Numeral("number", (float(f"-{written}" if negative else written),), start, end, 0.5, inside)
    unit: Unit | None = None
    stop = end
    if end < len(text) and (text[end].isalpha() or text[end] in " -%‰µ°"):
        after = _UNIT.match(text, end)
        known = None if after is None else _unit(after.group(1))
        glued = text[end] not in " -"
        if known is not None and after is not None and not (glued and _goes_on(text, after.end())):
            unit, stop = known, after.end()
        elif glued and not _ORDINAL.match(text, end):
            inside = True
    readings = _readings(written)
    sign = "-" if start and text[start - 1] == "-" and (start == 1 or text[start - 2] in _BEFORE_MINUS) else ""
    forms: list[Form] = [_key(sign + reading) for reading in readings]
    slack = _slack(readings[0])
    if unit is not None and isinstance(forms[0], float):
        value = forms[0]
        for name, factor in unit:
            base = value * factor
            if isfinite(base):
                forms += [rounded(base), f"{name}:{base:.9g}"] if name else []
        if not unit[0][0]:
            # A multiplier such as `1.2k` is part of the number, not what is counted.
            forms = [rounded(value * factor) for _, factor in unit] + forms
            slack *= unit[0][1]
    return Numeral("number", tuple(dict.fromkeys(forms)), start, stop, slack, inside)


def _in_word(text: str, start: int) -> bool:
    """Whether letters stand right before: `ORD-1042`, `v2`, `a1`."""
    if not start:
        return False
    before = text[start - 1]
    return before.isalpha() or before == "_" or (before == "-" and start > 1 and text[start - 2].isalnum())


def _goes_on(text: str, at: int) -> bool:
    return at < len(text) and text[at].isalnum()


def _unit(name: str) -> Unit | None:
    return UNITS.get(name) or UNITS.get(name.lower())


def _readings(written: str) -> list[str]:
    """`1,200` is 1200, and might be 1.2; `12,50` is 12.5."""
    if written.isdigit():
        return [written]
    bare = written.replace("'", ",").replace("’", ",").replace("_", ",")
    if "," not in bare:
        whole, dot, decimals = bare.partition(".")
        if dot and len(decimals) == 3 and 1 <= len(whole) <= 3 and whole != "0":
            return [bare, whole + decimals]
        return [bare]
    groups = bare.split(".")[0].split(",")
    if len(groups) == 2 and "." not in bare and "e" not in bare.lower():
        decimal = f"{groups[0]}.{groups[1]}"
        return [groups[0] + groups[1], decimal] if len(groups[1]) == 3 and groups[0] != "0" else [decimal]
    return [bare.replace(",", "")]


def _key(written: str) -> Form:
    if sum(map(str.isdigit, written)) > LONGEST_EXACT:
        return _long(written)
    value = float(written)
    return rounded(value) if isfinite(value) else written


def _long(written: str) -> Form:
    """As many digits as a float of JSON has are a float; more are compared as they stand."""
    if "." in written and len(written) <= 25:
        return rounded(float(written))
    return written.lstrip("0")


def rounded(value: float) -> float:
    """Without the noise that computing leaves in the last digits."""
    return float(f"{value:.15g}")


def _slack(written: str) -> float:
    mantissa, _, power = written.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    if len(power) > 3 or decimals > 30 or abs(int(power or 0)) > 100:
        return 0.0
    return 0.5 * 10.0 ** (int(power or 0) - decimals)
