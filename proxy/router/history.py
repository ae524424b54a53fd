"""What a task did before weighs on its next search: it is not told again first what it already knows.

Above: metatools/finding.py, for every way of ranking alike. Below: base.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import pstdev

from proxy.router.base import History, Ranked

KNOWN_LESS = 1.0
"""Taken off the score of what the task was shown, or called, in standard deviations of the candidates' scores: a tool
that leads by far stays where it is."""
SERVER_MORE = 0.5
"""Put on other tools of servers that the task called successfully, in the same unit: what is left to do is often
theirs. With both, more of what tasks need is found in the end (docs/decisions/0027 has the figures)."""


def remembering(ranked: Sequence[Ranked], history: History) -> list[Ranked]:
    """The same candidates, best first, with scores that the history of their task has changed."""
    called = frozenset(history.called)
    known = called.union(history.revealed)
    if not known or not ranked:
        return list(ranked)
    unit = pstdev([found.score for found in ranked])
    servers = {_server(tool) for tool in called}

    def weighed(found: Ranked) -> Ranked:
        change = SERVER_MORE * (_server(found.tool) in servers) - KNOWN_LESS * (found.tool in known)
        return Ranked(found.tool, found.score + change * unit)

    # Stable: what is equal stays in the order in which it was ranked.
    return sorted(map(weighed, ranked), key=lambda found: -found.score)


def _server(tool: str) -> str:
    return tool.partition(".")[0]
