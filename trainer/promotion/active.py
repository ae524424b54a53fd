"""An active adapter against what it was as a canary: since nothing else answers any more, there is nothing nearer.

Above: advancing.py. Below: canary.py and sequential.py. The test is the canary's, against "the mean is at most `amount`
below what it was". That a change of the world can bring about, too; then as well the one before it is the one to go
back to, until another is trained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from proxy.router.serving import in_canary
from proxy.store.database import Database
from proxy.store.registry import Entry, State
from trainer.promotion.canary import Outcome, Task, Tasks, first_answer
from trainer.promotion.gates import Gate, Result
from trainer.promotion.sequential import Bet, SequentialSettings
from trainer.promotion.settings import PromotionSettings


async def active_gates(
    database: Database, entry: Entry, settings: PromotionSettings, tasks_of: Tasks
) -> tuple[Gate, ...]:
    """One for each outcome; none of them holds anything."""
    canary = next((change for change in reversed(entry.history) if change.state is State.CANARY), None)
    if canary is None or datetime.now(UTC) > entry.since + timedelta(days=settings.watched_days):
        return (Gate("active", Result.PASSED, "it is watched no more"),)
    began = await first_answer(database, entry.adapter.hash, canary.at)
    if began is None:
        return (Gate("active", Result.PASSED, "it has answered nothing yet"),)
    tasks = await tasks_of.ended(began)
    then = [
        task
        for task in tasks
        if task.ended_at <= entry.since and in_canary(entry.adapter.hash, task.episode_id, canary.share or 0.0)
    ]
    now = [task for task in tasks if task.began_at > entry.since]
    return tuple(fallen(outcome, then, now, settings.sequential) for outcome in Outcome)


def fallen(outcome: Outcome, then: Sequence[Task], now: Sequence[Task], settings: SequentialSettings) -> Gate:
    """Whether the outcome is more than the amount below what it was `then`; both in the order in which they ended."""
    if outcome is Outcome.REWARD:
        then, now = _of_one_judge(then, now)
    before = [task.values[outcome] for task in then if outcome in task.values]
    after = [task.values[outcome] for task in now if outcome in task.values]
    if not before or not after:
        return Gate(outcome, Result.PASSED, "nothing to compare yet")
    was, bet, result = sum(before) / len(before), Bet(), Result.PASSED
    for value in after:
        bet.add(max(0.0, was - settings.amount) - value)
        if bet.wins(settings.alpha / len(Outcome)):
            result = Result.REFUSED
            break
    text = f"{sum(after) / len(after):.3f} in {len(after)} tasks, {was:.3f} in {len(before)} of its tasks as a canary"
    return Gate(outcome, result, text)


def _of_one_judge(then: Sequence[Task], now: Sequence[Task]) -> tuple[list[Task], list[Task]]:
    """Rewards of different judges and scopes are not compared: those of the most frequent one of then."""
    judged = Counter(task.judged_by for task in then if Outcome.REWARD in task.values)
    usual = max(judged, key=lambda name: (judged[name], name), default="")
    return [task for task in then if task.judged_by == usual], [task for task in now if task.judged_by == usual]
