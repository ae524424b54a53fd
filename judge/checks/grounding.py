"""Where the values in the arguments of calls come from.

Above: library.py. Below: evidence.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Annotated

from pydantic import Field

from judge.case import Act, Case
from judge.checks.base import Finding, check, met, missing, partly, unmet
from judge.checks.evidence import Evidence, as_text, evidence_of, of_definition, parameter_of
from judge.checks.reading import Reading, Seen
from judge.checks.tools import at, chosen, is_cut, said, texts
from judge.checks.values import MAX_TOLD, Value, ValueKind, as_one, in_argument, values_in
from judge.checks.words import vocabulary
from judge.rubric import Need
from judge.verdict import Why
from proxy.store.rendering import CODE

SEEN = "seen"
MAX_CALLS = 300
MAX_VALUES = 1_000
MAX_PATH = 500
"""Characters of a path whose ends are looked for."""
"""Values of an episode that are looked for; the others are taken to be like them."""
CHANCE = 0.5
"""Higher than in answers: what an agent sends it has often just computed."""
PARTLY = 0.5
"""The most that is left where a value has no ground: one made-up value is not made up for by many that are not."""
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
Names = Annotated[list[str], Field(min_length=1)]


@check("argument_grounded", needs=(Need.TASK,))
def argument_grounded(
    case: Case, *, tools: Names | None = None, parameter: str | None = None, known: Sequence[str | int | float] = ()
) -> Finding:
    """Every value that was sent to a tool comes from the user's task, or from a result that the agent had seen before.

    By value, not by letters: `1,200` is `1200`, `5 March 2026` is `2026-03-05`. Of free text and of statements in a
    query language only the numbers, dates, names, identifiers and quoted words count. Taken as given: what the tool's
    own definition says, 0 and 1, usual numbers of limits and sizes, and what can be computed from values seen. Only
    calls that succeeded are looked at; a wrong guess that failed did nothing. Where an earlier result was not kept
    whole, what has no ground cannot be told.

    The score is 1 where everything has a ground, else half the share of values that have one, of the worst call.
    `tools` and `parameter` narrow it to calls of these tools and to this member of their arguments. `known` is what
    good episodes passed on, however they had worked it out.
    """
    evidence = evidence_of(case)
    passed = Reading("\n".join(map(str, known)))
    acts = [act for act in (case.acts if tools is None else chosen(case.acts, tools)) if not evidence.failed(act)]
    judged, worst, hidden, blamed = 0, 1.0, "", list[Act]()
    problems: list[str] = []
    made: list[str] = []
    for act in acts:
        values = _values(evidence, act, parameter)[: MAX_VALUES - judged]
        judged += len(values)
        loose: list[Value] = []
        for value in values:
            ground = SEEN if known and passed.has(value) else _ground(case, evidence, act, value)
            if not ground:
                loose.append(value)
            elif ground != SEEN:
                made.append(f"{value.written} is {ground}")
        if not loose:
            if any(len(text) > MAX_TOLD for text in texts(act.arguments)):
                hidden = hidden or f"the end of an argument in the call of {act.written}"
            continue
        if evidence.cut_before(act) or not evidence.before(act).whole or is_cut(act.arguments):
            hidden = hidden or f"{_named(loose)} in the call of {act.written}"
            continue
        blamed.append(act)
        worst = min(worst, PARTLY * (1 - len(loose) / len(values)))
        problems.append(f"{_named(loose)} in the call of {act.written}")
    if problems:
        where = "is neither in the task nor in a result seen before"
        return partly(worst, f"{'; '.join(problems[:3])} {where}", acts=blamed)
    if hidden:
        return missing(Why.CUT, f"{hidden} cannot be looked for: not all was kept, or it is too long")
    if not judged:
        return missing(Why.NOT_APPLICABLE, "no call that succeeded had a value to look for")
    note = f"all {judged} values in arguments come from the task or from results seen before"
    return met(f"{note}; {', '.join(made[:3])}" if made else note)


@check("argument_from_task", needs=(Need.TASK,))
def argument_from_task(case: Case, *, tools: Names, parameter: str, required: bool = True) -> Finding:
    """The named argument of every successful call of these tools stands in the user's task.

    The score is the share of such calls. `parameter` is a path such as `filter.city`. Without such a call it is not so,
    or, where `required` is false, not applicable.
    """
    evidence = evidence_of(case)
    assert evidence.task is not None
    return _share(case, evidence, tools, parameter, required, [evidence.task], "in the task")


@check("argument_from_result")
def argument_from_result(case: Case, *, tools: Names, parameter: str, of: Names, required: bool = True) -> Finding:
    """The named argument of every successful call of these tools stands in a result that a tool of `of` gave before.

    The score is the share of such calls. Without such a call it is not so, or, where `required` is false, not
    applicable.
    """
    return _share(case, evidence_of(case), tools, parameter, required, None, f"in an earlier result of {said(of)}", of)


def _share(
    case: Case,
    evidence: Evidence,
    tools: Sequence[str],
    parameter: str,
    required: bool,
    where: Sequence[Reading] | None,
    place: str,
    of: Sequence[str] = (),
) -> Finding:
    acts = [act for act in chosen(case.acts, tools) if not evidence.failed(act)]
    given = [(act, item) for act in acts[:MAX_CALLS] for item in at(act.arguments, parameter)]
    if not given:
        note = f"no successful call of {said(tools)} had {parameter}"
        return unmet(note) if required else missing(Why.NOT_APPLICABLE, note)
    without: list[tuple[Act, Value]] = []
    sources = chosen(case.acts, of) if of else []
    for act, item in given:
        readings = where
        if readings is None:
            before = evidence.steps_before(act)
            readings = [evidence.reading_of(each) for each in sources if each.id in before]
        values = values_in({parameter: item})
        lacking = [value for value in values if not any(reading.has(value) for reading in readings)]
        # A path is one value, though its folder may have been told apart.
        lacking = [value for value in lacking if not _in_parts(value, readings)]
        if lacking:
            without.append((act, lacking[0]))
    if not without:
        return met(f"{parameter} stands {place}, {len(given)} of {len(given)} times", acts=[act for act, _ in given])
    act, value = without[0]
    if where is None and any(each.id in evidence.cut_steps for each in sources):
        return missing(Why.CUT, f"{value.written!r} may stand in a part of a result that was not kept")
    note = f"{parameter} {value.written!r} of {act.written} does not stand {place}"
    return partly(1 - len(without) / len(given), note, acts=[act for act, _ in without])


def _in_parts(value: Value, readings: Sequence[Reading]) -> bool:
    seen = Seen()
    for reading in readings:
        seen.add(reading, "")
    return seen.find(value) is not None


def _values(evidence: Evidence, act: Act, parameter: str | None) -> list[Value]:
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


def _ground(case: Case, evidence: Evidence, act: Act, value: Value) -> str:
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


def _named(values: Sequence[Value]) -> str:
    shown = ", ".join(f"{value.written[:60]!r}" for value in values[:3])
    return shown if len(values) <= 3 else f"{shown} and {len(values) - 3} more"
