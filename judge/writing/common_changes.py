"""By which values the changes of good episodes of one task are told from anything else that was sent.

Above: of_task.py. Below: sources.py, checks' records.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from judge.checks.records import atoms_of
from judge.checks.sightings import is_few
from judge.writing.common_values import signed
from judge.writing.sources import Source

MAX_CHANGED = 100
MAX_KNOWN = 200
SMALL = 10.0
"""Whole numbers below it stand in anything."""


def common_changes(sources: Sequence[Source]) -> tuple[list[str], list[str]]:
    """Values that any source sent in a change and in no other call of its, and all others that any of them sent."""
    changed: dict[str, None] = {}
    known: dict[str, None] = {}
    for source in sources:
        looking = [record for act, record in source.records if act not in source.writes]
        for act, record in source.records:
            for atom in atoms_of(record):
                if is_few(atom):
                    continue
                small = atom.number is not None and abs(atom.number) < SMALL and atom.number.is_integer()
                own = act in source.writes and not small and not any(each.has(atom) for each in looking)
                (changed if own else known)[signed(atom)] = None
    return list(changed)[:MAX_CHANGED], [each for each in known if each not in changed][:MAX_KNOWN]
