"""Which values good episodes of one task, or of one family, have in common: told, passed on, or passed on together.

Above: derived.py. Below: sources.py. What only one of them has is chance, a habit, or the time of day, and is never
asked of another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from judge.case import Act
from judge.checks.reading import Reading
from judge.checks.records import atoms_of, whole_record
from judge.checks.sightings import is_few, named_in
from judge.checks.values import Value, ValueKind, same, values_in
from judge.writing.sources import Source

MAX_FACTS = 30
MAX_GROUPS = 12
MAX_USED = 20
MAX_SENT = 200
_MEASURED = (ValueKind.NUMBER, ValueKind.DATE, ValueKind.TIME)


@dataclass(frozen=True, slots=True)
class Group:
    """Values that belong together in one call's arguments."""

    values: tuple[Value, ...]
    tools: frozenset[str]
    from_task: bool
    """Whether the task gives all of them."""
    enough: tuple[Value, ...]
    """Those without which the purpose is missed, where another tool is used."""


def common_facts(sources: Sequence[Source]) -> list[Value]:
    """Facts of any source that stand in all answers, in whatever format: another may have computed them. Not the day or
    the time at which the answers were given."""
    found: list[Value] = []
    for fact in (fact for source in sources for fact in source.facts):
        if any(same(fact, other) for other in found) or all(source.of_the_hour(fact) for source in sources):
            continue
        if all(source.tells(fact) or source.tells_opposite(fact) for source in sources):
            found.append(fact)
    return found[:MAX_FACTS]


def given_facts(sources: Sequence[Source]) -> list[Value]:
    """Those of the common facts that results gave to every source before it had passed them on itself."""
    return [fact for fact in common_facts(sources) if all(source.was_given(fact) for source in sources)]


def own_values(sources: Sequence[Source]) -> list[Value]:
    """Numbers and names in which all answers agree and that neither a result nor the task gave any source: it computed
    the ones, and knew the others."""
    found: list[Value] = []
    for value in values_in(sources[0].case.answer or ""):
        if value.kind not in (ValueKind.NUMBER, ValueKind.NAME) or is_few(value) or any(same(value, e) for e in found):
            continue
        if all(source.tells(value) and not (source.task.has(value) or source.givers(value)) for source in sources):
            found.append(value)
    return found[:MAX_FACTS]


def passed_values(sources: Sequence[Source]) -> list[Group]:
    """Single values that every source passed on."""
    return _groups(sources, lambda source, act: True, alone=True)


def written_together(sources: Sequence[Source]) -> list[Group]:
    """Values that every source passed on together in calls that change something."""
    return _groups(sources, lambda source, act: act in source.writes)


def read_together(sources: Sequence[Source]) -> list[Group]:
    """Values that every source passed on together in calls that change nothing, some of which results had given: an
    amount with its price."""
    found = _groups(sources, lambda source, act: act not in source.writes)
    return [group for group in found if not group.from_task]


def _groups(sources: Sequence[Source], chosen: Callable[[Source, Act], bool], *, alone: bool = False) -> list[Group]:
    """What records of chosen calls of all sources share: with `alone` each value for itself, else two or more. Each
    source comes first once, for a value may stand alone in one and within a longer one in another."""
    found: list[Group] = []
    for place, first in enumerate(sources):
        others = [*sources[:place], *sources[place + 1 :]]
        for act, record in first.records:
            if not chosen(first, act):
                continue
            atoms = [atom for atom in atoms_of(record) if first.has_ground(act, atom)]
            if alone:
                atoms = [atom for atom in atoms if first.task.has(atom) or not is_few(atom)]
            for some in [[atom] for atom in atoms] if alone else [atoms]:
                group = _shared(first, act, some, others, chosen)
                if len(group.values) < (1 if alone else 2) or any(_within(group.values, each.values) for each in found):
                    continue
                found = [each for each in found if not _within(each.values, group.values)]
                found.append(group)
    return found[:MAX_GROUPS]


def common_kinds(sources: Sequence[Source], holds: Callable[[Source, Value], bool]) -> list[str]:
    """Kinds of values that every task names, and of which `holds` is so of all that any of them names."""
    found: list[str] = []
    for kind in ValueKind:
        named = [named_in(source.case.task or "", [kind]) for source in sources]
        if all(named) and all(
            holds(source, value) for source, values in zip(sources, named, strict=True) for value in values
        ):
            found.append(kind.value)
    return found


