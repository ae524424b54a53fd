"""`python -m bench.targets.streaming URL`: reads a whole log as a trainer would, and prints what that took as JSON.

A process of its own, since its memory is what is measured.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from pathlib import Path

from proxy.store.database import Database
from proxy.store.trajectories import stream

EARLY = 2_000
"""Trajectories after which the memory in use is noted: from then on it should not grow."""


def peak_mb() -> float:
    """Of this process so far. Not getrusage: Linux begins its count with what the process had that started this one."""
    status = Path("/proc/self/status").read_text("ascii")
    return round(int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[1]) / 1024, 1)


async def read(url: str) -> dict[str, float]:
    database = Database(url)
    started = time.perf_counter()
    episodes = steps = 0
    before = early = peak_mb()
    async for trajectory in stream(database):
        episodes += 1
        steps += len(trajectory.steps)
        if episodes == EARLY:
            early = peak_mb()
    elapsed = time.perf_counter() - started
    await database.close()
    return {
        "episodes": episodes,
        "steps": steps,
        "s": round(elapsed, 2),
        "steps_per_s": round(steps / elapsed),
        "before_mb": before,
        "early_mb": early,
        "peak_mb": peak_mb(),
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(read(sys.argv[1]))))
