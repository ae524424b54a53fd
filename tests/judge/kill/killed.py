"""A worker as a process of its own, which says when it has judged half of a batch, and then waits to be killed.

Run as `python -m tests.judge.kill.killed URL BATCH`. Above: test_kill.py. Below: running.py.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import anyio

from judge.case import Case
from judge.checks.library import library
from judge.claims import Wanted
from judge.judging import Judge
from judge.keeping import keep_rubric
from judge.rubric import Category, Criterion, Kind, Rubric
from judge.running import Pace, Worker
from judge.settings import RewardSettings
from proxy.store.database import Database

LEASE_S = 3.0
"""Of the process, which is killed and cannot renew it."""
RUBRIC = Rubric(
    (
        Criterion(
            id="called",
            category=Category.TOOL_APPROPRIATENESS,
            text="The time was looked up.",
            weight=5,
            kind=Kind.CHECK,
            check="called",
            parameters={"each_of": [["time.now"]]},
            needs=frozenset(),
        ),
    )
)
"""Which no canary meets: none calls this."""


class Halting(Judge):
    """Judges so many, says so on standard output, and then never ends."""

    def __init__(self, after: int) -> None:
        super().__init__(library(), RewardSettings())
        self._left = after

    async def judge(self, rubric: Rubric, case: Case) -> Any:
        if self._left == 0:
            print("half", flush=True)
            await anyio.sleep_forever()
        self._left -= 1
        return await super().judge(rubric, case)


async def worker_of(database: Database, judge: Judge, **pace: Any) -> Worker:
    hash_ = await keep_rubric(database, RUBRIC, writer="a test")
    return Worker(database, judge, Wanted(judge=judge.name, default=hash_), Pace(**pace), canaries=RUBRIC)


async def _main(url: str, batch: int) -> None:
    database = Database(url)
    try:
        worker = await worker_of(database, Halting(batch // 2), batch=batch, lease_s=LEASE_S)
        await worker.run(anyio.Event())
    finally:
        await database.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2])))
