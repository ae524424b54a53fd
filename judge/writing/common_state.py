"""What good episodes of one task saw of the state that they left behind, when they looked once more at the end.

Above: of_task.py. Below: sources.py, checks' parts.py. Another episode that sees the same has changed the same,
whichever way it went.
"""

from __future__ import annotations

from collections.abc import Sequence

from judge.case import Act
from judge.checks.parts import parts_of
from judge.checks.records import atoms_of
from judge.checks.sightings import is_slight
from judge.checks.tools import reads
from judge.checks.values import Value, same
from judge.writing.common_values import signed
from judge.writing.sources import Source

MAX_STATES = 12
MAX_PARTS = 60
"""Of what one episode saw at the end."""
MAX_ATOMS = 12
"""Of one part."""


def common_state(sources: Sequence[Source]) -> tuple[list[list[str]], list[str]]:
    """Groups of values that all sources saw together after their last change and had not seen together before, and the
    servers that showed them; none where one of them did not look."""
    first, *others = [_after(source) for source in sources]
    found: list[list[Value]] = []
    servers: set[str] = set()
    for act, atoms in first:
        kept, by = atoms, {act.server}
        for other in others:
            both = [(each.server, _both(kept, theirs)) for each, theirs in other]
            server, kept = max(both, key=lambda pair: len(pair[1]), default=("", list[Value]()))
            by.add(server)
        kept = [atom for atom in kept if all(_is_meant(source, atom) for source in sources)]
        if all(map(is_slight, kept)) or any(_seen_before(source, kept) for source in sources):
            continue
        if any(len(_both(kept, each)) == len(kept) for each in found):
            continue
        found = [each for each in found if len(_both(each, kept)) < len(each)]
        found.append(kept)
        servers |= by
    return [[signed(atom) for atom in each] for each in found[:MAX_STATES]], sorted(servers) if found else []


def _after(source: Source) -> list[tuple[Act, list[Value]]]:
    """The parts of results of calls that only read, after the last change; of what a call was not only asked for."""
    last = max((act.place for act in source.writes), default=None)
    if last is None:
        return []
    looked = [act for act in source.acts if act.place > last and reads(source.case, act)]
    found: list[tuple[Act, list[Value]]] = []
    for act in looked:
        for part in parts_of(source.case, act, closely=True)[:MAX_PARTS]:
            atoms = [atom for atom in atoms_of(part)[:MAX_ATOMS] if not source.of_the_hour(atom)]
            found += [(act, atoms)] if atoms else []
    return found[:MAX_PARTS]


def _is_meant(source: Source, atom: Value) -> bool:
    """Whether it is of what the task, the agent or its answer spoke of, and not just there."""
    return source.task.has(atom) or source.passed_on(atom) or source.told(atom)


def _seen_before(source: Source, atoms: Sequence[Value]) -> bool:
    last = max(act.place for act in source.writes)
    return any(
        all(map(part.has, atoms))
        for act in source.acts
        if act.place < last and act not in source.writes
        for part in parts_of(source.case, act, closely=True)[:MAX_PARTS]
    )


def _both(some: Sequence[Value], others: Sequence[Value]) -> list[Value]:
    return [each for each in some if any(same(each, other) for other in others)]
