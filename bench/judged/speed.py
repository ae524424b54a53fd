"""How many trajectories a second `toolatlas judge run` gives a reward by checks alone, reading and writing included.

Above: bench/judge.py. Below: the command as people run it, over a SQLite log of its own that repeats the runs of the
corpus under other ids.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import anyio

from bench.measure import ROOT
from proxy.store.database import Database
from proxy.store.importing import import_lines
from proxy.store.migrating import migrate

LIMIT_S = 1_800.0
_IDS = re.compile(r"\b([es])_([0-9a-f]{16,24})\b")


async def speed(folder: Path, scratch: Path, count: int) -> dict[str, Any]:
    """Judge `count` trajectories, copies of the corpus in `folder`."""
    url = f"sqlite:///{scratch / 'many.db'}"
    await migrate(url)
    database = Database(url)
    try:
        done = await import_lines(database, _repeated(folder / "corpus.jsonl", count))
        if done.refused or done.episodes != count:
            raise ValueError(f"{done.episodes} of {count} copies could be written: {done.refused[:1]}")
    finally:
        await database.close()
    began = time.monotonic()
    command = [sys.executable, "-m", "proxy.cli", "judge", "run", "--database", url, "--json"]
    with anyio.fail_after(LIMIT_S):
        ran = await anyio.run_process(command, cwd=ROOT, check=False)
    took = time.monotonic() - began
    if ran.returncode != 0:
        raise RuntimeError(f"judge run ended with {ran.returncode}: {ran.stderr.decode()[-2_000:]}")
    said: dict[str, Any] = json.loads(ran.stdout)
    return {
        "trajectories": count,
        "steps": done.steps,
        "seconds": took,
        "per_second": count / took,
        "judged": said["judged"],
        "rewarded": said["rewarded"],
    }


def _repeated(path: Path, count: int) -> Iterator[bytes]:
    """All lines that are no episodes, then `count` episodes with ids of their own."""
    lines = path.read_bytes().splitlines()
    episodes = [line for line in lines if json.loads(line)["kind"] == "episode"]
    yield from (line for line in lines if json.loads(line)["kind"] != "episode")
    for number, line in enumerate(islice(cycle(episodes), count)):
        yield _renamed(line.decode(), number, stride=len(episodes))


def _renamed(line: str, number: int, *, stride: int) -> bytes:
    """The same episode under other ids, its steps under other numbers of the stream."""
    copy = number // stride
    episode: dict[str, Any] = json.loads(_IDS.sub(lambda found: f"{found[1]}_{copy:06x}{found[2][6:]}", line))
    for step in episode["steps"]:
        # Numbers of a stream are unique; they stay below what the databases hold.
        step["seq"] += copy * 1_000_000
    return json.dumps(episode).encode()
