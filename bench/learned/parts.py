"""The parts of `python -m bench learn` that train on logs and ask held-out tasks. Each returns JSON.

Above: bench/learn.py. Below: the other modules of this package. Every figure is of tasks whose own traffic was not
trained on, in no part of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.learned.figures import Worth, compared, worths
from bench.learned.folds import by_combination, by_task, combination, half
from bench.learned.logs import DEFAULT, DERIVED, Log, Say
from bench.learned.training import Bench, adapter_of
from bench.routed.tasks import Task
from bench.traffic.poison import POISONER
from proxy.router.adapters import Adapter
from proxy.router.fusion import FusedRouter
from trainer.data.settings import CapSettings, DataSettings
from trainer.ranking.settings import RankingSettings

SIZES = (25, 50, 100, 200, 500, 1_000)
HALVES = 20
Folds = Callable[[Sequence[Task], int], list[frozenset[str]]]
LogOf = Callable[[int, str], Awaitable[Log]]
"""Of a seed and a kind of rubrics."""
Pair = tuple[Mapping[str, Worth], Mapping[str, Worth]]
"""Held-out tasks before and after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One catalogue with its tasks and logs."""

    bench: Bench
    catalog: Path
    tasks_file: Path
    tasks: Sequence[Task]
    """Of the file, those that need at least one tool."""
    log: LogOf
    seeds: Sequence[int]
    settings: RankingSettings
    untrained: Mapping[str, Worth]
    say: Say

    def within(self, ids: frozenset[str]) -> list[Task]:
        return [task for task in self.tasks if task.task_id in ids]

    def router(self, adapter: Adapter | None, bench: Bench | None = None) -> FusedRouter:
        its = bench or self.bench
        return FusedRouter(its.servers, its.encoder, its.cache, adapter)

    async def fold(
        self,
        log: Log,
        held_out: frozenset[str],
        settings: RankingSettings,
        *,
        most: int | None = None,
        bench: Bench | None = None,
    ) -> Pair:
        """Trained on all other tasks' episodes, or the first `most` of them: the held-out tasks before and after."""
        episodes = log.episodes(frozenset(log.tasks.values()) - held_out)[:most]
        tasks = self.within(held_out)
        adapter = await adapter_of(bench or self.bench, log, episodes, settings)
        old = {task.task_id: self.untrained[task.task_id] for task in tasks}
        return old, old if adapter is None else worths(self.router(adapter), tasks)


async def pairs_of(
    asked: Asked,
    folds: Folds,
    *,
    settings: RankingSettings | None = None,
    rubric: str = DEFAULT,
    seeds: Sequence[int] | None = None,
    most: int | None = None,
    first: int | None = None,
    bench: Bench | None = None,
) -> dict[int, list[Pair]]:
    """By seed: each task held out once, or only those of the first folds."""
    found: dict[int, list[Pair]] = {}
    for seed in asked.seeds if seeds is None else seeds:
        log = await asked.log(seed, rubric)
        its = replace(settings or asked.settings, seed=seed)
        found[seed] = [
            await asked.fold(log, held_out, its, most=most, bench=bench)
            for held_out in folds(asked.tasks, seed)[:first]
        ]
    return found


def summed(asked: Asked, found: Mapping[int, Sequence[Pair]]) -> dict[str, Any]:
    """Of all seeds together, and of each."""
    every = [pair for its in found.values() for pair in its]
    by_seed = {str(seed): compared(asked.tasks, its) for seed, its in found.items()}
    return {**compared(asked.tasks, every), "seeds": by_seed}


async def held_out_tasks(asked: Asked) -> dict[str, Any]:
    return summed(asked, await pairs_of(asked, by_task))


async def unseen_combinations(asked: Asked) -> dict[str, Any]:
    return summed(asked, await pairs_of(asked, by_combination))


