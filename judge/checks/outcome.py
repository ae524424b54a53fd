"""Whether an episode came to the same end as good ones of its task, whichever way it went.

Above: serving.py, relations.py, choosing tools by it. Below: parts.py, records.py, tools.py. No checks are here. The
end is what the answer tells and what servers show after the last change; what an agent itself sent to a tool that
echoes it proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from judge.case import Act, Case
from judge.checks.evidence import evidence_of
from judge.checks.facts import Told
from judge.checks.parts import together
from judge.checks.reading import Reading
from judge.checks.records import passed
from judge.checks.sightings import done
from judge.checks.tools import chosen, reads
from judge.checks.values import Value, ValueKind, same

MAX_BACK = 5
"""Calls after the last change, the latest first, whose results are taken apart."""


def shown(case: Case, values: Sequence[Value], servers: Sequence[str] = ()) -> Act | None:
    """A call of one of these servers, or of any, after the last change, that shows these values together, in one part
    of its result. What its result does not have at all may stand in what it was asked: the name of a table. One of them
    has to be what the call was not sent."""
    if not values:
        return None
    evidence = evidence_of(case)
    for act in _looks(case, servers):
        here = list(filter(evidence.reading_of(act).has, values))
        sent = [value for value in values if any(record.has(value) for record in passed(case).of(act))]
        asked = all(value in here or value in sent for value in values)
        if any(value not in sent for value in here) and asked and together(case, act, here, closely=True):
            return act
    return None


def not_there(case: Case, values: Sequence[Value], servers: Sequence[str]) -> bool:
    """Whether the agent itself looked at one of these values after its last change, and did not see them together."""
    evidence = evidence_of(case)
    looks = [
        act
        for act in _looks(case, servers)
        if any(
            evidence.reading_of(act).has(value) or any(record.has(value) for record in passed(case).of(act))
            for value in values
        )
    ]
    return bool(looks) and not any(case.cut(act.step) for act in looks) and shown(case, values, servers) is None


def _looks(case: Case, servers: Sequence[str]) -> list[Act]:
    """Calls of these servers, or of any, after the last change, the latest first."""
    acts = done(case, ())
    last = max((act.place for act in acts if reads(case, act) is False), default=None)
    if last is None:
        return []
    return [act for act in reversed(chosen(acts, servers) if servers else acts) if act.place > last][:MAX_BACK]


def shown_of(case: Case, values: Sequence[Value], state: Sequence[Sequence[Value]], servers: Sequence[str]) -> bool:
    """Whether every group of the state that shares a value with these is shown; not so where none does."""
    own = [group for group in state if any(same(one, other) for one in group for other in values)]
    return all_shown(case, own, servers)


def alike(
    case: Case,
    values: Sequence[Value],
    facts: Sequence[Value],
    state: Sequence[Sequence[Value]],
    servers: Sequence[str],
) -> bool:
    """Whether the whole end is that of good episodes, all facts told and the whole state shown, and something of these
    values was sent in a change at one of the servers that show it: then it was changed in another way."""
    changed = [act for act in done(case, servers) if servers and reads(case, act) is False]
    sent = any(record.has(value) for act in changed for record in passed(case).of(act) for value in values)
    return sent and found_all(case, facts) and all_shown(case, state, servers)


def all_shown(case: Case, state: Sequence[Sequence[Value]], servers: Sequence[str]) -> bool:
    """Whether each of these groups of values is shown; not so where there are none."""
    return bool(state) and all(shown(case, group, servers) is not None for group in state)


def computed(case: Case, value: Value) -> bool:
    """Whether the answer tells it, and it follows from what results gave."""
    return Reading(case.answer or "").has(value) and bool(evidence_of(case).arithmetic(None).of(value))


def came(case: Case, acts: Sequence[Act], fact: Value) -> bool:
    """Whether it stands in what one of these calls gave, or follows from what results gave. A name may be known."""
    evidence = evidence_of(case)
    if any(evidence.reading_of(act).has(fact) for act in acts):
        return True
    named = not any(map(str.isdigit, fact.written)) and fact.kind in (ValueKind.NAME, ValueKind.TEXT)
    return computed(case, fact) or (named and Reading(case.answer or "").has(fact))


def came_all(case: Case, facts: Sequence[Value]) -> bool:
    """Whether all of these stand in a result, or follow from what results gave."""
    acts = done(case, ())
    return all(came(case, acts, fact) for fact in facts)


def told_all(case: Case, facts: Sequence[Value]) -> bool:
    """Whether the answer, where there is one, has all of these, in whatever format: 5 too few is -5."""
    if case.answer is None:
        return True
    told = Told(case.answer)
    return all(told.has(fact.written) or (fact.number is not None and told.has(-fact.number)) for fact in facts)


def found_all(case: Case, facts: Sequence[Value]) -> bool:
    """Whether all of these came and were told; not so where there are none, or no answer."""
    return bool(facts) and case.answer is not None and came_all(case, facts) and told_all(case, facts)
