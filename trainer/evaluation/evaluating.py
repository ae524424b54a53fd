"""One evaluation, from held-out rows to a report.

Above: the loop, after training. Below: the other modules of this package; the report's types in
proxy/store/training_report.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.router.base import Router
from proxy.store.training_report import Report
from trainer.evaluation.settings import EvaluationSettings
from trainer.evaluation.tasks import HeldOut
from trainer.rows import RankingRow, Split


async def evaluate(
    rows: Sequence[RankingRow],
    split: Split,
    routers: Mapping[str, Router],
    *,
    kind: str,
    facts: Mapping[str, Any],
    metrics: Sequence[Mapping[str, Any]] = (),
    tasks: Sequence[HeldOut] | None = None,
    scopes: Mapping[str, str] | None = None,
    settings: EvaluationSettings | None = None,
) -> Report:
    """Measure `routers` on what was held out, the one under `adapter` against the one under `previous`, or `fused`.

    Args:
        rows: All of the run.
        routers: By name, as `routers.py` makes them.
        kind: Of the adapter.
        facts: Of the run, as loop/preparing.py writes them: id, command, version, commit, seed, data_hash and data.
        metrics: Lines of training, as loop/metrics.py writes them.
        tasks: Held-out tasks from elsewhere, such as a task file, in place of those of the rows.
        scopes: Episode -> scope of its reward, for slices; without it there are none by scope.
    """
    raise NotImplementedError
