"""What fills the place of calls that good episodes made, where another episode went another way.

Above: relations.py, serving.py. Below: parts.py, sightings.py, evidence.py. No checks are here. A tool is judged by
what it is for, not by its name alone: expected values count where another tool gave them, where they follow from what
was given, where another tool was sent them, and where they are read back afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from judge.case import Act, Case
from judge.checks.evidence import evidence_of
from judge.checks.outcome import came
from judge.checks.pairing import MEASURED
from judge.checks.parts import parts_of
from judge.checks.records import Record, passed
from judge.checks.sightings import done, gives
from judge.checks.tools import fits, reads
from judge.checks.values import Value, ValueKind, as_one

MAX_ABOUT = 500
"""Parts of results that are looked through for what stands beside something."""


def sent_elsewhere(case: Case, values: Sequence[Value], tools: Sequence[str]) -> Act | None:
    """A successful call of another tool than `tools` that changes something, and was sent these values together; none
    where there are no values. A call of one of their servers comes before that of another."""
    if not values:
        return None
    others = [
        act
        for act, record in passed(case).all
        if not fits(act, tools) and reads(case, act) is False and all(map(record.has, values))
    ]
    return min(others, key=lambda act: not beside(act, tools), default=None)


def beside(act: Act, tools: Sequence[str]) -> bool:
    """Whether the call is of the same server as one of `tools`."""
    return any(fits(act, [tool.partition(".")[0]]) for tool in tools)


def of_same_path(case: Case, act: Act, values: Sequence[Value], tools: Sequence[str]) -> bool:
    """Whether another tool than `tools` was sent these values, a path among them: which file is meant does not depend
    on who opens it. Not so of the same tool of another server, which has files of its own, nor of another tool of the
    same server, which does something else with it."""
    paths = [value for value in values if "/" in value.written and value.kind not in MEASURED]
    if not paths or beside(act, tools) or act.tool in {name.partition(".")[2] for name in tools}:
        return False
    return any(all(map(record.has, values)) for record in passed(case).of(act))


def needed_beside(case: Case, servers: Sequence[str], facts: Sequence[Value]) -> frozenset[str]:
    """Ids of the calls beside these servers that gave a fact that none of theirs gave. None was needed where not all
    facts came in the end: then they told something else."""
    acts = done(case, ())
    given = {act.id: frozenset(place for place, fact in enumerate(facts) if gives(case, act, fact)) for act in acts}
    given_at_all = frozenset[int]().union(*given.values())
    if not given_at_all or not all(place in given_at_all or came(case, acts, fact) for place, fact in enumerate(facts)):
        return frozenset()
    usual = frozenset[int]().union(*(given[act.id] for act in acts if fits(act, servers)))
    return frozenset(act.id for act in acts if not fits(act, servers) and given[act.id] - usual)


def parts_about(case: Case, named: Sequence[Value]) -> list[tuple[int, Record]]:
    """Parts of results that have one of these, with the place of the call; at most `MAX_ABOUT`."""
    found: list[tuple[int, Record]] = []
    evidence = evidence_of(case)
    for act in done(case, ()):
        if len(found) < MAX_ABOUT and any(map(evidence.reading_of(act).has, named)):
            parts = parts_of(case, act, closely=False)
            found += [(act.place, part) for part in parts if any(map(part.has, named))]
    return found[:MAX_ABOUT]


def stands_beside(about: Sequence[tuple[int, Record]], act: Act, value: Value) -> bool:
    """Whether one of these parts came before the call, and has the value; of what is put together with colons, such as
    a commit and a path, its beginning."""
    head = value.written.partition(":")[0] if value.kind is ValueKind.IDENTIFIER else ""
    ways = [value, as_one(head)] if head and head != value.written else [value]
    return any(place < act.place and any(map(part.has, ways)) for place, part in about)
