"""An invented log of any length, always the same: rows for proxy/store/tables.py, in batches that belong together.

Above: bench/store.py. An episode is a search, eight calls of tools of the invented catalogue, and the end of the task;
what an agent saw of a call has some hundred bytes, as short answers of APIs do.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.targets.invented import SERVERS
from proxy.store.tables import (
    RENDERING,
    Base,
    CallRow,
    DecisionRow,
    EndingRow,
    EpisodeRow,
    SnapshotRow,
    StepRow,
    StreamRow,
)

STEPS = 10
"""Of an episode."""
BATCH = 500
"""Episodes."""
CATALOG = "c" * 64
SPREAD = timedelta(days=90)
"""How far back the first episode began; the others follow in even steps."""

Row = dict[str, Any]
Batch = list[tuple[type[Base], list[Row]]]


def batches(episodes: int) -> Iterator[Batch]:
    """Tables with their rows, in the order in which they refer to each other."""
    chance = random.Random(5)
    first = datetime.now(UTC) - SPREAD
    yield [
        (StreamRow, [{"id": "g_bench", "replica": "0", "version": "bench", "began_at": first}]),
        (SnapshotRow, [_snapshot(first)]),
    ]
    for start in range(0, episodes, BATCH):
        rows: dict[type[Base], list[Row]] = {
            table: [] for table in (EpisodeRow, StepRow, CallRow, DecisionRow, EndingRow)
        }
        for number in range(start, min(start + BATCH, episodes)):
            _episode(number, first + SPREAD * number / episodes, chance, rows)
        yield list(rows.items())


def _snapshot(taken_at: datetime) -> Row:
    return {
        "hash": CATALOG,
        "taken_at": taken_at,
        "servers": [{"name": name, "written": name, "purpose": says} for name, (says, _) in SERVERS.items()],
        "tools": [],
        "introduction": None,
        "introduction_tokens": 900,
        "eager_tokens": 30_000,
    }


def _episode(number: int, began_at: datetime, chance: random.Random, rows: dict[type[Base], list[Row]]) -> None:
    of = f"e_{number:024x}"
    rows[EpisodeRow].append(
        {
            "id": of,
            "stream": "g_bench",
            "agent": f"agent-{chance.randrange(20)}",
            "mode": "search",
            "client": "bench 1",
            "protocol": "2025-11-25",
            "rendering": RENDERING,
            "catalog": CATALOG,
            "began_at": began_at,
        }
    )
    server, (says, things) = chance.choice(list(SERVERS.items()))
    thing = things.split()[number % len(things.split())]
    task = f"{says.split()[0]} the {thing} number {number}"
    names = [f"{server}.get_{name}" for name in things.split()]
    failures = 0
    for place in range(STEPS):
        step_id = f"s_{number:012x}{place:04x}"
        at = began_at + timedelta(seconds=2 * place)
        last = place == STEPS - 1
        name = "search_tools" if place == 0 else "finish_task" if last else "call_tool"
        failed = name == "call_tool" and chance.random() < 0.05
        failures += failed
        called = chance.choice(names)
        arguments: Row = {"query": task, "task": task} if place == 0 else {"tool": called, "arguments": {"id": place}}
        rows[StepRow].append(_step(step_id, of, number * STEPS + place, name, arguments, failed, at, chance))
        if place == 0:
            rows[DecisionRow].append(_decision(step_id, of, task, names, at, chance))
        elif not last:
            rows[CallRow].append(_call(step_id, of, server, called, failed, at, chance))
    rows[EndingRow].append(
        {
            "episode_id": of,
            "reason": "finished",
            "ended_at": began_at + timedelta(seconds=2 * STEPS),
            "outcome": chance.choice(("done", "done", "done", "failed", "abandoned")),
            "answer": None,
            "task": task,
            "task_source": "task",
            "level": "full",
            "steps": STEPS,
            "calls": STEPS - 2,
            "failures": failures,
            "tokens_seen": 3_000,
            "tokens_eager": 30_000,
        }
    )


def _step(
    step_id: str, of: str, seq: int, name: str, arguments: Row, failed: bool, at: datetime, chance: random.Random
) -> Row:
    said = " ".join(f"{chance.getrandbits(40):010x}" for _ in range(chance.randrange(20, 80)))
    size = len(said) + 40
    return {
        "id": step_id,
        "episode_id": of,
        "parent_id": None,
        "stream": "g_bench",
        "seq": seq + 1,
        "mode": "search",
        "name": name,
        "arguments": arguments,
        "outcome": "tool_error" if failed else "ok",
        "error": "there is no such thing" if failed else None,
        "observation": {"content": [{"type": "text", "text": said}]},
        "observation_bytes": size,
        "observation_kept": size,
        "observation_hash": f"{chance.getrandbits(256):064x}",
        "action_tokens": 30,
        "observation_tokens": size // 4,
        "revealed": None,
        "catalog": CATALOG,
        "level": "full",
        "started_at": at,
        "duration_ms": chance.expovariate(1 / 80),
    }


def _call(step_id: str, of: str, server: str, written: str, failed: bool, at: datetime, chance: random.Random) -> Row:
    return {
        "step_id": step_id,
        "episode_id": of,
        "server": server,
        "tool": written.partition(".")[2],
        "written": written,
        "arguments": {"id": 1},
        "result": None,
        "result_bytes": 500,
        "result_kept": 500,
        "result_hash": None,
        "outcome": "tool_error" if failed else "ok",
        "started_at": at,
        "duration_ms": chance.expovariate(1 / 80),
    }


def _decision(step_id: str, of: str, task: str, names: list[str], at: datetime, chance: random.Random) -> Row:
    return {
        "step_id": step_id,
        "episode_id": of,
        "policy": "lexical",
        "adapter": None,
        "query": task,
        "task": task,
        "servers": None,
        "candidates": [[name, chance.random()] for name in names],
        "shown": names,
        "propensities": None,
        "degraded": None,
        "catalog": CATALOG,
        "decided_at": at,
        "duration_ms": 2.0,
    }
