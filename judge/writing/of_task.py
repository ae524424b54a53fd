"""What the derived writer asks of one task: facts in the answer, values passed on and put where they belong, tools for
each end with what may take their place.

Above: derived.py. Below: drafting.py, common_values.py, common_tools.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from judge.checks.tools import reads
from judge.checks.values import Value, ValueKind, as_one
from judge.rubric import Category, Criterion
from judge.writing.common_changes import common_changes
from judge.writing.common_choices import common_choices
from judge.writing.common_pairs import common_pairs, labelled_pairs
from judge.writing.common_roles import common_roles
from judge.writing.common_state import common_state
from judge.writing.common_tools import Role, alike_tools, changing_tools, roles, several_ways, varied
from judge.writing.common_values import (
    Group,
    common_facts,
    passed_values,
    read_together,
    signed,
    used_values,
    written_together,
)
from judge.writing.drafting import PA, SHOWN, TA, TF, TG, bounds, draft, said, told_result, worded
from judge.writing.sources import Source

MAX_KNOWN = 50


def of_task(sources: Sequence[Source]) -> list[Criterion]:
    """Drafts, of what all sources agree on."""
    facts = common_facts(sources)
    shown = [fact.written for fact in facts]
    several = varied(sources)
    written = written_together(sources)
    known = sorted({act.written for source in sources for act in source.acts})
    groups, servers = common_state(sources)
    ended: dict[str, Any] = {"state": groups, "shown_by": servers} if groups else {}
    found = _written(written, {**ended, "facts": shown} if groups else {}, sure=several)
    reading = {act.written for source in sources for act in source.acts if reads(source.case, act)}
    reading -= {act.written for source in sources for act in source.writes}
    same_end = {**ended, "facts": shown, "reading": sorted(reading)}
    found += _passed(passed_values(sources), written, {"known": known, **same_end}, sure=several)
    complete = several_ways(sources)
    needs = roles(sources, facts, alike_tools(source.case for source in sources))
    found += _served(needs, written, ended, complete=complete)
    sent = [_enough(group) for group in written if group.enough]
    found += bounds(sources, shown, sent, complete=complete, ended=ended)
    found += told_result(changing_tools(sources, facts))
    found += _paired(common_pairs(sources, facts)) or _labelled(labelled_pairs(sources, facts))
    if any(source.writes for source in sources):
        changed, others = common_changes(sources)
        text = "Nothing else was changed than what belongs to the task."
        found.append(draft("nothing-else", TA, 8, "changes_nothing_else", text, changed=changed, known=others))
    if chosen := common_choices(sources):
        text = f"Of what the task offers, the answer takes {said([right for right, _ in chosen])}."
        found.append(draft("choice", TG, 7, "answer_chooses", text, pairs=chosen))
    if roles_of := common_roles(sources, facts):
        text = f"The answer tells each of these in its own place: {said(roles_of['facts'])}."
        found.append(draft("places", TG, 7, "told_in_place", text, **roles_of))
    if facts:
        text = f"The answer has {said(shown)}."
        found.append(
            draft("facts", TF, 10, "answer_has", text, essential=True, facts=[_ways(sources, fact) for fact in facts])
        )
        text = f"Results have {said(shown)}, which the answer needs."
        found.append(draft("facts-seen", TF, 5, "results_show", text, facts=shown))
    if several and (read := read_together(sources)):
        text = f"What results gave was used with what it belongs to: {_listed(read)}."
        found.append(draft("combined", TG, 6, "arguments_together", text, groups=_values(read)))
    told = list(dict.fromkeys(value.written for source in sources for value in source.measured))
    text = "The answer has no number, date or time but those of the task, of results and of good answers."
    found.append(draft("nothing-new", TG, 6, "answer_adds_nothing", text, known=told[:MAX_KNOWN]))
    found.append(worded(sources, shown))
    if used := used_values(sources):
        text = "Where a tool is called that good episodes called, no other value takes the place of theirs."
        found.append(draft("as-others", PA, 6, "values_not_replaced", text, used=used, facts=shown))
    return found


def _written(groups: Sequence[Group], ended: Mapping[str, Any], *, sure: bool) -> list[Criterion]:
    """What belongs together in changes; apart from that, what of it came from results. Only where the sources show
    several ways is what they share the change itself, and not a habit."""
    if not groups:
        return []
    found = [_made("changes", TF, 9 if sure else 6, "The changes were made", groups, ended, essential=sure)]
    if of_results := [group for group in groups if not group.from_task]:
        text = "What results gave was carried to where it belongs"
        found.append(_made("carried", TG, 7 if sure else 6, text, of_results, ended))
    return found


def _passed(
    single: Sequence[Group], together: Sequence[Group], others: Mapping[str, Any], *, sure: bool
) -> list[Criterion]:
    found: list[Criterion] = []
    if of_task := [group for group in single if group.from_task]:
        text = f"Every part of the task was worked on: {_listed(of_task)}."
        found.append(draft("parts", TF, 8, "arguments_together", text, **_asked(of_task), **others, or_found=not sure))
    groups = [*(group for group in together if group.from_task), *single]
    if groups:
        text = f"The right values were passed on: {_listed(groups)}."
        found.append(draft("arguments", PA, 7 if sure else 6, "arguments_together", text, **_asked(groups), **others))
    return found


def _paired(pairs: Sequence[tuple[str, str]]) -> list[Criterion]:
    if not pairs:
        return []
    shown = ", ".join(f"{subject}: {value}" for subject, value in pairs[:SHOWN])
    text = f"The answer gives each value to what it belongs to: {shown}."
    subjects = list(dict.fromkeys(subject for subject, _ in pairs))
    return [
        draft("pairs", TG, 7, "answer_pairs", text, pairs=[list(pair) for pair in pairs]),
        draft("subjects", TF, 7, "answer_has", f"The answer speaks of {said(subjects)}.", facts=subjects),
    ]


def _ways(sources: Sequence[Source], fact: Value) -> str | list[str]:
    """What the answer may have for it: of a number that was told or seen with either sign, both."""
    below = as_one(f"-{fact.written}") if fact.kind is ValueKind.NUMBER else None
    both = any(source.tells_opposite(fact) or (below and source.met_with(below)) for source in sources)
    return [fact.written, f"-{fact.written}"] if both else fact.written


def _labelled(pairs: Sequence[tuple[str, str]]) -> list[Criterion]:
    if not pairs:
        return []
    shown = ", ".join(f"{label}: {value}" for label, value in pairs[:SHOWN])
    text = f"The answer gives each value as what it is: {shown}."
    return [draft("pairs", TG, 7, "answer_pairs", text, pairs=[list(pair) for pair in pairs])]


def _served(
    needs: Sequence[Role], written: Sequence[Group], ended: Mapping[str, Any], *, complete: bool
) -> list[Criterion]:
    """A tool that changes something may be replaced where what it was sent is known; with half off where the ways are
    `complete`."""
    if not needs:
        return []
    shown = "; ".join(" or ".join(need.tools[:4]) for need in needs[:SHOWN])
    asked: dict[str, Any] = {
        "each_of": [list(need.tools) for need in needs],
        "facts": [list(need.facts) for need in needs],
        "sent": [
            [_enough(group) for group in written if group.enough and group.tools & set(need.tools)] for need in needs
        ],
        **({"complete": True} if complete else {}),
        **ended,
    }
    return [draft("tools", TA, 8, "served", f"These were called, or what serves as well: {shown}.", **asked)]


def _made(
    id: str,
    category: Category,
    weight: int,
    text: str,
    groups: Sequence[Group],
    ended: Mapping[str, Any],
    *,
    essential: bool = False,
) -> Criterion:
    asked: dict[str, Any] = {
        "groups": _values(groups),
        "by": [sorted(group.tools) for group in groups],
        "enough": [_enough(group) for group in groups],
        **ended,
    }
    text = f"{text}: {_listed(groups)}."
    return draft(id, category, weight, "changes_made", text, essential=essential, **asked)


def _asked(groups: Sequence[Group]) -> dict[str, Any]:
    return {"groups": _values(groups), "by": [sorted(group.tools) for group in groups]}


def _values(groups: Sequence[Group]) -> list[list[str]]:
    return [[signed(value) for value in group.values] for group in groups]


def _enough(group: Group) -> list[str]:
    return [signed(value) for value in group.enough]


def _listed(groups: Sequence[Group]) -> str:
    return "; ".join(" with ".join(values) for values in _values(groups)[:SHOWN])
