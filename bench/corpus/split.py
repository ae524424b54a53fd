"""Which tasks and kinds are set aside, by the rule of docs/decisions/0023: hashes choose, nobody does.

Whole families were added when what was set aside had been looked at. They are a part of their own, and change nothing
in the split of the tasks before them. Above: running.py, which writes it into the manifest, and families.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from hashlib import sha256

from bench.corpus.defects import Kind

KINDS_SET_ASIDE = 3

FRESH = frozenset({"object_trail", "count_gaps", "limit_watch", "part_commit"})
"""Families written after the first look at what was set aside, by somebody who writes no checks."""

UNSEEN = frozenset(
    {
        "missing_bills",
        "first_change",
        "merged_twins",
        "sorted_post",
        "talk_times",
        "moved_members",
        "tariffs",
        "year_ranks",
    }
)
"""Families written after the fresh ones were read and learnt from, by somebody who has read no check."""


class Part(StrEnum):
    """What a run may be used for."""

    DEVELOPMENT = "development"
    """Writing checks."""
    SET_ASIDE = "set_aside"
    """Figures of the first look: its task or its kind was kept away from those who wrote the checks."""
    FRESH = "fresh"
    """Figures of the second look, in all kinds."""
    UNSEEN = "unseen"
    """Figures on tasks that were written when the checks were done, in all kinds."""


def tasks_set_aside(ids: Iterable[str]) -> frozenset[str]:
    """Of these task ids, none of which is of a fresh or unseen family, the half that comes first by SHA-256."""
    ordered = _by_hash(ids)
    return frozenset(ordered[: len(ordered) // 2])


def kinds_set_aside() -> frozenset[Kind]:
    return frozenset(Kind(name) for name in _by_hash(Kind)[:KINDS_SET_ASIDE])


def _by_hash(names: Iterable[str]) -> list[str]:
    return sorted((str(name) for name in names), key=lambda name: sha256(name.encode()).hexdigest())
