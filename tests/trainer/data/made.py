"""Rows made by hand, for tests of what needs no log."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, settings

from proxy.router.base import History, Query
from tests.fixtures.logged import NOON
from trainer.rows import Origin, RankingRow, Used

unhurried = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
"""For tests of properties: the machine is shared, and nothing is timed."""


def origin(number: int = 1, **changed: Any) -> Origin:
    values: dict[str, Any] = {
        "episode_id": f"e_{number:03}",
        "agent": "laptop",
        "family": None,
        "task": f"task {'abcdefghij'[number % 10] * 3} number {'klmnopqrst'[number // 10 % 10] * 3}",
        "began_at": NOON + timedelta(minutes=number),
        "catalog": "c",
        "servers": frozenset({"shop"}),
        "reward": 0.5,
        "advantage": 0.0,
    }
    return Origin(**values | changed)


def ranking(number: int = 1, *tools: str, query: str | None = None, of: Origin | None = None, **changed: Any) -> Any:
    values: dict[str, Any] = {
        "id": f"s_{number}",
        "origin": of or origin(number),
        "query": Query(query or f"search {number}", history=History()),
        "policy": "lexical",
        "adapter": None,
        "candidates": (("shop.sell", 2.0), ("shop.find_item", 1.0 / 3)),
        "shown": ("shop.sell",),
        "propensities": None,
        "order_propensity": None,
        "used": tuple(Used(tool=tool, ok=True, credit=None, shown=True) for tool in tools),
        "advantage": 0.0,
    }
    return RankingRow(**values | changed)
