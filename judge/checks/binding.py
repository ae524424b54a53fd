"""Which value belongs to which name: whether the result of one call was told, or used, as that of another.

Above: library.py. Below: subjects.py, which tells what each call was about.
"""

from __future__ import annotations

from collections.abc import Sequence

from judge.case import Act, Case
from judge.checks.base import Finding, check, met, missing, partly
from judge.checks.evidence import evidence_of
from judge.checks.grounding import PARTLY
from judge.checks.subjects import Bound, Told
from judge.rubric import Need
from judge.verdict import Why


@check("answer_binds", needs=(Need.ANSWER,))
def answer_binds(case: Case) -> Finding:
    """Where the answer tells a value beside a name, the value comes from the call about that name, not another's.

    Names are those by which calls of one tool differ, and quoted words of the task that only results about one of them
    have. Only values that came from calls about one name alone are judged, sentence by sentence and line by line; a
    sentence is right if its values belong to its names in any usual order (`Oslo: 7`, `7 in Oslo`, `Oslo and Rome: 7
    and 9`). The score is 1 where all sentences are right, else half the share that is. Not applicable where nothing is
    bound so.
    """
    bound = Bound(case, evidence_of(case))
    if len(bound.about) < 2:
        return missing(Why.NOT_APPLICABLE, "no two calls of a tool were about different things")
    judged = 0
    wrong: list[str] = []
    blamed: set[str] = set()
    for names, told_here in bound.segments():
        values = _joined(told_here)
        judged += 1
        if _fits(names, values):
            continue
        told, other = next(
            ((v, n) for v in values if (n := _nearest(names, v)).subject != v.subject), (values[0], names[0])
        )
        wrong.append(f"{told.written!r} is told of {other.written!r} but came from the call about {told.subject!r}")
        blamed.add(told.subject)
    if not judged:
        return missing(Why.NOT_APPLICABLE, "no value of the answer stands beside a name that only one call was about")
    if not wrong:
        return met(f"all {judged} statements about single calls rest on the call that they speak of")
    acts = [act for act in case.acts if bound.owners.get(act.id) in blamed]
    return partly(PARTLY * (1 - len(wrong) / judged), "; ".join(wrong[:3]), acts=acts)


@check("arguments_bind")
def arguments_bind(case: Case) -> Finding:
    """What calls were sent beside a name had not come from the result of a call about another name.

    Names are those of `answer_binds`. A value is judged where results about one name alone had given it before, and the
    task does not have it. Only for tasks that move nothing from one thing to another: in a swap it is asked for. The
    score is 1 where all such values are of their own name, else half the share of calls of which that is true.
    """
    bound = Bound(case, evidence_of(case))
    if len(bound.about) < 2:
        return missing(Why.NOT_APPLICABLE, "no two calls of a tool were about different things")
    wrong: dict[str, tuple[Act, str]] = {}
    for act, subject, value, other in bound.sent_of_others():
        note = f"{value.written!r} was sent for {subject!r} but came from the call about {other!r}"
        wrong.setdefault(act.id, (act, note))
    if not wrong:
        return met(f"what was sent for each of {len(bound.about)} names came from no call about another")
    acts = [act for act, _ in wrong.values()]
    of_name = sum(owner is not None for owner in bound.owners.values()) or 1
    notes = "; ".join(note for _, note in list(wrong.values())[:3])
    return partly(PARTLY * max(0.0, 1 - len(wrong) / of_name), notes, acts=acts)


def _fits(names: Sequence[Told], values: Sequence[Told]) -> bool:
    """Whether the values belong to the names in one of the orders in which people write."""
    if len({name.subject for name in names}) == 1:
        # The others may be told for comparison: the nearest before or after has to be its own.
        subject, start, end = names[0].subject, names[0].start, names[-1].end
        before = [value for value in values if value.end <= start][-1:]
        after = [value for value in values if value.start >= end][:1]
        between = [value for value in values if start <= value.start < end]
        return any(value.subject == subject for value in (*before, *after, *between))
    preceding = [[name for name in names if name.end <= value.start] for value in values]
    following = [[name for name in names if name.start >= value.end] for value in values]
    orders = [[_nearest(names, value) for value in values]]
    if all(preceding):
        orders.append([each[-1] for each in preceding])
    if all(following):
        orders.append([each[0] for each in following])
    once = list({name.subject: name for name in reversed(names)}.values())[::-1]
    if len(values) % len(once) == 0:
        # `Oslo and Rome: 7 and 9`.
        orders.append([once[place % len(once)] for place in range(len(values))])
    return any(all(n.subject == v.subject for n, v in zip(order, values, strict=True)) for order in orders)


def _nearest(names: Sequence[Told], value: Told) -> Told:
    return min(names, key=lambda name: value.start - name.end if name.end <= value.start else name.start - value.end)


def _joined(told: Sequence[Told]) -> list[Told]:
    """In order; words of one subject that stand side by side are one value, such as a first name and a last name."""
    found: list[Told] = []
    for each in told:
        if found and found[-1].subject == each.subject and 0 <= each.start - found[-1].end <= 1:
            last = found.pop()
            each = Told(each.subject, f"{last.written} {each.written}", last.start, each.end)
        found.append(each)
    return found
