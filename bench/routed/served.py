"""The row `served` of `python -m bench routing`: tasks asked of a running gateway's search_tools, as agents ask.

Above: routing.py. Each task is one search with its raw text in a session of its own, with the default budget; a search
that the router's process did not answer in time counts with the answer that the agent got, which words alone gave.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvloop

from bench.lean import Era, http_client
from bench.measure import percentile
from bench.routed.figures import Answer, figures
from bench.routed.routed_gateway import Found, routed_gateway, search
from bench.routed.tasks import Task

LIMIT = 20
"""The most that search_tools shows."""
REST_S = 0.05
"""Between two tasks: they are asked one by one, and the log of one is written before the next."""


def measure(catalog: Path, tasks: Sequence[Task], costs: Mapping[str, int]) -> dict[str, Any]:
    """The figures of figures.py, and which share of the tasks words alone answered."""
    with TemporaryDirectory(prefix="bench-served-") as name:
        with routed_gateway(Path(name), catalog) as gateway:
            url = f"http://127.0.0.1:{gateway.port}/mcp"
            asked = uvloop.run(_ask(url, [task.text for task in tasks]))
            short = uvloop.run(_ask(url, [task.short for task in tasks]))
    answers = [Answer(tools=found.tools, servers=found.servers, ms=ms) for found, ms in asked]
    return {
        **figures(tasks, answers, costs),
        **_degraded(asked),
        "short_latency_p50_ms": round(percentile([ms for _, ms in short], 0.5), 2),
        "short_latency_p95_ms": round(percentile([ms for _, ms in short], 0.95), 2),
    }


async def _ask(url: str, texts: Sequence[str]) -> list[tuple[Found, float]]:
    asked: list[tuple[Found, float]] = []
    for text in texts:
        async with http_client(url, Era.SESSION) as client:
            asked.append(await search(client, text, LIMIT))
        await asyncio.sleep(REST_S)
    return asked


def _degraded(asked: Sequence[tuple[Found, float]]) -> dict[str, Any]:
    why = Counter(found.degraded for found, _ in asked if found.degraded is not None)
    return {"degraded": round(why.total() / len(asked), 4), "degraded_why": ", ".join(sorted(why)) or "-"}
