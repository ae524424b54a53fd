"""Checks of what was called: the right tools and servers, no others, in a right order, and not more than needed.

Above: library.py, writers of rubrics. Below: base.py, tools.py. Where a parameter names tools, `server.tool` is one
tool and `server` all tools of a server. None of these needs arguments or results, so that they work on episodes logged
without contents, too; where results are there, one that is nothing but an error is no success.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import Field

from judge.case import Act, Case
from judge.checks.base import Finding, check, met, missing, partly, unmet
from judge.checks.tools import chosen, fits, reads, said, succeeded
from judge.verdict import Why

Names = Annotated[Sequence[str], Field(min_length=1)]
Pair = Annotated[Sequence[Names], Field(min_length=2, max_length=2)]


@check("called", contents=False)
def called(case: Case, *, each_of: Annotated[Sequence[Names], Field(min_length=1)], failed: bool = False) -> Finding:
    """Each of these was called with success. `each_of` lists what is needed, each as alternatives of which one will do:
    `[[time.now, clock.read], [mail.send]]` needs a time and a mail. The score is the share that was called. With
    `failed`, a call counts whatever came of it, which is for pitfalls."""
    acts = [act for act in case.acts if failed or succeeded(case, act)]
    found = [chosen(acts, names) for names in each_of]
    lacking = [said(names) for names, some in zip(each_of, found, strict=True) if not some]
    speaking = _once(act for some in found for act in some)
    if not lacking:
        return met(acts=speaking)
    how = "never called" if failed else "never called with success"
    return partly(1 - len(lacking) / len(found), f"{'; '.join(lacking)}: {how}", acts=speaking)


@check("not_called", contents=False)
def not_called(case: Case, *, any_of: Names) -> Finding:
    """None of these tools or servers was called, not even without success."""
    wrong = chosen(case.acts, any_of)
    return unmet(f"{_written(wrong)} called", acts=wrong) if wrong else met()


@check("only_called", contents=False)
def only_called(case: Case, *, any_of: Names, besides_reading: bool = True) -> Finding:
    """No tools or servers but these were called; with `besides_reading`, others may be read from, by tools that say
    (`readOnlyHint`), or whose names say, that they change nothing. The score is the share of calls that were allowed.
    Not applicable where nothing was called."""
    if not case.acts:
        return missing(Why.NOT_APPLICABLE, "no tool was called")
    wrong = [act for act in case.acts if not fits(act, any_of) and not (besides_reading and reads(case, act))]
    if not wrong:
        return met()
    return partly(1 - len(wrong) / len(case.acts), f"{_written(wrong)} called beside {said(any_of)}", acts=wrong)


@check("right_first", contents=False)
def right_first(case: Case, *, any_of: Names) -> Finding:
    """The agent went straight to these tools or servers: the share of calls up to the first success with one of them
    that went there. Not applicable where nothing was called."""
    if not case.acts:
        return missing(Why.NOT_APPLICABLE, "no tool was called")
    there = [fits(act, any_of) for act in case.acts]
    first = next(
        (place for place, act in enumerate(case.acts) if there[place] and succeeded(case, act)), len(there) - 1
    )
    wrong = [act for act in case.acts[: first + 1] if not there[act.place]]
    if not wrong:
        return met()
    return partly(1 - len(wrong) / (first + 1), f"{_written(wrong)} called before {said(any_of)}", acts=wrong)


@check("order", contents=False)
def order(case: Case, *, pairs: Annotated[Sequence[Pair], Field(min_length=1)]) -> Finding:
    """Of each pair, the first was called with success before the second was. `pairs` lists pairs, each side of one as
    alternatives: `[[[shop.find], [shop.buy, shop.order]]]`. The score is the share of pairs in order. A pair whose
    second side was never called with success is left out; where all are, this is not applicable."""
    judged = 0
    wrong: list[str] = []
    acts: list[Act] = []
    done = [act for act in case.acts if succeeded(case, act)]
    for before, after in pairs:
        later = chosen(done, after)
        if not later:
            continue
        judged += 1
        if not any(act.place < later[0].place for act in chosen(done, before)):
            wrong.append(f"{later[0].written} was called without {said(before)} before it")
            acts.append(later[0])
    if not judged:
        return missing(Why.NOT_APPLICABLE, "nothing was called that something has to come before")
    return partly(1 - len(wrong) / judged, "; ".join(wrong), acts=_once(acts))


@check("calls_within", contents=False)
def calls_within(case: Case, *, most: Annotated[int, Field(ge=1)]) -> Finding:
    """At most `most` calls of servers' tools were made. Each call beyond takes off 1/`most`."""
    return _within(len(case.acts), most, "calls")


@check("tokens_within", contents=False)
def tokens_within(case: Case, *, most: Annotated[int, Field(ge=1)]) -> Finding:
    """The agent read and wrote at most `most` tokens by way of the gateway. Falls to 0 at twice as many. Not applicable
    to an episode that is running."""
    ending = case.trajectory.ending
    if ending is None:
        return missing(Why.NOT_APPLICABLE, "the episode had not ended")
    return _within(ending.tokens_seen, most, "tokens")


@check("reveals_used", contents=False)
def reveals_used(case: Case) -> Finding:
    """Tools whose definitions the agent had itself described were then called: the share of them that was. Not
    applicable where it asked for none."""
    told = dict.fromkeys(
        shown.tool for step in case.trajectory.every_step() for shown in step.revealed if shown.how == "definition"
    )
    if not told:
        return missing(Why.NOT_APPLICABLE, "no definition was asked for")
    used = {act.written for act in case.acts}
    idle = [tool for tool in told if tool not in used]
    if not idle:
        return met()
    return partly(1 - len(idle) / len(told), f"{', '.join(idle[:5])} described and not called")


def _within(count: int, most: int, what: str) -> Finding:
    if count <= most:
        return met(f"{count:,} {what}, {most:,} allowed")
    return partly(max(0.0, 1 - (count - most) / most), f"{count:,} {what}, {most:,} allowed")


def _written(acts: Sequence[Act]) -> str:
    names = list(dict.fromkeys(act.written for act in acts))
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _once(acts: Iterable[Act]) -> list[Act]:
    return list({act.id: act for act in acts}.values())
