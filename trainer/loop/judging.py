"""The parts of learning that are the judge's: rewards for what has ended, and rubrics where there are good episodes.

Above: learning.py. Below: judge/. Nothing is judged twice, and no rubric is written where one is attached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio

from judge.admission import admit
from judge.authoring import Target, attach_written, narrowed, write_derived
from judge.checks.library import Library
from judge.claims import Claims, Wanted
from judge.default import default_rubric
from judge.filing import file_episodes
from judge.judging import Judge
from judge.keeping import keep_default
from judge.queries import families
from judge.running import Pace, Worker
from judge.tally import Tally
from judge.trust.gold_files import own_gold
from proxy.errors import ConfigurationError
from proxy.store.database import Database
from proxy.store.filters import Filters
from proxy.store.rubrics import Attached, attachments

CHECKS_BATCH, MODEL_BATCH, MODEL_AT_ONCE = 100, 8, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricSettings:
    """When a family gets a rubric of its own."""

    derive: bool = True
    """Whether rubrics are written at all: by code, from good episodes."""
    least: int = 6
    """Episodes of the family: at most half of them become sources, which are then judged by the default rubric."""


async def judge_all(
    database: Database,
    judge: Judge,
    *,
    filters: Filters | None = None,
    told: Callable[[Tally, int], None] = lambda _done, _waiting: None,
    stop: anyio.Event | None = None,
) -> Tally:
    """Judge whatever has ended and has no judgement by `judge` yet, beside others who do the same.

    Args:
        told: What came of each batch, and how many episodes were waiting in the beginning.
        stop: Set, it ends after the batch that was begun.

    Raises:
        Refused: A canary got too much, or a model does not agree with people.
    """
    models = judge.prompt_hash is not None
    default = default_rubric()
    if models:
        await admit(database, judge, own_gold(default))
    hashed = await keep_default(database, default)
    await file_episodes(database)
    wanted = Wanted(judge=judge.name, filters=filters or Filters(), default=hashed)
    waiting = await Claims(database, wanted, worker="", lease_s=1.0).waiting()
    if not waiting:
        return Tally()
    pace = Pace(batch=MODEL_BATCH, at_once=MODEL_AT_ONCE) if models else Pace(batch=CHECKS_BATCH)
    worker = Worker(database, judge, wanted, pace, canaries=default, told=lambda done: told(done, waiting))
    return await worker.run(stop or anyio.Event())


async def write_rubrics(
    database: Database, library: Library, settings: RubricSettings, *, told: Callable[[str], None] = lambda _: None
) -> int:
    """A rubric for each family with episodes enough that has none, and judges it from now on; how many."""
    if not settings.derive:
        return 0
    await file_episodes(database)
    attached = {(each.scope, each.target) for each in await attachments(database)}
    made = 0
    for family in await families(database):
        if family.episodes < settings.least:
            continue
        target = await narrowed(database, Target(Attached.FAMILY, family.id))
        if {(Attached.FAMILY, family.id), (target.kind, target.id)} & attached:
            continue
        try:
            written = await write_derived(database, target, library)
        except ConfigurationError as error:
            told(f"no rubric for {target.kind} {target.id}: {error}")
            continue
        await attach_written(database, written)
        told(f"a rubric for {target.kind} {target.id}, from {len(written.sources)} episodes")
        made += 1
    return made
