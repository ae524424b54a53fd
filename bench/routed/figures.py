"""One router's figures: what its answers are worth, each with a bootstrap interval.

Above: routing.py and served.py, which bring the answers. Below: proxy.router.metrics, which the trainer uses as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.routed.tasks import Task
from proxy.router.metrics import (
    Estimate,
    all_within,
    bootstrap,
    cost_of_all,
    least_cost,
    percentile_of,
    recall_at,
    reciprocal_rank,
)

SEED = 7
SERVER_COUNTS = (1, 3, 5, 10)
TOOL_COUNTS = (5, 10, 20)
ALL_WITHIN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a router said to one task, and how long it took."""

    tools: Sequence[str]
    """Written names, best first; as many as the router ranks."""
    servers: Sequence[str]
    ms: float


def servers_of(tools: Sequence[str]) -> list[str]:
    """Servers in the order of their first tools."""
    return list(dict.fromkeys(tool.partition(".")[0] for tool in tools))


def figures(tasks: Sequence[Task], answers: Sequence[Answer], costs: Mapping[str, int]) -> dict[str, Any]:
    """Key -> value, and under `intervals` key -> [low, high]; `costs` are tokens of each tool's schema.

    Who never finds a needed tool has to read all of them: that is what `tokens_until_all` counts then.
    """
    pairs = list(zip(tasks, answers, strict=True))
    everything = sum(costs.values())
    estimates: dict[str, Estimate] = {}

    def add(key: str, values: Sequence[float], **options: Any) -> None:
        if values:
            estimates[key] = bootstrap(values, seed=SEED, **options)

    of_servers = [(task, answer) for task, answer in pairs if task.servers]
    for count in SERVER_COUNTS:
        add(f"server_recall@{count}", [recall_at(answer.servers, task.servers, count) for task, answer in of_servers])
    add(
        f"all_needed@{ALL_WITHIN}",
        [float(all_within(answer.servers, task.servers, ALL_WITHIN)) for task, answer in of_servers],
    )
    of_tools = [(task, answer) for task, answer in pairs if task.tools]
    for count in TOOL_COUNTS:
        add(f"tool_recall@{count}", [recall_at(answer.tools, task.tools, count) for task, answer in of_tools])
    add("mrr", [reciprocal_rank(answer.tools, task.tools) for task, answer in of_tools])
    least = [least_cost(task.tools, costs) for task, _ in of_tools]
    payable = [pair for pair, cost in zip(of_tools, least, strict=True) if cost is not None]
    paid = [cost_of_all(answer.tools, task.tools, costs) for task, answer in payable]
    add("tokens_until_all", [everything if cost is None else cost for cost in paid])
    add("tokens_oracle", [cost for cost in least if cost is not None])
    times = [answer.ms for _, answer in pairs]
    for share in (50, 95):
        add(f"latency_p{share}_ms", times, statistic=percentile_of(share / 100))
    return {
        **{key: round(estimate.value, 4) for key, estimate in estimates.items()},
        "tasks": len(pairs),
        "tasks_that_never_find_all": sum(cost is None for cost in paid),
        "intervals": {key: [round(each.low, 4), round(each.high, 4)] for key, each in estimates.items()},
    }
