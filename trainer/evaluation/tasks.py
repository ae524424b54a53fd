"""Held-out tasks: a query, and what was needed for it.

Above: the other modules of this package. Below: trainer/rows.py; data/caps.py, which knows who has how much.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.router.base import Query
from proxy.router.metrics import Need


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """One query that nothing was trained on."""

    id: str
    query: Query
    tools: tuple[Need, ...]
    """Written names; each need is met by any one of its names."""
    servers: tuple[Need, ...]
    cluster: str
    """The combination of servers that it needs: tasks of one are no independent evidence."""
    episode_id: str | None = None
    """Of the log; None where it is from a task file."""
    agent: str | None = None
