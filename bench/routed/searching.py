"""Agents that search all the time: `python -m bench.routed.searching URL CATALOG TASKS AGENTS`, until it is killed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import uvloop

from bench.lean import Era, http_client
from bench.routed.routed_gateway import search
from bench.routed.tasks import read_catalog, read_tasks

LIMIT = 5


async def searching(url: str, texts: Sequence[str], agents: int) -> None:
    turns = cycle(range(len(texts)))

    async def agent(name: int) -> None:
        async with http_client(url, Era.SESSION) as client:
            while True:
                # No text twice, for those that were read lately are remembered.
                turn = next(turns)
                await search(client, f"{texts[turn]} {name} {turn}", LIMIT)

    print("searching", flush=True)
    await asyncio.gather(*map(agent, range(agents)))


if __name__ == "__main__":
    address, catalog, tasks, count = sys.argv[1:]
    read = read_tasks(Path(tasks), read_catalog(Path(catalog)))
    uvloop.run(searching(address, [task.text for task in read.tasks], int(count)))
