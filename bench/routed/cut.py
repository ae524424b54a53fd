"""How many tools a search shows when the router decides it, and what that costs: recall as cut, and of the usual five.

Above: routing.py with `--cut`. Below: proxy.router.cutting, with the thresholds that a gateway has by default.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from bench.routed.figures import SEED
from bench.routed.tasks import Task
from proxy.metatools.finding import CANDIDATES, DEFAULT_FOUND
from proxy.router.base import Query, Router
from proxy.router.cutting import Certainty, cut
from proxy.router.metrics import Estimate, bootstrap, recall_at

MOST_TASKS = 500
"""Drawn from files that have more."""


def measure(router: Router, tasks: Sequence[Task]) -> dict[str, Any]:
    """Key -> value, and under `intervals` key -> [low, high]. Tasks that name no tools are left out; `sure` is a share
    of tasks, `lost` what recall loses by showing fewer than five."""
    needing = [task for task in tasks if task.tools]
    if len(needing) > MOST_TASKS:
        needing = random.Random(SEED).sample(needing, MOST_TASKS)
    shown: list[int] = []
    sure: list[bool] = []
    as_cut: list[float] = []
    usual: list[float] = []
    for task in needing:
        ranked = router.rank(Query(task.text), CANDIDATES)
        tools = [found.tool for found in ranked]
        made = cut([found.score for found in ranked], router.policy, task.text, None, DEFAULT_FOUND, Certainty())
        shown.append(made.count)
        sure.append(made.sure)
        as_cut.append(recall_at(tools, task.tools, made.count))
        usual.append(recall_at(tools, task.tools, DEFAULT_FOUND))
    values: dict[str, Sequence[float]] = {
        "tools_shown": shown,
        "sure": sure,
        f"tool_recall@{DEFAULT_FOUND}": usual,
        "tool_recall@cut": as_cut,
        "lost": [five - few for five, few in zip(usual, as_cut, strict=True)],
        f"sure_recall@{DEFAULT_FOUND}": [five for five, certain in zip(usual, sure, strict=True) if certain],
        "sure_recall@cut": [few for few, certain in zip(as_cut, sure, strict=True) if certain],
    }
    estimates: dict[str, Estimate] = {key: bootstrap(each, seed=SEED) for key, each in values.items() if len(each)}
    return {
        **{key: round(estimate.value, 4) for key, estimate in estimates.items()},
        "tasks": len(needing),
        "sure_of_one": round(fmean(count == 1 for count in shown), 4) if shown else None,
        "intervals": {key: [round(each.low, 4), round(each.high, 4)] for key, each in estimates.items()},
    }
