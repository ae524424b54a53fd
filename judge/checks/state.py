"""What a server holds at the end, as far as the agent read it back.

Above: library.py. Below: evidence.py, facts.py, tools.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from judge.case import Act, Case
from judge.checks.base import Finding, check, met, missing, partly, unmet
from judge.checks.evidence import Evidence, evidence_of
from judge.checks.facts import Fact, Facts, Told, listed
from judge.checks.tools import at, chosen, reads, said
from judge.checks.values import same
from judge.verdict import Quote, Why

Names = Annotated[list[str], Field(min_length=1)]
SHOWN = 200
"""Characters of a result that a note quotes."""


@check("read_back")
def read_back(
    case: Case,
    *,
    tools: Names,
    arguments: dict[str, Fact] | None = None,
    contains: Facts | None = None,
    lacks: Facts | None = None,
    equals: Fact | None = None,
    writes: Names | None = None,
    required: bool = False,
) -> Finding:
    """The last result of these tools after the last write shows what the server is to hold.

    `arguments` narrows it to calls with these values, by paths such as `filter.id`. The result has to have all facts of
    `contains` and none of `lacks`, or to be what `equals` says. Writes are the calls of `writes`, or those that by
    their definition or name do more than read; without any, every call of `tools` counts. The score is the share of
    facts that are as they should be. Where nothing was read after the last write, it is not applicable, or,
    where `required` is true, not so. Facts count by value, as in `answer_has`.
    """
    evidence = evidence_of(case)
    act = _last(case, evidence, tools, arguments or {}, writes)
    if act is None:
        note = f"no successful call of {said(tools)} came after the last write"
        return unmet(note) if required else missing(Why.NOT_APPLICABLE, note)
    text = case.text(act.step).partition("\n[structured] ")[0]
    cut = act.id in evidence.cut_steps
    told = Told(text)
    lacking = [fact for fact in contains or () if told.first(fact) is None]
    found = [fact for each in lacks or () if (fact := told.first(each)) is not None]
    count = len(contains or ()) + len(lacks or ()) + (equals is not None)
    if not count:
        return met(f"{act.written} read it back", acts=[act])
    problems: list[str] = []
    if lacking:
        problems.append(f"does not have {listed(lacking)}")
    if found:
        problems.append(f"has {listed(found)}")
    wrong = len(lacking) + len(found)
    if equals is not None and not same(text.strip(), equals):
        wrong += 1
        problems.append(f"is not {equals!r}")
    if cut and (lacking or len(found) < len(lacks or ()) or equals is not None):
        return missing(Why.CUT, f"a part of what {act.written} read back was not kept")
    if not problems:
        return met(f"{act.written} read it back as it should be", acts=[act])
    note = f"what {act.written} read back {' and '.join(problems)}"
    return partly(1 - wrong / count, note, acts=[act], quotes=[Quote(act.id, text[:SHOWN])] if text else [])


def _last(
    case: Case,
    evidence: Evidence,
    tools: Sequence[str],
    arguments: Mapping[str, Fact],
    writes: Sequence[str] | None,
) -> Act | None:
    """The last reading that the facts are looked for in."""
    readings = chosen(case.acts, tools)
    if writes is None:
        of_tools = {act.id for act in readings}
        written = [act for act in case.acts if act.id not in of_tools and reads(case, act) is False]
    else:
        written = chosen(case.acts, writes)
    after = max((act.place for act in written if not evidence.failed(act)), default=-1)
    for act in reversed(readings):
        if act.place <= after:
            return None
        if not evidence.failed(act) and all(_has(act, path, value) for path, value in arguments.items()):
            return act
    return None


def _has(act: Act, path: str, value: Any) -> bool:
    items = at(act.arguments, path)
    return bool(items) and isinstance(items[0], str | int | float) and same(items[0], value)
