"""Whether a value that an agent sent to a tool has a ground: it was seen, needs none, or follows from what was seen.

Above: grounding.py. Below: evidence.py, reading.py, tools.py. No checks are here.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

from judge.case import Act, Case
from judge.checks.evidence import Evidence, as_text, of_definition, parameter_of
from judge.checks.reading import Reading, Seen
from judge.checks.tools import at
from judge.checks.values import Value, ValueKind, as_one, in_argument, values_in
from judge.checks.words import vocabulary
from proxy.store.rendering import CODE

SEEN = "seen"
MAX_PATH = 500
"""Characters of a path whose ends are looked for."""
CHANCE = 0.5
"""Higher than in answers: what an agent sends it has often just computed."""
_LIMIT = re.compile(
    r"limit|max|min|count|top|page|offset|depth|size|head|tail|num|lines|timeout|start|end|index|context|retr|results"
    r"|length|per|step|thought|precision|digit|decimal|width|height|level|^n$|^k$",
    re.IGNORECASE,
)
_LIMIT_BEFORE = re.compile(r"(?:limit|offset|top|first|head|tail|interval)\s{0,3}$", re.IGNORECASE)
_USUAL = frozenset(
    map(float, (*range(11), 12, 15, 20, 24, 25, 30, 40, 50, 60, 64, 80, 100, 120, 128, 150, 200, 250, 256, 300, 400))
) | frozenset(map(float, (500, 512, 600, 800, 1_000, 1_024, 2_000, 2_048, 3_600, 4_096, 5_000, 8_192, 10_000)))
_STATEMENT = re.compile(r"\s{0,9}(?:select|insert|update|delete|replace|create|alter|drop|with|pragma|explain)\b", re.I)
_WORDS_OF = re.compile(r"[^\W_]+")
_PLAIN_WORDS = vocabulary(
    "utf-8 utf8 ascii json text csv markdown html xml asc desc head main master origin utc gmt true false none null "
    "local all any en en-us de fr es auto default"
)


def sought(evidence: Evidence, act: Act, parameter: str | None) -> list[Value]:
    """What of the arguments is to be looked for."""
    given = evidence.values(act) if parameter is None else values_in({parameter: at(act.arguments, parameter)})
    found: list[Value] = []
    statement: dict[str, bool] = {}
    for value in given:
        if value.place not in statement:
            statement[value.place] = _is_statement(act, value.place)
        if statement[value.place] and value.kind in (ValueKind.NAME, ValueKind.IDENTIFIER):
            continue
        if not _is_plain(value):
            found.append(value)
    return found


def _is_statement(act: Act, place: str) -> bool:
    """Whether the argument is a statement of a query language: its words are the language's and the table's."""
    items = at(act.arguments, place.removeprefix("/").replace("/", "."))
    return bool(items) and isinstance(items[0], str) and _STATEMENT.match(items[0]) is not None


def _is_plain(value: Value) -> bool:
    """Whether it says nothing that would need a ground."""
    if value.kind is ValueKind.NUMBER:
        number = value.number
        if number is None:
            return False
        return number in (0.0, 1.0, -1.0) or (number in _USUAL and _LIMIT.search(parameter_of(value)) is not None)
    if value.kind in (ValueKind.DATE, ValueKind.TIME):
        return False
    text = str(value.forms[0])
    letters = [character for character in text if character.isalnum()]
    if len(letters) < 2 or text in _PLAIN_WORDS:
        return True
    # A word in lower case that stands alone is a word, not a name: `person`, `daily`.
    return value.kind is ValueKind.NAME and value.written.islower()


def ground(case: Case, evidence: Evidence, act: Act, value: Value) -> str:
    """`SEEN` where the value was seen or needs no ground, how it was computed, or nothing."""
    seen = evidence.before(act)
    if seen.find(value) is not None:
        return SEEN
    if (definition := of_definition(case, act)) is not None and definition.has(value):
        return SEEN
    if act.by_code and not _in_code(evidence, value):
        return "made by the agent's code"
    if value.kind is ValueKind.NUMBER:
        return SEEN if _after_limit(act, value) else evidence.arithmetic(act).of(value, chance=CHANCE)
    return SEEN if _derived(case, evidence, act, value) else ""


def _derived(case: Case, evidence: Evidence, act: Act, value: Value) -> bool:
    """Whether a value that nowhere stands so follows from what was seen."""
    seen = evidence.before(act)
    if _of_seen_parts(value, seen):
        return True
    match value.kind:
        case ValueKind.DATE:
            return _near(case, evidence, value)
        case ValueKind.TIME:
            usual = str(value.forms[0])[:5] in ("00:00", "23:59", "12:00")
            return usual or bool(evidence.arithmetic(act).of(value))
        case ValueKind.TEXT:
            if _of_seen_words(value, seen):
                return True
            # Of quoted words with values in them, those count.
            bare = value.written.strip("%*").rstrip("-")
            inner = in_argument(bare) if " " in bare or bare != value.written else ()
            return bool(inner) and all(seen.find(each) is not None for each in inner)
        case _:
            return _of_seen_words(value, seen)


def _in_code(evidence: Evidence, value: Value) -> bool:
    """Whether the agent wrote the value into code."""
    runs = [entry.step for entry in evidence.entries if entry.step.name == CODE]
    return not runs or any(Reading(as_text(step.arguments)).has(value) for step in runs)


def _after_limit(act: Act, value: Value) -> bool:
    """`LIMIT 10`, `ROUND(total, 2)`."""
    items = at(act.arguments, value.place.removeprefix("/").replace("/", "."))
    if not items or not isinstance(items[0], str) or value.number not in _USUAL:
        return False
    before, after = items[0][: value.start], items[0][value.end : value.end + 1]
    if _LIMIT_BEFORE.search(before[-15:]):
        return True
    return after == ")" and before.rstrip().endswith(",") and "round" in before.lower()


def _near(case: Case, evidence: Evidence, value: Value) -> bool:
    """Whether a date is today, or bounds a month or year that was seen."""
    today = case.trajectory.began_at.date()
    for form in map(str, value.forms):
        if form[:7] == today.isoformat()[:7] and len(form) == 7:
            return True
        try:
            day = date.fromisoformat(form)
        except ValueError:
            continue
        if abs((day - today).days) <= 1:
            return True
        after = day + timedelta(days=1)
        # The first day of a month, the last, and the first after it.
        months = {day.isoformat()[:7]} if day.day == 1 or after.day == 1 else set[str]()
        if day.day == 1:
            months.add((day - timedelta(days=1)).isoformat()[:7])
        for reading in evidence.facts():
            if any(each[:7] in months for each in reading.moments) or (months and float(day.year) in reading.numbers):
                return True
    return False


def _of_seen_words(value: Value, seen: Seen) -> bool:
    """Whether a name that the agent made is put together of words that it saw: `emil_stark`, `harbour-march`."""
    words = _WORDS_OF.findall(str(value.forms[0]))
    if len(words) < 2 or len(words) > 12:
        return False
    if any(word.isdigit() and len(word) < 2 for word in words):
        return False
    readings = seen.readings()
    return all(len(word) > 1 and any(reading.has_text(word) for reading in readings) for word in words)


def _of_seen_parts(value: Value, seen: Seen) -> bool:
    """Whether a whole path ends in one that was seen, or a path follows a commit and both were seen."""
    written = value.written
    if written.startswith("/"):
        tails = [written[place + 1 :] for place, mark in enumerate(written[:MAX_PATH]) if mark == "/"]
        return any("/" in tail and seen.find(as_one(tail)) is not None for tail in tails)
    head, colon, tail = written.partition(":")
    return bool(colon and head and tail) and all(seen.find(as_one(part)) is not None for part in (head, tail))
