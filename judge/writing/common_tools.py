"""Which tools good episodes have in common, and which stand for one another.

Above: derived.py. Below: sources.py. A tool that only some of them called is never asked for alone: it is one of
several that serve, or it was not needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from judge.case import Case
from judge.checks.records import atoms_of, whole_record
from judge.checks.sightings import NAMING, gives, is_slight, named_in
from judge.checks.tools import identity
from judge.checks.values import Value, same
from judge.checks.ways import parts_about, stands_beside
from judge.writing.sources import Source


def varied(sources: Sequence[Source]) -> bool:
    """Whether they show more than one way to do it. Where all went the same way, nobody knows what of it was needed."""
    ways = [{(act.written, identity(act.arguments)) for act in source.working} for source in sources]
    return any(not (one <= other or other <= one) for one, other in combinations(ways, 2))


def several_ways(sources: Sequence[Source]) -> bool:
    """Whether they went about it with different tools, and yet all changed something. Those with which they did are
    then taken for all that there are to do it with: what is shared was no habit."""
    tools = {frozenset(act.written for act in source.acts) for source in sources}
    return varied(sources) and len(tools) > 1 and all(source.writes for source in sources)


@dataclass(frozen=True, slots=True)
class Role:
    """What is needed, with the tools of which one is to serve it."""

    tools: tuple[str, ...]
    facts: tuple[str, ...]
    """Facts that it gives; none where it changes something."""


def roles(sources: Sequence[Source], agreed: Sequence[Value], alike: Sequence[frozenset[str]]) -> list[Role]:
    """Needs of every source: tools that gave one of the agreed facts, unless a source did without, and tools that
    changed something where every source did. `alike` are tools that stand for one another."""
    facts: dict[frozenset[str], list[str]] = {}
    for value in agreed:
        giving = [frozenset(act.written for act in source.givers(value)) for source in sources]
        if all(giving):
            facts.setdefault(frozenset[str]().union(*giving), []).append(value.written)
    changed = [frozenset(act.written for act in source.writes) for source in sources]
    every = frozenset[str].intersection(*changed)
    found = [*facts, *(frozenset({tool}) for tool in sorted(every))]
    own = [each - every for each in changed]
    if all(own):
        found.append(frozenset[str]().union(*own))
    # What a smaller set asks for, a larger one does not have to ask again.
    needed = [each for each in dict.fromkeys(found) if not any(other < each for other in found)]
    return [
        Role(tuple(sorted(each.union(*(pair for pair in alike if pair & each)))), tuple(facts.get(each, ())))
        for each in needed
    ]


def givers(sources: Sequence[Source]) -> list[list[str]]:
    """Tools that gave every answer something, whatever it was; as alternatives where sources used different ones."""
    per_source = [
        {act.written for fact in source.facts for act in source.acts if gives(source.case, act, fact)}
        for source in sources
    ]
    every = set[str].intersection(*per_source)
    own = [each - every for each in per_source]
    return [[tool] for tool in sorted(every)] + ([sorted(set[str]().union(*own))] if all(own) else [])


def changing_tools(sources: Sequence[Source], agreed: Sequence[Value]) -> list[list[str]]:
    """Tools of which every answer takes a value, but each another: clocks, generated ids. Each as alternatives."""
    if len(sources) < 2:
        return []
    per_source: list[set[str]] = []
    for source in sources:
        own = [fact for fact in source.facts if not any(same(fact, other) for other in agreed)]
        per_source.append({act.written for fact in own for act in source.acts if gives(source.case, act, fact)})
    return [[tool] for tool in sorted(set[str].intersection(*per_source))]


def origins(sources: Sequence[Source]) -> dict[str, dict[str, list[str]]]:
    """Tools that gave an answer something or changed something, their parameters whose values every source took from
    results or the task, and the servers of those results."""
    found: dict[tuple[str, str], set[str]] = {}
    broken: set[tuple[str, str]] = set()
    for source in sources:
        for act in source.working:
            for name, given in act.arguments.items():
                servers: set[str] = set()
                for atom in atoms_of(whole_record(given)):
                    if source.task.has(atom) or is_slight(atom):
                        continue
                    having = source.servers_before(act, atom)
                    servers |= having
                    if not having:
                        broken.add((act.written, name))
                found.setdefault((act.written, name), set()).update(servers)
    kept: dict[str, dict[str, list[str]]] = {}
    for (tool, name), servers in sorted(found.items()):
        if servers and (tool, name) not in broken:
            kept.setdefault(tool, {})[name] = sorted(servers)
    return kept


def beside_task(sources: Sequence[Source]) -> dict[str, list[str]]:
    """Tools with those of their parameters that every source filled from what stood beside something of its task."""
    found: list[set[tuple[str, str]]] = []
    for source in sources:
        about = parts_about(source.case, named_in(source.case.task or "", NAMING))
        taken: dict[tuple[str, str], bool] = {}
        for act in source.acts:
            for name, given in act.arguments.items():
                atoms = [atom for atom in atoms_of(whole_record(given)) if not is_slight(atom)]
                atoms = [atom for atom in atoms if not source.task.has(atom)]
                if atoms:
                    beside = all(stands_beside(about, act, atom) for atom in atoms)
                    taken[act.written, name] = taken.get((act.written, name), True) and beside
        found.append({key for key, whole in taken.items() if whole})
    kept: dict[str, list[str]] = {}
    for tool, name in sorted(set[tuple[str, str]].intersection(*found)):
        kept.setdefault(tool, []).append(name)
    return kept


def alike_tools(cases: Iterable[Case]) -> list[frozenset[str]]:
    """Pairs of tools of one server that take the same arguments and whose names differ by a word: `read_file` and
    `read_text_file`."""
    known: dict[str, tuple[str, frozenset[str], frozenset[str]]] = {}
    for case in cases:
        for written, each in () if case.catalogue is None else case.catalogue.definitions.items():
            schema = each.definition.get("inputSchema")
            names = schema.get("properties") if isinstance(schema, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            if isinstance(names, dict) and names:
                words = frozenset(each.tool.lower().replace("-", "_").split("_"))
                known[written] = each.server, words, frozenset(map(str, names))  # pyright: ignore[reportUnknownArgumentType]
    listed = sorted(known.items())
    return [
        frozenset({one, other})
        for place, (one, (server, words, names)) in enumerate(listed)
        for other, (other_server, other_words, other_names) in listed[place + 1 :]
        if server == other_server and names == other_names and (words < other_words or other_words < words)
    ]
