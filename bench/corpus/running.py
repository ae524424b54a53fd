"""Makes a corpus: one gateway before all servers, and every task done in every variant by a scripted agent.

Above: __main__.py and the tests. Below: families.py, the gateway as a process of its own, and its log. The runs of one
task follow each other in an order drawn by chance, each after its folder was made anew; several tasks go on at once.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import anyio
import httpx2
from mcp import Client

from bench.corpus.agent import Agent
from bench.corpus.defects import Variant, variants
from bench.corpus.families import FAMILIES, SPLIT
from bench.corpus.family import Family, Task
from bench.corpus.made import LOG, Run, save
from bench.corpus.servers import START_S, Home, mcp_servers, served
from bench.corpus.split import FRESH, UNSEEN, Part, kinds_set_aside, tasks_set_aside
from bench.targets.gateway import start_gateway
from proxy.store.database import Database
from proxy.store.exporting import export
from proxy.store.trajectories import stream

AT_ONCE = 3
ANSWER_S = 90.0
SEED = 23


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A task with the runs of it that are to be made."""

    id: str
    task: Task
    family: Family[Any]
    variants: list[Variant]


Done = dict[str, list[Variant]]
"""The runs made of each task, in the order in which they began."""


def choose(tasks: Iterable[str] = (), only: Part | None = None) -> list[Chosen]:
    """What is to be made: all tasks or those named; `only` one part leaves the others out.

    Runs of kinds that are set aside count as set aside, too, but not those of fresh or unseen tasks.
    """
    known = {task_id: (task, family) for family in FAMILIES for task_id, task in family.tasks.items()}
    wanted = frozenset(tasks)
    if unknown := wanted - known.keys():
        raise ValueError(f"there is no task {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    chosen: list[Chosen] = []
    for task_id, (task, family) in known.items():
        if wanted and task_id not in wanted:
            continue
        runs = [variant for variant in variants(family.kinds) if only in (None, _part(task_id, family.name, variant))]
        if runs:
            chosen.append(Chosen(id=task_id, task=task, family=family, variants=runs))
    return chosen


def make(out: Path, chosen: list[Chosen], seed: int = SEED, tell: Callable[[str], None] = print) -> list[Run]:
    """Makes the corpus in the empty or missing folder `out`.

    Raises:
        FileExistsError: Something lies there.
        RuntimeError: A server or the gateway did not start, or a run is not in the log as it was made.
    """
    if out.exists() and any(out.iterdir()):
        raise FileExistsError(f"{out} is not empty")
    out.mkdir(parents=True, exist_ok=True)
    # Resolved, for servers compare paths; and in no place that tells of a run.
    home = Home(out.resolve() / "home")
    home.make()
    gateway = out / "gateway"
    try:
        with served(home) as home, start_gateway(gateway, mcp_servers(home), sandbox="embedded") as program:
            program.wait()
            chosen = [replace(one, task=one.task.at(home)) for one in chosen]
            done = anyio.run(_all, f"http://127.0.0.1:{program.port}", home, chosen, seed, tell)
        runs = anyio.run(_exported, gateway / "state" / "toolatlas.db", out, chosen, done)
        save(out, runs)
    finally:
        shutil.rmtree(home.folder, ignore_errors=True)
    shutil.rmtree(gateway)
    return runs


def _part(task_id: str, family: str, variant: Variant) -> Part:
    if family in FRESH:
        return Part.FRESH
    if family in UNSEEN:
        return Part.UNSEEN
    aside = task_id in tasks_set_aside(SPLIT) or variant.kind in kinds_set_aside()
    return Part.SET_ASIDE if aside else Part.DEVELOPMENT


async def _all(url: str, home: Home, chosen: list[Chosen], seed: int, tell: Callable[[str], None]) -> Done:
    await _listed(url, len(mcp_servers(home)))
    done, limit = Done(), anyio.CapacityLimiter(AT_ONCE)
    alone: dict[str | None, anyio.Lock] = defaultdict(anyio.Lock)

    async def of(one: Chosen) -> None:
        order = list(one.variants)
        Random(f"{seed} {one.id}").shuffle(order)
        for variant in order:
            async with alone[one.family.shares] if one.family.shares else nullcontext(), limit:
                await _run(url, home, one, variant, seed)
        done[one.id] = order
        tell(f"{one.id}: {len(order)} runs")

    async with anyio.create_task_group() as group:
        for one in chosen:
            group.start_soon(of, one)
    return done


async def _run(url: str, home: Home, one: Chosen, variant: Variant, seed: int) -> None:
    await anyio.to_thread.run_sync(one.family.prepare, one.task, home)
    chance = Random(f"{seed} {one.id} {variant.name}")
    async with Client(f"{url}/mcp", mode="legacy", read_timeout_seconds=ANSWER_S) as client:
        agent = Agent(client, one.task.text, str(home.files), variant, chance)
        try:
            await agent.finish(await one.family.plan(agent, one.task))
        except Exception as error:
            raise RuntimeError(f"the run {variant.name} of {one.id} broke off: {error!r}\n{agent.log()}") from error


async def _listed(url: str, count: int) -> None:
    """Until the gateway has listed all servers, which is all that it says of itself without being asked by an agent."""
    states: dict[str, int] = {}
    with anyio.move_on_after(START_S):
        async with httpx2.AsyncClient() as client:
            while states != {"ready": count}:
                states = (await client.get(f"{url}/readyz", timeout=10)).json()["servers"]
                await anyio.sleep(0.2)
            return
    raise RuntimeError(f"not all {count} servers were listed in {START_S:.0f} s: {states}")


async def _exported(log: Path, out: Path, chosen: list[Chosen], done: Done) -> list[Run]:
    """Writes the log, and gives the manifest."""
    episodes: dict[str | None, list[str]] = defaultdict(list)
    database = Database(f"sqlite:///{log}")
    try:
        async for trajectory in stream(database):
            episodes[trajectory.task].append(trajectory.id)
        with (out / LOG).open("w", encoding="utf-8") as file:
            async for line in export(database):
                file.write(f"{line}\n")
    finally:
        await database.close()
    return _identified(episodes, chosen, done)


def _identified(episodes: Mapping[str | None, list[str]], chosen: list[Chosen], done: Done) -> list[Run]:
    """Which run is which episode: those of one task began in the order of its runs."""
    runs: list[Run] = []
    for one in chosen:
        found, made = episodes[one.task.text], done[one.id]
        if len(found) != len(made):
            raise RuntimeError(f"the log has {len(found)} episodes of {one.id}, which was done {len(made)} times")
        parts = [_part(one.id, one.family.name, variant) for variant in made]
        runs += [
            Run(
                episode=episode,
                task=one.id,
                family=one.family.name,
                variant=variant.name,
                kind=variant.kind,
                reference=variant.reference,
                set_aside=part is Part.SET_ASIDE,
                fresh=part is Part.FRESH,
                unseen=part is Part.UNSEEN,
            )
            for episode, variant, part in zip(found, made, parts, strict=True)
        ]
    return runs