def used_values(sources: Sequence[Source]) -> dict[str, dict[str, list[list[str]]]]:
    """Tools, their parameters, and for each source that used them the values that it passed there and had from the task
    or from results."""
    used: dict[str, dict[str, list[list[str]]]] = {}
    for source in sources:
        own: dict[tuple[str, str], list[Value]] = {}
        for act in source.acts:
            for name, given in act.arguments.items():
                known = own.setdefault((act.written, name), [])
                atoms = [atom for atom in atoms_of(whole_record(given)) if source.has_ground(act, atom)]
                atoms = [atom for atom in atoms if not is_few(atom)]
                known += [atom for atom in atoms if not any(same(atom, other) for other in known)]
        for (tool, name), values in own.items():
            written = [value.written for value in values[:MAX_USED]]
            ways = used.setdefault(tool, {}).setdefault(name, [])
            if written not in ways:
                ways.append(written)
    filled = {tool: {name: ways for name, ways in each.items() if all(ways)} for tool, each in used.items()}
    return {tool: by_name for tool, by_name in filled.items() if by_name}


def sent_values(sources: Sequence[Source]) -> list[str]:
    """What every source passed on and that has a digit: they agree on it, however they came by it."""
    first, *others = sources
    found: dict[str, None] = {}
    for _, record in first.records:
        for atom in atoms_of(record):
            if any(map(str.isdigit, atom.written)) and all(source.passed_on(atom) for source in others):
                found[signed(atom)] = None
    return list(found)[:MAX_SENT]


def signed(value: Value) -> str:
    """As a rubric says it: with the sign of a number, which is not of its letters."""
    below = value.kind is ValueKind.NUMBER and value.number is not None and value.number < 0
    return f"-{value.written}" if below and not value.written.startswith("-") else value.written


def task_arguments(sources: Sequence[Source]) -> list[tuple[str, str]]:
    """Tools with those of their parameters whose values every source took from its task."""
    found: list[set[tuple[str, str]]] = []
    for source in sources:
        taken: dict[tuple[str, str], bool] = {}
        for act in source.acts:
            for name, given in act.arguments.items():
                values = values_in({name: given})
                whole = bool(values) and all(source.task.has(value) for value in values)
                taken[act.written, name] = taken.get((act.written, name), True) and whole
        found.append({key for key, whole in taken.items() if whole})
    return sorted(set[tuple[str, str]].intersection(*found))[:MAX_GROUPS]


def _shared(
    first: Source, act: Act, values: Sequence[Value], others: Sequence[Source], chosen: Callable[[Source, Act], bool]
) -> Group:
    """Those of `values` that one record of every other source has, too."""
    kept, tools = list(values), {act.written}
    for source in others:
        kept, tool = _best(source, kept, tools, chosen)
        tools |= tool
    return Group(tuple(kept), frozenset(tools), all(first.task.has(value) for value in kept), _enough(first, kept))


def _enough(source: Source, values: Sequence[Value]) -> tuple[Value, ...]:
    """What the task gives, and unless it gives what is to be there (a number, a day), the facts that are carried."""
    asked = [value for value in values if source.task.has(value)]
    if any(value.kind in _MEASURED for value in asked):
        return tuple(asked)
    others = Reading("\n".join(value.written for value in values if not source.task.has(value)))
    return (*asked, *(fact for fact in source.facts if others.has(fact)))


def _best(
    source: Source, wanted: Sequence[Value], tools: Collection[str], chosen: Callable[[Source, Act], bool]
) -> tuple[list[Value], set[str]]:
    """The most of `wanted` that one record of this source has, with the tool; of as good ones that of the same tool."""
    best: tuple[int, bool] = (0, False)
    found: tuple[list[Value], set[str]] = ([], set())
    for act, record in source.records:
        if chosen(source, act):
            kept = [value for value in wanted if record.has(value)]
            if (len(kept), act.written in tools) > best and kept:
                best, found = (len(kept), act.written in tools), (kept, {act.written})
    return found


def _within(some: Sequence[Value], others: Sequence[Value]) -> bool:
    return all(any(same(one, other) for other in others) for one in some)
