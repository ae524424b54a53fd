"""Where the values in the arguments of calls come from.

Above: library.py. Below: grounds.py, evidence.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from judge.case import Act, Case
from judge.checks.base import Finding, check, met, missing, partly, unmet
from judge.checks.evidence import Evidence, evidence_of
from judge.checks.grounds import SEEN, ground, sought
from judge.checks.outcome import found_all
from judge.checks.reading import Reading, Seen
from judge.checks.sightings import gives
from judge.checks.tools import at, chosen, is_cut, reads, said, texts
from judge.checks.values import MAX_TOLD, Value, as_one, values_in
from judge.rubric import Need
from judge.verdict import Why

MAX_CALLS = 300
MAX_VALUES = 1_000
"""Values of an episode that are looked for; the others are taken to be like them."""
PARTLY = 0.5
"""The most that is left where a value has no ground: one made-up value is not made up for by many that are not."""
Names = Annotated[list[str], Field(min_length=1)]


@check("argument_grounded", needs=(Need.TASK,))
def argument_grounded(
    case: Case,
    *,
    tools: Names | None = None,
    parameter: str | None = None,
    known: Sequence[str | int | float] = (),
    facts: Sequence[str | int | float] = (),
) -> Finding:
    """Every value that was sent to a tool comes from the user's task, or from a result that the agent had seen before.

    By value, not by letters: `1,200` is `1200`, `5 March 2026` is `2026-03-05`. Of free text and of statements in a
    query language only the numbers, dates, names, identifiers and quoted words count. Taken as given: what the tool's
    own definition says, 0 and 1, usual numbers of limits and sizes, and what can be computed from values seen. Only
    calls that succeeded are looked at; a wrong guess that failed did nothing. Where an earlier result was not kept
    whole, what has no ground cannot be told.

    The score is 1 where everything has a ground, else half the share of values that have one, of the worst call.
    `tools` and `parameter` narrow it to calls of these tools and to this member of their arguments. `known` is what
    good episodes passed on, however they had worked it out. `facts` is what they found: a call that only reads and was
    answered with one of these asked the right thing, even where nobody sees how the agent knew what to ask; and where
    all of them came and were told, so did the others.
    """
    evidence = evidence_of(case)
    passed = Reading("\n".join(map(str, known)))
    found = [as_one(each) for each in facts]
    ended = found_all(case, found)
    acts = [
        act
        for act in (case.acts if tools is None else chosen(case.acts, tools))
        if not (evidence.failed(act) or (reads(case, act) and (ended or any(gives(case, act, each) for each in found))))
    ]
    judged, worst, hidden, blamed = 0, 1.0, "", list[Act]()
    problems: list[str] = []
    made: list[str] = []
    for act in acts:
        values = sought(evidence, act, parameter)[: MAX_VALUES - judged]
        judged += len(values)
        loose: list[Value] = []
        for value in values:
            grounded = SEEN if known and passed.has(value) else ground(case, evidence, act, value)
            if not grounded:
                loose.append(value)
            elif grounded != SEEN:
                made.append(f"{value.written} is {grounded}")
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


def _named(values: Sequence[Value]) -> str:
    shown = ", ".join(f"{value.written[:60]!r}" for value in values[:3])
    return shown if len(values) <= 3 else f"{shown} and {len(values) - 3} more"
