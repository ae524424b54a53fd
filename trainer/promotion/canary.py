"""What the log says of a canary: its tasks, those of the others at the same time, and what the tests find.

Above: advancing.py. Below: sequential.py, and proxy.store. Whose a task is says the hash of its id, as in the gateway
(proxy/router/serving.py), not the adapter that the log names: a canary that is late, or fails, so that words answer in
its place, has answered badly all the same. Tasks count from the first search that it answered, once they have ended, in
the order in which they ended, so that what was seen stays as it was when more comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from sqlalchemy import func, select

from proxy.router.serving import in_canary
from proxy.router.unanswered import Why
from proxy.store.database import Database
from proxy.store.decisions import decided
from proxy.store.filters import Filters
from proxy.store.recorder import Outcome as CallOutcome
from proxy.store.rewards import Reward, rewards
from proxy.store.tables import DecisionRow
from proxy.store.trajectories import pages, stream
from proxy.store.trajectory import Trajectory
from trainer.promotion.sequential import Found, SequentialSettings, SequentialTest, TaskValue, run_through


class Outcome(StrEnum):
    """What is watched of tasks, in the words of a report. Each is a value between 0 and 1, and more is better."""

    SUCCESS = "searches of which something was called, and it went well"
    ANSWERED = "searches that the router answered itself, in time"
    REWARD = "reward"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One that has ended."""

    episode_id: str
    began_at: datetime
    ended_at: datetime
    searches: int
    values: Mapping[Outcome, float]
    """Those that are known: not every task is judged."""
    judged_by: str
    """Judge and scope of its reward; rewards of others are not compared with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A canary as far as the log tells."""

    tests: Mapping[Outcome, SequentialTest]
    tasks: int
    """Of its own that have ended."""
    others: int

    @property
    def worse(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome, test in self.tests.items() if test.found is Found.WORSE)

    def safe(self, settings: SequentialSettings) -> bool:
        """Whether it may become active: success and answers are shown to be no worse by the amount, and so is the
        reward where as many searches were judged."""
        found = {outcome: test.found for outcome, test in self.tests.items()}
        needed = {Outcome.SUCCESS, Outcome.ANSWERED}
        if self.tests[Outcome.REWARD].searches >= settings.enough:
            needed.add(Outcome.REWARD)
        return not self.worse and all(found[outcome] is Found.SAFE for outcome in needed)


async def first_answer(database: Database, hashed: str, since: datetime) -> datetime | None:
    """When the canary answered first after it became one; None where it did not yet."""
    statement = select(func.min(DecisionRow.decided_at)).where(
        DecisionRow.adapter == hashed, DecisionRow.decided_at >= since
    )
    async with database.reading() as connection:
        return (await connection.execute(statement)).scalar_one()


class Tasks:
    """Reads tasks out of the log, each once: what has ended stays as it is, but for its reward."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, Task | None] = {}
        """By id of the episode; None for one without searches."""

    async def ended(self, since: datetime) -> list[Task]:
        """Those with searches that began then or later and have ended, in the order in which they ended."""
        filters = Filters(since=since, ended=True)
        ids = [each async for page in pages(self._database, filters) for each in page]
        fresh = tuple(each for each in ids if each not in self._known)
        async for trajectory in stream(self._database, Filters(ids=fresh)):
            self._known[trajectory.id] = _task(trajectory)
        given = {each.episode_id: each async for each in rewards(self._database, filters)}
        # Of those that were deleted since, none is among the ids.
        found = [task for each in ids if (task := self._known.get(each)) is not None]
        tasks = [_rewarded(task, given.get(task.episode_id)) for task in found]
        return sorted(tasks, key=lambda task: (task.ended_at, task.episode_id))


def _task(trajectory: Trajectory) -> Task | None:
    found = decided(trajectory)
    if not found or trajectory.ending is None:
        return None
    used = sum(any(shown.called is CallOutcome.OK for shown in each.shown) for each in found)
    # Without its adapter, as while that is made ready for changed tools, the router has answered all the same.
    answered = sum(each.decision.degraded in (None, Why.UNADAPTED) for each in found)
    return Task(
        episode_id=trajectory.id,
        began_at=trajectory.began_at,
        ended_at=trajectory.ending.ended_at,
        searches=len(found),
        values={Outcome.SUCCESS: used / len(found), Outcome.ANSWERED: answered / len(found)},
        judged_by="",
    )


def _rewarded(task: Task, reward: Reward | None) -> Task:
    if reward is None or reward.reward is None:
        return task
    values = {**task.values, Outcome.REWARD: reward.reward}
    return replace(task, values=values, judged_by=f"{reward.judge} {reward.scope}")


def watched(tasks: Sequence[Task], hashed: str, share: float, settings: SequentialSettings) -> Watched:
    """What the tests find after these tasks. `share`: of tasks that the canary answers."""
    own = {task.episode_id for task in tasks if in_canary(hashed, task.episode_id, share)}
    tests = {
        outcome: run_through(_of(tasks, outcome, own), share, settings, outcomes=len(Outcome)) for outcome in Outcome
    }
    return Watched(
        tests=tests,
        tasks=len(own),
        others=len(tasks) - len(own),
    )


def _of(tasks: Iterable[Task], outcome: Outcome, own: set[str]) -> list[TaskValue]:
    return [
        TaskValue(
            task.episode_id in own,
            task.values[outcome],
            task.searches,
            task.judged_by if outcome is Outcome.REWARD else "",
        )
        for task in tasks
        if outcome in task.values
    ]
