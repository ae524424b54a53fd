"""What one router says to each task, how long it takes, and what that is worth.

Above: comparing.py, decisions.py, changes.py. Below: proxy/router/metrics.py. Figures are those of `python -m bench
routing`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proxy.router.base import Query, Router
from proxy.router.fusion import FusedRouter
from proxy.router.metrics import all_within, recall_at, reciprocal_rank
from trainer.evaluation.tasks import HeldOut, server_of

SERVER_COUNTS = (1, 3, 5)
TOOL_COUNTS = (5, 10, 20)
ALL_WITHIN = 5
EVERYTHING = 1_000_000
"""More tools than any catalogue has."""
KEPT = 50
"""Names of an answer that are kept: as many as any figure looks at, and the reciprocal rank of what is below is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """To one task."""

    tools: tuple[str, ...]
    """The first `KEPT`."""
    servers: tuple[str, ...]
    scores: NDArray[np.float32]
    """Of all tools that it ranked, best first."""
    right: tuple[int, ...]
    """Places of those that meet a need."""
    ms: float


def answered(router: Router, tasks: Sequence[HeldOut]) -> list[Answer]:
    """To each task, on one thread. Before them, one query that is not counted: what is read once is read."""
    router.rank(Query("warm up"), KEPT)
    return [_answer(router, task) for task in tasks]


def p95_ms(answers: Sequence[Answer]) -> float | None:
    """Time of 95 of 100; None of none."""
    return float(np.quantile([each.ms for each in answers], 0.95, method="higher")) if answers else None


def worth(task: HeldOut, answer: Answer) -> dict[str, float]:
    """Figure -> value, between 0 and 1; those of servers, or of tools, are not there where the task needs none."""
    found: dict[str, float] = {}
    if task.servers:
        for count in SERVER_COUNTS:
            found[f"server_recall@{count}"] = recall_at(answer.servers, task.servers, count)
        found[f"all_needed@{ALL_WITHIN}"] = float(all_within(answer.servers, task.servers, ALL_WITHIN))
    if task.tools:
        for count in TOOL_COUNTS:
            found[f"tool_recall@{count}"] = recall_at(answer.tools, task.tools, count)
        found["mrr"] = reciprocal_rank(answer.tools, task.tools)
    return found


def _answer(router: Router, task: HeldOut) -> Answer:
    wall, cpu = time.perf_counter(), time.process_time()
    ranked = router.rank(task.query, EVERYTHING)
    # The less of both: on a machine with other work the wall's time is theirs, with several threads the processors'
    # is more than anybody waits.
    ms = min(time.perf_counter() - wall, time.process_time() - cpu) * 1000
    names = [each.tool for each in ranked]
    if isinstance(router, FusedRouter) and task.query.servers is None:
        servers = router.rank_servers(task.query, KEPT)
    else:
        servers = list(dict.fromkeys(map(server_of, names)))[:KEPT]
    right = task.right
    return Answer(
        tools=tuple(names[:KEPT]),
        servers=tuple(servers),
        scores=np.array([each.score for each in ranked], dtype=np.float32),
        right=tuple(place for place, name in enumerate(names) if name in right),
        ms=ms,
    )
