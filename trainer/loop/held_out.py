"""An adapter against what is in force, on rankings that were held out and went well: what the gates ask for.

Above: running.py. Below: the router's own code and its metrics. Of each ranking, what was needed is what was right by
reward; agents only use what they are shown, so that this favours what ranked then, and the canary has the last word.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from proxy.catalog.records import ServerRecord
from proxy.router.adapters import Adapter
from proxy.router.embeddings import EmbeddingCache
from proxy.router.encoder import Encoder
from proxy.router.fusion import FusedRouter
from proxy.router.metrics import Need, recall_at
from trainer.promotion.evidence import ALL, Evidence, Paired
from trainer.rows import RankingRow

MOST = 400
"""Rankings that are measured; the first ones, in the order in which they were logged."""
RANKED = 50


def measured(
    rows: Sequence[RankingRow],
    servers: Sequence[ServerRecord],
    encoder: Encoder,
    cache: EmbeddingCache,
    adapter: Adapter,
    before: Adapter | None,
    *,
    judges: tuple[str, ...],
) -> Evidence:
    """Paired figures, and the time of the adapter's answers in this process."""
    good = [row for row in rows if row.right and row.advantage > 0][:MOST]
    old, new = (FusedRouter(servers, encoder, cache, each) for each in (before, adapter))
    differences: dict[str, list[float]] = {"tool_recall@10": [], "server_recall@5": []}
    clusters: list[str] = []
    times: list[float] = []
    for row in good:
        tools: list[Need] = [frozenset({each.tool}) for each in row.right]
        owners: list[Need] = [frozenset({each.tool.partition(".")[0]}) for each in row.right]
        was = [each.tool for each in old.rank(row.query, RANKED)]
        started = time.thread_time()
        now = [each.tool for each in new.rank(row.query, RANKED)]
        times.append((time.thread_time() - started) * 1000)
        differences["tool_recall@10"].append(recall_at(now, tools, 10) - recall_at(was, tools, 10))
        differences["server_recall@5"].append(recall_at(_servers(now), owners, 5) - recall_at(_servers(was), owners, 5))
        clusters.append(" ".join(sorted(row.origin.servers)))
    return Evidence(
        against=None if before is None else before.hash,
        paired=tuple(
            Paired(slice=ALL, figure=figure, differences=tuple(its), clusters=tuple(clusters))
            for figure, its in differences.items()
        ),
        p95_ms=sorted(times)[int(0.95 * len(times))] if times else None,
        judges=judges,
    )


def _servers(tools: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(tool.partition(".")[0] for tool in tools))
