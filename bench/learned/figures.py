"""Routers on the tasks of a file, task by task, and what differs between two of them.

Above: the parts. Below: proxy.router.metrics. Intervals are of means over tasks, drawn by combination of servers; a
task that was measured several times, in several seeds or halves, counts with its mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from bench.learned.folds import combination
from bench.routed.figures import servers_of
from bench.routed.tasks import Task
from proxy.router.base import Query, Router
from proxy.router.fusion import FusedRouter
from proxy.router.metrics import all_within, bootstrap, recall_at, reciprocal_rank

RANKED = 100
Worth = Mapping[str, float]
"""Figure -> value, of one task."""
MAIN = ("server_recall@5", "tool_recall@10")


def worths(router: Router, tasks: Sequence[Task]) -> dict[str, Worth]:
    """By id of the task, asked with its raw text."""
    return {task.task_id: _worth(router, task) for task in tasks}


def compared(tasks: Sequence[Task], pairs: Iterable[tuple[Mapping[str, Worth], Mapping[str, Worth]]]) -> dict[str, Any]:
    """Figure -> before, after, difference with interval. `pairs`: before and after, of some tasks each."""
    clusters = {task.task_id: combination(task) for task in tasks}
    before: dict[str, dict[str, list[float]]] = {}
    after: dict[str, dict[str, list[float]]] = {}
    for old, new in pairs:
        for task, figures in new.items():
            for figure, value in figures.items():
                after.setdefault(figure, {}).setdefault(task, []).append(value)
                before.setdefault(figure, {}).setdefault(task, []).append(old[task][figure])
    found: dict[str, Any] = {}
    for figure, its in after.items():
        names = sorted(its)
        was, now = ([fmean(each[figure][name]) for name in names] for each in (before, after))
        of = [clusters[name] for name in names]
        difference = bootstrap([new - old for new, old in zip(now, was, strict=True)], clusters=of)
        found[figure] = {
            "before": round(fmean(was), 4),
            "after": round(fmean(now), 4),
            "difference": round(difference.value, 4),
            "interval": [round(difference.low, 4), round(difference.high, 4)],
            "tasks": len(names),
        }
    return found


def _worth(router: Router, task: Task) -> Worth:
    query = Query(task.text)
    tools = [each.tool for each in router.rank(query, RANKED)]
    fused = isinstance(router, FusedRouter)
    servers = router.rank_servers(query, RANKED) if fused else servers_of(tools)
    found: dict[str, float] = {}
    if task.servers:
        for count in (1, 3, 5):
            found[f"server_recall@{count}"] = recall_at(servers, task.servers, count)
        found["all_needed@5"] = float(all_within(servers, task.servers, 5))
    if task.tools:
        for count in (5, 10, 20):
            found[f"tool_recall@{count}"] = recall_at(tools, task.tools, count)
        found["mrr"] = reciprocal_rank(tools, task.tools)
    return found
