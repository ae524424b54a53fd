"""Of a report, what the gates ask for.

Above: the loop, which puts it into the registry. Below: promotion/evidence.py.
"""

from __future__ import annotations

from proxy.store.training_report import Report
from trainer.promotion.evidence import Evidence, Paired

GATED = ("server_recall@5", "tool_recall@10")
"""Two are enough: of more, each would be asked for less surely."""


def evidence(report: Report) -> Evidence:
    """Every slice, in the figures that are gated."""
    return Evidence(
        against=report.against,
        paired=tuple(
            Paired(slice=each.name, figure=each.figure, differences=each.differences, clusters=each.clusters)
            for each in report.slices
            if each.figure in GATED
        ),
        p95_ms=report.latency_p95_ms,
        judges=report.data.judges,
    )
