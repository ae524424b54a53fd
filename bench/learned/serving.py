"""All the way, once: from an empty log to an adapter that serves, with a gateway that runs throughout.

Above: bench/learn.py with `--quick`. Below: bench/traffic, and a turn of `toolatlas learn` again and again. Nothing is
forced: traffic comes until the gates have decided, and what they decided is what is reported.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from bench.learned.logs import Say
from bench.measure import Missing
from bench.traffic.running import logged, play
from bench.traffic.stage import BUDGET_MS, stage
from bench.traffic.tasks import read_work
from judge.checks.library import library
from judge.judging import Judge
from judge.settings import RewardSettings
from proxy.errors import ConfigurationError
from proxy.router.adapters import load_adapter
from proxy.store.database import Database
from proxy.store.registry import SHORT, State, entries
from proxy.store.tables import DecisionRow
from trainer.loop.learning import LearningSettings, Turn, turn
from trainer.loop.running import Place
from trainer.loop.runs import Runs
from trainer.promotion.gates import GateSettings
from trainer.promotion.sequential import SequentialSettings
from trainer.promotion.settings import PromotionSettings
from trainer.settings import TrainingSettings

FOLLOW_S = "1"
NEVER = 1_000_000
"""New episodes before it is trained again: here, once is all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """How much traffic, in episodes."""

    training: int = 500
    round: int = 40
    """Between two looks at the registry."""
    most_rounds: int = 20
    least: int = 200
    """To train at all."""
    promotion: PromotionSettings = field(
        default_factory=lambda: PromotionSettings(
            # The gateway of the bench gives its router as long, for several agents share its processors.
            gates=GateSettings(budget_ms=BUDGET_MS),
            sequential=SequentialSettings(),
            share=0.3,
        )
    )


@dataclass(slots=True, kw_only=True)
class Way:
    """What came of it."""

    adapter: str | None = None
    folder: Path | None = None
    """Of the adapter."""
    states: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Each change, with its reason."""
    episodes: int = 0
    judged: int = 0
    rubrics: int = 0
    answered: int = 0
    """Searches that the adapter answered; by the decision log, which names its hash."""
    idle: str | None = None
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def state(self) -> str | None:
        return self.states[-1]["state"] if self.states else None


async def all_the_way(
    folder: Path,
    catalog: Path,
    tasks: Path,
    place: Place,
    *,
    amounts: Amounts,
    training: TrainingSettings,
    seed: int,
    router_environ: dict[str, str] | None = None,
    say: Say = print,
) -> Way:
    """Traffic, a turn of learning, and then traffic and turns until the adapter is active, retired, or held too long.

    Args:
        folder: Empty: log, runs and state of the gateway.
        tasks: That agents work: none that is held out.
    """
    url = f"sqlite:///{folder / 'log.db'}"
    work, way = read_work(tasks), Way()
    settings = LearningSettings(training=training, promotion=amounts.promotion, new_episodes=NEVER)
    environ = {
        "TOOLATLAS_ADAPTERS": str(place.adapters),
        "TOOLATLAS_FOLLOW": FOLLOW_S,
        **(router_environ or {}),
    }
    async with stage(catalog, tasks, url, environ=environ, folder=folder / "gateway") as running:

        async def traffic(count: int) -> None:
            began = time.perf_counter()
            made = await play(running, work, episodes=count, seed=seed, first=way.episodes)
            await logged(url, made)
            way.episodes += count
            way.seconds["traffic"] = way.seconds.get("traffic", 0.0) + time.perf_counter() - began

        learned = partial(_turn, url, settings, Runs(folder / "runs"), place, way, say)
        say(f"simulated traffic: {amounts.training} episodes of {len(work)} tasks")
        await traffic(amounts.training)
        say("judging, training, comparing")
        first = await learned()
        way.idle, way.adapter = first.idle, first.adapter
        if way.adapter is None:
            return way
        way.folder = place.adapters / way.adapter
        for _ in range(amounts.most_rounds):
            if await _state(url, way) in (State.ACTIVE, State.RETIRED):
                break
            await traffic(amounts.round)
            await learned()
        await _state(url, way)
        if way.state == State.ACTIVE:
            # Now everybody is answered by it.
            await traffic(amounts.round)
    way.answered = await _answered(url, way.adapter)
    return way


async def _turn(url: str, settings: LearningSettings, runs: Runs, place: Place, way: Way, say: Say) -> Turn:
    began = time.perf_counter()
    database = Database(url, statement_s=None)
    judge = Judge(library(), RewardSettings())
    try:
        done = await turn(
            database,
            judge,
            settings,
            runs,
            place,
            command=["python", "-m", "bench", "learn", "--quick"],
            usable=lambda hashed: _loadable(place.adapters / hashed),
        )
    finally:
        await judge.close()
        await database.close()
    way.judged += done.judged
    way.rubrics += done.rubrics
    way.seconds["learning"] = way.seconds.get("learning", 0.0) + time.perf_counter() - began
    for look in done.looks:
        say(f"  {look.hash[:SHORT]} {look.before} -> {look.after}: {look.reason[:300]}")
    return done


async def _state(url: str, way: Way) -> State:
    database = Database(url)
    try:
        found = next(each for each in await entries(database) if each.adapter.hash == way.adapter)
    finally:
        await database.close()
    way.states = [
        {"state": str(each.state), "share": each.share, "reason": each.reason, "by": each.by} for each in found.history
    ]
    return found.state


async def _answered(url: str, hashed: str) -> int:
    database = Database(url)
    try:
        async with database.reading() as connection:
            statement = select(func.count()).select_from(DecisionRow).where(DecisionRow.adapter == hashed)
            return int((await connection.execute(statement)).scalar_one())
    finally:
        await database.close()


def _loadable(folder: Path) -> bool:
    try:
        load_adapter(folder)
    except ConfigurationError:
        return False
    return True


def training_tasks(path: Path, held_out: frozenset[str], to: Path) -> Path:
    """The task file without the tasks that are held out: agents never see one of them.

    Raises:
        Missing: Nothing is left.
    """
    kept: Sequence[str] = [
        line
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if line.strip() and _id(line, number) not in held_out
    ]
    if not kept:
        raise Missing(f"{path} has too few tasks to hold some out; --tasks names another")
    to.write_text("".join(f"{line}\n" for line in kept), "utf-8")
    return to


def _id(line: str, number: int) -> str:
    return str(json.loads(line).get("task_id", number))
