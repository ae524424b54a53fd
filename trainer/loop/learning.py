"""All of learning, one turn of it: judge, write rubrics, train, evaluate, propose. What was done is not done again.

Above: the command `toolatlas learn`, and `python -m bench learn`. Below: judging.py, preparing.py, running.py and
promotion/. A turn depends on the log, the registry and the runs alone: one that is killed is taken up by the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from judge.checks.library import library
from judge.judging import Judge
from judge.tally import Tally
from proxy.store.database import Database
from trainer.loop.judging import RubricSettings, judge_all, write_rubrics
from trainer.loop.preparing import Say, TooLittle, freeze, gather
from trainer.loop.running import Place, run_through
from trainer.loop.runs import FAILED, Run, Runs
from trainer.loop.training import Interrupted, Tell
from trainer.promotion.advancing import Look, advance
from trainer.promotion.settings import PromotionSettings
from trainer.settings import TrainingSettings, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSettings:
    """Of one turn."""

    training: TrainingSettings = field(default_factory=TrainingSettings)
    rubrics: RubricSettings = field(default_factory=RubricSettings)
    promotion: PromotionSettings = field(default_factory=PromotionSettings)
    new_episodes: int = 50
    """That can be learned from and were not there when it was trained last, before it is trained again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Whom a turn tells how it goes; all of it may be ignored."""

    say: Say = lambda _: None
    judged: Callable[[Tally, int], None] = lambda _done, _waiting: None
    steps: Callable[[int], None] = lambda _: None
    updated: Tell = lambda _position, _loss: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one turn did."""

    judged: int = 0
    rubrics: int = 0
    run: str | None = None
    """Of the training; None where nothing was trained."""
    adapter: str | None = None
    """Hash of what came out of it."""
    idle: str | None = None
    """Why nothing was trained."""
    too_little: bool = False
    """Whether that is since the log has too little."""
    looks: tuple[Look, ...] = ()
    """At the adapters of the registry, this one among them."""


async def turn(
    database: Database,
    judge: Judge,
    settings: LearningSettings,
    runs: Runs,
    place: Place,
    *,
    command: Sequence[str],
    usable: Callable[[str], bool],
    wanted: Callable[[], bool] = lambda: True,
    told: Told | None = None,
) -> Turn:
    """One turn.

    Args:
        usable: Whether an adapter, by its hash, can be loaded.
        wanted: Asked between parts and after every update; once it says no, the turn ends.

    Raises:
        Interrupted: `wanted` said no; the next turn goes on from there.
        Refused: The judge cannot be trusted.
        ConfigurationError: What a part raises.
    """
    told = told or Told()
    judged = await judged_all(database, judge, settings.rubrics, told, wanted)
    trained = await _train(database, settings, runs, place, command, wanted, told)
    looks = await advance(database, settings.promotion, by=place.by, usable=usable)
    return Turn(judged=judged[0], rubrics=judged[1], looks=tuple(looks), **trained)


async def judged_all(
    database: Database, judge: Judge, settings: RubricSettings, told: Told, wanted: Callable[[], bool]
) -> tuple[int, int]:
    """How many episodes were judged, and how many rubrics written; what new rubrics are for is judged anew."""

    def heard(done: Tally, waiting: int) -> None:
        told.judged(done, waiting)
        if not wanted():
            stop.set()

    stop = anyio.Event()
    judged = (await judge_all(database, judge, told=heard, stop=stop)).judged
    _check(wanted)
    written = await write_rubrics(database, library(), settings, told=told.say)
    if written:
        judged += (await judge_all(database, judge, told=heard, stop=stop)).judged
    _check(wanted)
    return judged, written


async def _train(
    database: Database,
    settings: LearningSettings,
    runs: Runs,
    place: Place,
    command: Sequence[str],
    wanted: Callable[[], bool],
    told: Told,
) -> Mapping[str, Any]:
    last = _last(runs, settings.training)
    if last is None or last.result is not None:
        told.say("reading the log")
        try:
            collected = await gather(database, settings.training)
        except TooLittle as error:
            return {"idle": str(error), "too_little": True}
        known = 0 if last is None else int(last.facts["data"]["episodes"])
        new = collected.tally.used - known
        if last is not None and new < settings.new_episodes:
            return {"idle": f"{new} of {settings.new_episodes} new episodes since the run {last.id}{_failed(last)}"}
        last = await freeze(
            database,
            collected,
            settings.training,
            runs,
            command=command,
            encoder=place.encoder,
            say=told.say,
        )
        _check(wanted)
    else:
        told.say(f"going on with the run {last.id}")
    result = await run_through(database, last, place, tell=told.updated, wanted=wanted, say=told.say, steps=told.steps)
    return {"run": last.id, "adapter": result["adapter"]}


def _last(runs: Runs, settings: TrainingSettings) -> Run | None:
    """The newest run with these settings."""
    said = to_json(settings)
    return next((run for run in runs.all() if run.facts["settings"] == said), None)


def _failed(run: Run) -> str:
    why = (run.result or {}).get(FAILED)
    return f", which came to nothing: {why}" if why else ""


def _check(wanted: Callable[[], bool]) -> None:
    if not wanted():
        raise Interrupted
