"""Makes simulated traffic: many episodes by several agents at once, each with its own chance, into a log.

Above: __main__.py and the bench of learning. Below: stage.py, agents.py, poisoner.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import anyio
import psutil
from sqlalchemy import select

from bench.lean import Era, HttpWire, LeanClient
from bench.measure import Missing, cpu_s
from bench.traffic.agents import Agent, Worked
from bench.traffic.habits import habits_of
from bench.traffic.poison import POISONER
from bench.traffic.poisoner import Poisoner
from bench.traffic.stage import Stage, stage
from bench.traffic.tasks import WorkTask, known_tasks, read_work
from proxy.store.database import Database
from proxy.store.tables import EndingRow

BAD = 0.3
AT_ONCE = 8
ANSWER_S = 120.0
LOGGED_S = 120.0
POLL_S = 0.1
ROUTER = "proxy.router.worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Traffic that was made. It is simulated."""

    episodes: Sequence[Worked]
    """In the order of their numbers."""
    seconds: float
    """Without starting and ending."""
    cpu_s: Mapping[str, float]
    """Processor time of the agents, the gateway, its router and the servers: on a machine that does other work, too,
    this says more than seconds."""
    left_out: int
    """Tasks of the file that need tools which the catalogue lacks."""

    def counts(self) -> dict[str, int]:
        decisions = [each for worked in self.episodes for each in worked.decisions]
        return {
            "episodes": len(self.episodes),
            "good episodes": sum(worked.good for worked in self.episodes),
            "careless episodes": sum(worked.careless for worked in self.episodes),
            "false claims": sum(worked.claimed for worked in self.episodes),
            "tasks": len({worked.task for worked in self.episodes}),
            "decisions": len(decisions),
            "bad decisions": sum(bool(each["slip"]) for each in decisions),
            "searches": sum(worked.searches for worked in self.episodes),
            "searches by words alone": sum(worked.degraded for worked in self.episodes),
            "calls": sum(worked.calls for worked in self.episodes),
            "needs": sum(worked.needs for worked in self.episodes),
            "needs met": sum(worked.met for worked in self.episodes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One episode to be made."""

    number: int
    task: WorkTask
    agent: str


async def make_traffic(
    catalog: Path,
    tasks: Path,
    database: str,
    *,
    episodes: int,
    seed: int = 0,
    agents: int = 8,
    bad: float = BAD,
    router: str = "fused",
    environ: Mapping[str, str] | None = None,
    poison: float = 0.0,
    stuffed: bool = False,
    labels: Path | None = None,
    folder: Path | None = None,
    at_once: int = AT_ONCE,
) -> Made:
    """Starts servers and a gateway that logs into `database`, makes `episodes`, and ends both.

    Args:
        tasks: What agents work; queries are made of nothing else.
        bad: Share of bad decisions.
        poison: Share of episodes by the poisoner.
        labels: File to append to what the simulator knows, for `--check-rewards` alone.
        folder, environ, router, stuffed, agents: See `stage`.

    Raises:
        Missing: A file is not there, or no task can be done with this catalogue.
        RuntimeError: A program did not start, or an answer was none.
    """
    async with stage(
        catalog, tasks, database, agents=agents, router=router, environ=environ, stuffed=stuffed, folder=folder
    ) as running:
        work = read_work(tasks)
        made = await play(running, work, episodes=episodes, seed=seed, bad=bad, poison=poison, at_once=at_once)
        await logged(database, made)
    if labels is not None:
        write_labels(labels, made)
    return made


async def play(
    running: Stage,
    tasks: Sequence[WorkTask],
    *,
    episodes: int,
    seed: int = 0,
    bad: float = BAD,
    poison: float = 0.0,
    at_once: int = AT_ONCE,
    first: int = 0,
) -> Made:
    """Makes episodes with a gateway that runs; `first` is the number of the first one, so that a second part of the
    same seed is other traffic.

    Raises:
        Missing: No task can be done with this catalogue.
    """
    doable = known_tasks(tasks, frozenset(":".join(name) for name in running.written))
    if not doable:
        raise Missing("the catalogue has the tools of none of these tasks")
    wishes = plan(doable, sorted(set(running.credentials) - {POISONER}), range(first, first + episodes), seed, poison)
    done: dict[int, Worked] = {}
    limit = anyio.CapacityLimiter(at_once)
    began, cpu_before = time.perf_counter(), _cpu_s(running)

    async def one(wish: Wish) -> None:
        async with limit:
            done[wish.number] = await _episode(running, wish, Random(f"{seed} {wish.number}"), bad)

    async with anyio.create_task_group() as group:
        for wish in wishes:
            group.start_soon(one, wish)
    return Made(
        episodes=[done[number] for number in sorted(done)],
        seconds=time.perf_counter() - began,
        cpu_s={part: round(spent - cpu_before.get(part, 0.0), 2) for part, spent in _cpu_s(running).items()},
        left_out=len(tasks) - len(doable),
    )


def plan(tasks: Sequence[WorkTask], agents: Sequence[str], numbers: range, seed: int, poison: float) -> list[Wish]:
    """Which agent works which task: all tasks about as often, each by several agents."""
    wishes: list[Wish] = []
    for number in numbers:
        order = list(range(len(tasks)))
        Random(f"{seed} round {number // len(tasks)}").shuffle(order)
        chance = Random(f"{seed} wish {number}")
        agent = POISONER if chance.random() < poison else chance.choice(list(agents))
        wishes.append(Wish(number=number, task=tasks[order[number % len(tasks)]], agent=agent))
    return wishes


async def logged(database: str, made: Made) -> None:
    """Until all these episodes stand in the log with their end.

    Raises:
        RuntimeError: Some never do.
    """
    wanted = {worked.episode for worked in made.episodes if worked.episode is not None}
    log = Database(database)
    try:
        with anyio.move_on_after(LOGGED_S):
            while wanted:
                async with log.reading() as connection:
                    rows = await connection.execute(select(EndingRow.episode_id))
                    wanted -= set(rows.scalars())
                if wanted:
                    await anyio.sleep(POLL_S)
            return
        raise RuntimeError(f"{len(wanted)} of {len(made.episodes)} episodes are not in the log after {LOGGED_S:.0f} s")
    finally:
        await log.close()


def write_labels(path: Path, made: Made) -> None:
    """Appends one line for each episode."""
    with path.open("a", encoding="utf-8") as file:
        for worked in made.episodes:
            file.write(json.dumps({**asdict(worked), "good": worked.good}) + "\n")


def _cpu_s(running: Stage) -> dict[str, float]:
    parts = {"gateway": running.program.pid, "servers": running.servers.pid}
    for child in psutil.Process(running.program.pid).children():
        if ROUTER in child.cmdline():
            parts["router"] = child.pid
    return {"agents": time.process_time(), **{part: cpu_s(pid) for part, pid in parts.items()}}


async def _episode(running: Stage, wish: Wish, chance: Random, bad: float) -> Worked:
    habits, careless = habits_of(bad, chance)
    poisoned = wish.agent == POISONER
    worked = Worked(task=wish.task.task_id, agent=wish.agent, careless=careless or poisoned)
    needs = [running.offers[running.written[need]] for need in wish.task.needs]
    wire = HttpWire(running.url, answer_s=ANSWER_S)
    try:
        client = LeanClient(wire, Era.SESSION, running.credentials[wish.agent])
        await client.open()
        kind = Poisoner if poisoned else Agent
        await kind(client, wish.task, needs, running.offers, habits, chance, worked).work()
        await wire.leave()
    finally:
        wire.close()
    return worked
