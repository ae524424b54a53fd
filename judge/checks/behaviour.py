"""Checks of how the agent went about it: whether it repeated itself, left failures behind, or achieved anything.

Above: library.py, the default rubric. Below: base.py, tools.py, repairs.py. None needs the task, though some see more
where it is there.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from judge.case import Act, Case
from judge.checks.base import Finding, check, met, missing, partly, unmet
from judge.checks.repairs import failures
from judge.checks.tools import identity, reads, succeeded, words_of
from judge.verdict import Why

NO_CREDIT = 3
"""Needless repetitions that leave none."""
TRIES = 2
"""Times that a call may be made that fails."""
LOOKING = frozenset({"search_tools", "list_servers", "list_tools", "describe_tools"})
_POLLING = frozenset({"await", "job", "poll", "progress", "queue", "state", "status", "wait", "watch"})
_DIGITS = re.compile(r"\d+")
_GAVE_UP = frozenset({"failed", "abandoned"})


@check("worked", contents=False)
def worked(case: Case) -> Finding:
    """At least one call of a server's tool succeeded, and was not answered with nothing but an error."""
    if any(succeeded(case, act) for act in case.acts):
        return met()
    return unmet("every call failed" if case.acts else "no tool was called", acts=case.acts)


@check("gave_up", contents=False)
def gave_up(case: Case) -> Finding:
    """The agent itself said that it failed, or abandoned the task. For a pitfall, since that it claims success proves
    nothing. Not applicable where it said neither."""
    ending = case.trajectory.ending
    if ending is None or ending.outcome is None:
        return missing(Why.NOT_APPLICABLE, "the agent did not say how it ended")
    return met(f"the agent ended the task as {ending.outcome}") if ending.outcome in _GAVE_UP else unmet("")


@check("no_repeats")
def no_repeats(case: Case) -> Finding:
    """No call did again what an earlier one had done: the same tool with the same arguments, both successful, with the
    same result. A repetition is no mistake where something in between may have changed the answer (a call that is not
    known to only read, or one that failed), or where the answer was in fact another; digits count as a change only for
    tools whose names say that one asks them again (status, progress, job …), so that a clock read twice is a
    repetition. What failed may be tried twice in a row, and not more often. One costs a third, three cost all. Not
    applicable where nothing succeeded."""
    if not any(succeeded(case, act) for act in case.acts):
        return missing(Why.NOT_APPLICABLE, "no call succeeded")
    again = _repeated(case)
    if not again:
        return met()
    names = ", ".join(dict.fromkeys(act.written for act in again[:5]))
    return partly(max(0.0, 1 - len(again) / NO_CREDIT), f"{len(again)} repeated without need: {names}", acts=again)


@check("failed_calls_repaired")
def failed_calls_repaired(case: Case) -> Finding:
    """Every failed call was made good: by a later successful call of the same tool that is not plainly about another
    part of the task, or of another tool with the same values. Reading that failed and was left gets half, where what
    it was about was reached in another way, or was nothing that the task names. The score is that of the worst
    failure. Where the agent ended the task as failed, it hides nothing, and this is so. Not applicable where nothing
    failed."""
    found = failures(case)
    if not found:
        return missing(Why.NOT_APPLICABLE, "no call failed")
    left = [failure for failure in found if failure.mended < 1]
    if not left:
        return met("every failed call was made good")
    ending = case.trajectory.ending
    if ending is not None and ending.outcome in _GAVE_UP:
        return met("calls failed, and the agent says that the task did")
    names = ", ".join(dict.fromkeys(failure.name for failure in left[:5]))
    return Finding(
        score=min(failure.mended for failure in left),
        note=f"failed and not made good: {names}",
        steps=tuple(failure.step.id for failure in left),
    )


@check("no_needless_search", contents=False)
def no_needless_search(case: Case, *, most: Annotated[int, Field(ge=1)] = 10) -> Finding:
    """The agent did not look for tools over and over: no search, listing or description that it had already had, and
    at most `most` of them. Each too many costs a third. Not applicable where it never looked."""
    looks = [step for step in case.trajectory.steps if step.name in LOOKING and step.call is None]
    if not looks:
        return missing(Why.NOT_APPLICABLE, "the agent never looked for tools")
    known: set[object] = set()
    needless: list[str] = []
    for place, step in enumerate(looks, 1):
        asked = (step.name, identity(step.arguments))
        if place > most or (step.arguments is not None and asked in known):
            needless.append(step.id)
        known.add(asked)
    if not needless:
        return met()
    return Finding(
        score=max(0.0, 1 - len(needless) / NO_CREDIT),
        note=f"{len(needless)} of {len(looks)} searches and listings were needless",
        steps=tuple(needless),
    )


def _repeated(case: Case) -> list[Act]:
    again: list[Act] = []
    seen: dict[object, tuple[int, str]] = {}
    failures: dict[object, int] = {}
    since, last_change, last_failed = 0, None, None
    for act in case.acts:
        key = (act.written, identity(act.arguments))
        if not succeeded(case, act):
            # What failed may be tried once more as it is.
            failures[key] = failures.get(key, 0) + 1 if key == last_failed else 1
            again += [act] if failures[key] > TRIES else []
            since, last_change, last_failed = since + 1, None, key
            continue
        last_failed = None
        if reads(case, act) is not True and key != last_change:
            # A change that is made again and again is still one.
            since, last_change = since + 1, key
        result = _result(case, act)
        if seen.get(key) == (since, result):
            again.append(act)
        seen[key] = since, result
    return again


def _result(case: Case, act: Act) -> str:
    text = case.text(act.step)
    return text if _POLLING.intersection(words_of(act.tool)) else _DIGITS.sub("0", text)