async def unseen_servers(asked: Asked, halves: int = HALVES) -> dict[str, Any]:
    """A random half of the servers that tasks need is held out: what is trained on are tasks that need only the other
    half, and what is asked are those that need only this one."""
    needed = sorted({min(need) for task in asked.tasks for need in task.servers})
    names = {server.written: server.name for server in asked.bench.servers}
    log = await asked.log(asked.seeds[0], DEFAULT)
    pairs: list[Pair] = []
    for seed in range(halves):
        out = half(needed, seed)
        asking = frozenset(task.task_id for task in asked.tasks if _needs(task) and _needs(task) <= out)
        others = frozenset(task.task_id for task in asked.tasks if not _needs(task) & out)
        if not asking or not others:
            continue
        adapter = await adapter_of(asked.bench, log, log.episodes(others), replace(asked.settings, seed=seed))
        tasks = asked.within(asking)
        old = {task.task_id: asked.untrained[task.task_id] for task in tasks}
        if adapter is not None:
            wrongly = sum(names.get(server, server) in adapter.servers for server in out)
            asked.say(f"    half {seed}: {len(tasks)} tasks, {wrongly} held-out servers were taken for learned")
        pairs.append((old, old if adapter is None else worths(asked.router(adapter), tasks)))
    return {**compared(asked.tasks, pairs), "halves": len(pairs)}


async def curve(asked: Asked, sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """By number of episodes trained on, in the first seed."""
    first = asked.seeds[:1]
    return {str(size): summed(asked, await pairs_of(asked, by_task, seeds=first, most=size)) for size in sizes}


async def ablation(asked: Asked) -> dict[str, Any]:
    """The same logs with rewards, and with rewards ignored: whatever was called is right, whoever called it. Then both
    after training, one against the other."""
    ignoring = DataSettings(caps=CapSettings(agent_share=1.0))
    plain = replace(asked.settings, algorithm="imitation")
    filtered = replace(asked.settings, algorithm="filtered-imitation")
    rewarded = await pairs_of(asked, by_task)
    ignored = await pairs_of(asked, by_task, settings=plain, bench=replace(asked.bench, data=ignoring))
    between = {
        seed: [(without, with_) for (_, without), (_, with_) in zip(ignored[seed], its, strict=True)]
        for seed, its in rewarded.items()
    }
    return {
        "rewards": summed(asked, rewarded),
        "filtered imitation": summed(asked, await pairs_of(asked, by_task, settings=filtered)),
        "rewards ignored": summed(asked, ignored),
        "ignored to rewards": summed(asked, between),
    }


async def rubrics(asked: Asked) -> dict[str, Any]:
    """Rewards by the default rubric, and by rubrics that were derived from good episodes of the same tasks."""
    return {kind: summed(asked, await pairs_of(asked, by_task, rubric=kind)) for kind in (DEFAULT, DERIVED)}


async def poisoned(asked: Asked, log: Log) -> dict[str, Any]:
    """Nine of ten episodes are by one credential that calls wrong tools and claims success, and one server stuffs its
    descriptions with everybody's words and praises itself in its results. Held-out tasks, trained on the whole log and
    on the others' episodes alone; then the first against the second."""
    others = frozenset(log.agents.values()) - {POISONER}
    with_it: list[Pair] = []
    without: list[Pair] = []
    beside: list[Pair] = []
    untrained = worths(asked.router(None), asked.tasks)
    for held_out in by_task(asked.tasks, 0):
        episodes = log.episodes(frozenset(log.tasks.values()) - held_out)
        tasks = asked.within(held_out)
        old = {task.task_id: untrained[task.task_id] for task in tasks}
        found: list[Mapping[str, Worth]] = []
        for agents in (None, others):
            adapter = await adapter_of(asked.bench, log, episodes, asked.settings, agents=agents)
            found.append(old if adapter is None else worths(asked.router(adapter), tasks))
        with_it.append((old, found[0]))
        without.append((old, found[1]))
        beside.append((found[1], found[0]))
    share = sum(agent == POISONER for agent in log.agents.values()) / len(log.agents)
    return {
        "share of the traffic": round(share, 3),
        "with it": compared(asked.tasks, with_it),
        "without it": compared(asked.tasks, without),
        "difference": compared(asked.tasks, beside),
    }


def _needs(task: Task) -> frozenset[str]:
    return frozenset(combination(task).split())
