"""Rankings of judged episodes as rows: what was asked and known then, what was shown, and what was used of it.

Above: collecting.py. Below: judged.py, the store's decisions, and proxy/tasks.py, whose trail is what the router was
told of a task's past. Pure functions.

A tool that a ranking showed is used if it was called before another ranking showed it again; one that no ranking had
shown until then, if it was called before the next ranking: the agent knew it from lists, or from before, and the
ranking missed it. Calls of code are calls. What an agent claims in the end stands nowhere here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from sys import intern

from proxy.router.base import History, Query
from proxy.store.decisions import DEFINITION, Decided, decided
from proxy.store.recorder import Outcome
from proxy.store.trajectory import Trajectory, TrajectoryStep
from proxy.tasks import Trail
from trainer.data.judged import Judged
from trainer.rows import Origin, RankingRow, Used


def origin_of(judged: Judged, advantage: float = 0.0) -> Origin:
    """Where rows of an episode are from."""
    trajectory = judged.trajectory
    return Origin(
        episode_id=trajectory.id,
        agent=intern(trajectory.agent),
        family=judged.reward.family,
        task=user_words(trajectory),
        began_at=trajectory.began_at,
        catalog=intern(trajectory.catalog),
        servers=frozenset(intern(step.call.server) for step in trajectory.every_step() if step.call is not None),
        reward=judged.value,
        advantage=advantage,
    )


def user_words(trajectory: Trajectory) -> str | None:
    """The task in the user's own words; None where only the agent's searches are known."""
    ending = trajectory.ending
    return None if ending is None or ending.task_source != "task" else ending.task


def ranking_rows(judged: Judged, origin: Origin, turns: Sequence[float] = ()) -> list[RankingRow]:
    """A row for each ranking of an episode, in order; `turns` are their advantages, where not the episode's."""
    trajectory, credits = judged.trajectory, judged.reward.credits
    steps = _Steps(trajectory, credits)
    rows: list[RankingRow] = []
    for turn, made in enumerate(rankings(trajectory)):
        its = made.decision
        # Where the ranking itself was logged, all of it was.
        assert its.query is not None
        propensities = [each.propensity for each in made.shown if each.propensity is not None]
        rows.append(
            RankingRow(
                id=made.step_id,
                origin=origin,
                query=Query(
                    text=its.query,
                    task=its.task,
                    servers=None if its.servers is None else frozenset(its.servers),
                    history=steps.history(made.step_id),
                    episode=trajectory.id,
                ),
                policy=intern(its.policy),
                adapter=its.adapter,
                candidates=tuple((intern(tool), score) for tool, score in its.candidates or ()),
                shown=tuple(intern(each.tool) for each in made.shown),
                propensities=tuple(propensities) if len(propensities) == len(made.shown) else None,
                order_propensity=made.propensity,
                used=tuple(steps.used(made)),
                advantage=turns[turn] if turns else origin.advantage,
            )
        )
    return rows


def rankings(trajectory: Trajectory) -> list[Decided]:
    """The rankings of an episode that rows are made of."""
    return [each for each in decided(trajectory) if each.decision.query is not None]


def ranking_credits(trajectory: Trajectory, credits: Mapping[str, float]) -> tuple[float | None, ...]:
    """The mean credit of the steps from each ranking to the next one; None where no verdict speaks of any."""
    steps = list(trajectory.every_step())
    places = {step.id: place for place, step in enumerate(steps)}
    starts = [places[made.step_id] for made in rankings(trajectory)]
    ends = [*starts[1:], len(steps)]
    return tuple(mean_credit(steps[start:end], credits) for start, end in zip(starts, ends[: len(starts)], strict=True))


def step_credits(trajectory: Trajectory, credits: Mapping[str, float]) -> tuple[float | None, ...]:
    """The mean credit of each of the agent's own steps and the calls that its code made; None as above."""
    return tuple(mean_credit((step, *step.code_calls), credits) for step in trajectory.steps)


def mean_credit(steps: Iterable[TrajectoryStep], credits: Mapping[str, float]) -> float | None:
    known = [credits[step.id] for step in steps if step.id in credits]
    return fmean(known) if known else None


class _Steps:
    """An episode's steps, by place."""

    def __init__(self, trajectory: Trajectory, credits: Mapping[str, float]) -> None:
        self._steps = list(trajectory.every_step())
        self._place = {step.id: place for place, step in enumerate(self._steps)}
        self._credits = credits
        # In the order in which they were over: that is when the gateway notes them.
        self._over = sorted(self._steps, key=lambda step: (_end(step), step.seq))
        self._shown = {
            step.id: frozenset(step.decision.shown)
            for step in self._steps
            if step.decision is not None and step.decision.shown is not None
        }

    def history(self, search: str) -> History:
        """What the task had done when a search began."""
        began = self._steps[self._place[search]].started_at.timestamp()
        trail = Trail()
        for step in self._over:
            if _end(step) > began or step.id == search:
                continue
            if step.decision is not None and step.decision.query is not None:
                trail.search(step.decision.query, step.decision.shown or ())
            trail.reveal(shown.tool for shown in step.revealed if shown.how == DEFINITION)
            if step.call is not None and step.outcome is Outcome.OK:
                trail.call(step.call.written)
        return History(
            searched=tuple(trail.searched),
            revealed=tuple(map(intern, trail.revealed)),
            called=tuple(map(intern, trail.called)),
        )

    def used(self, made: Decided) -> Iterator[Used]:
        """What was called of what the ranking showed, in its order; then what it missed, by name."""
        at = self._place[made.step_id]
        for each in made.shown:
            if each.called is not None:
                again = self._next(at, each.tool)
                yield self._use(each.tool, each.called, self._calls(each.tool, at, again), shown=True)
        following = self._next(at, None)
        for tool, outcome in sorted(made.missed.items()):
            yield self._use(tool, outcome, self._calls(tool, at, following), shown=False)

    def _next(self, at: int, tool: str | None) -> float:
        """Where the next ranking is that shows a tool; the next one at all of None."""
        places = (self._place[step] for step, shown in self._shown.items() if tool is None or tool in shown)
        return min((place for place in places if place > at), default=math.inf)

    def _calls(self, tool: str, start: int, end: float) -> list[TrajectoryStep]:
        between = self._steps[start + 1 : None if end == math.inf else int(end)]
        return [step for step in between if step.call is not None and step.call.written == tool]

    def _use(self, tool: str, outcome: Outcome, calls: Sequence[TrajectoryStep], *, shown: bool) -> Used:
        """Of a call of code that no verdict names, the credit of its run counts."""
        named = [step.id if step.id in self._credits else step.parent_id or step.id for step in calls]
        credits = [self._credits[each] for each in named if each in self._credits]
        return Used(
            tool=intern(tool),
            ok=outcome is Outcome.OK,
            credit=fmean(credits) if credits else None,
            shown=shown,
        )


def _end(step: TrajectoryStep) -> float:
    return step.started_at.timestamp() + step.duration_ms / 1000
