"""Which tasks and servers are held out. Deterministic: the same names and seed give the same folds.

Above: the parts. Below: bench/routed/tasks.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from bench.routed.tasks import Task

FOLDS = 5


def combination(task: Task) -> str:
    """The servers that a task needs: tasks of one combination are no independent evidence."""
    return " ".join(sorted(min(need) for need in task.servers))


def by_task(tasks: Sequence[Task], seed: int, folds: int = FOLDS) -> list[frozenset[str]]:
    """Ids of the tasks of each fold, as many in each as can be."""
    return _dealt([[task.task_id] for task in tasks], seed, folds)


def by_combination(tasks: Sequence[Task], seed: int, folds: int = FOLDS) -> list[frozenset[str]]:
    """The same, with all tasks of one combination of servers in one fold."""
    groups: dict[str, list[str]] = {}
    for task in tasks:
        groups.setdefault(combination(task), []).append(task.task_id)
    return _dealt(list(groups.values()), seed, folds)


def half(servers: Iterable[str], seed: int) -> frozenset[str]:
    """A random half."""
    drawn = sorted(servers, key=lambda name: _fraction(f"{seed} {name}"))
    return frozenset(drawn[: len(drawn) // 2])


def _dealt(groups: Sequence[Sequence[str]], seed: int, folds: int) -> list[frozenset[str]]:
    made: list[set[str]] = [set() for _ in range(folds)]
    # Large groups first, each to the fold that has the least, so that no fold is much larger than others.
    for group in sorted(groups, key=lambda its: (-len(its), _fraction(f"{seed} {its[0]}"))):
        min(made, key=len).update(group)
    return [frozenset(each) for each in made]


def _fraction(text: str) -> str:
    return sha256(text.encode()).hexdigest()
