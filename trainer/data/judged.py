"""Judged episodes with their steps, one after the other; and which ones are left out, each with the reason.

Above: collecting.py. Below: proxy.store. Nothing is learned from an episode that is not whole: of what was not written,
one cannot say whether it was right. An episode that touched a server whose contents are not logged is left out whole,
so that nothing of it, not even what was said before, comes into a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import StrEnum

from judge.groups import Group
from proxy.store.database import Database
from proxy.store.filters import Filters
from proxy.store.recorder import EndReason, Level
from proxy.store.rendering import REVISION
from proxy.store.rewards import Reward, rewards_of
from proxy.store.trajectories import pages, stream
from proxy.store.trajectory import Trajectory


class LeftOut(StrEnum):
    """Why an episode is not trained on, in the words of a report."""

    UNJUDGED = "not judged"
    UNREWARDED = "judged without a reward"
    RUNNING = "still running"
    LOST = "steps of it, or its end, were lost"
    PRIVATE = "not logged in full"
    RENDERING = "logged under another revision of the rendering"
    GONE = "deleted while it was read"


@dataclass(slots=True)
class Tally:
    """What came of each episode that was looked at."""

    used: int = 0
    left_out: Counter[LeftOut] = field(default_factory=Counter[LeftOut])

    @property
    def seen(self) -> int:
        return self.used + self.left_out.total()

    def __str__(self) -> str:
        """`42 of 200 episodes: 150 not judged, 8 not logged in full`."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self.left_out.items()))
        return f"{self.used} of {self.seen} episodes{': ' if reasons else ''}{reasons}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One episode that can be learned from."""

    trajectory: Trajectory
    reward: Reward
    """Its `reward` is not None."""

    @property
    def episode_id(self) -> str:
        return self.trajectory.id

    @property
    def value(self) -> float:
        """0 to 1."""
        assert self.reward.reward is not None
        return self.reward.reward

    @property
    def group(self) -> Group | None:
        """What its reward is compared within; None of no family."""
        its = self.reward
        if its.family is None:
            return None
        return Group(family=its.family, rubric_hash=its.rubric_hash, judge=its.judge, scope=its.scope)


async def judged(
    database: Database, filters: Filters | None = None, *, judge: str | None = None, tally: Tally | None = None
) -> AsyncIterator[Judged]:
    """All that `filters` choose and that can be learned from, in the order in which they began.

    Some hundred rewards and some thousand steps are in memory at a time. The latest judgement counts; with `judge`, the
    latest one of that name. `tally` is told of every episode.
    """
    tally = Tally() if tally is None else tally
    async for ids in pages(database, filters or Filters()):
        async with database.reading() as connection:
            rewards = await rewards_of(connection, ids, judge=judge)
        wanted: list[str] = []
        for episode_id in ids:
            reward = rewards.get(episode_id)
            if reward is None:
                tally.left_out[LeftOut.UNJUDGED] += 1
            elif reward.reward is None:
                tally.left_out[LeftOut.UNREWARDED] += 1
            else:
                wanted.append(episode_id)
        if not wanted:
            continue
        found = 0
        async for trajectory in stream(database, Filters(ids=tuple(wanted))):
            found += 1
            if (reason := incomplete(trajectory)) is not None:
                tally.left_out[reason] += 1
            else:
                tally.used += 1
                yield Judged(trajectory=trajectory, reward=rewards[trajectory.id])
        if found < len(wanted):
            tally.left_out[LeftOut.GONE] += len(wanted) - found


def incomplete(trajectory: Trajectory) -> LeftOut | None:
    """Why an episode cannot be learned from, whatever its reward; None where it can."""
    ending = trajectory.ending
    if ending is None:
        return LeftOut.RUNNING
    if ending.level is not Level.FULL or any(step.level is not Level.FULL for step in trajectory.every_step()):
        return LeftOut.PRIVATE
    # Calls of code whose run was never written stand among the agent's own steps.
    orphans = any(step.parent_id is not None for step in trajectory.steps)
    if trajectory.lost or orphans or ending.reason in (EndReason.LOST, EndReason.DELETED):
        return LeftOut.LOST
    return None if trajectory.rendering == REVISION else LeftOut.RENDERING
