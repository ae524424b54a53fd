"""What the shadow adapter ranked, on its way into the log: beside its step, and only where that is written in full.

Above: app.py, which has both sides tell it. Below: router/serving.py's rankings of the shadow, store/recorder.py's
steps. A shadow is late by design, but may still be there before the search that it belongs to is recorded.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from proxy.router.history import remembering
from proxy.router.serving import MAX_SHADOWS, Shadowed
from proxy.store.recorder import Ending, Episode, Level, ShadowDecision, Step

MOST_STEPS = 1_000
"""Searches whose shadow may still come; it has some seconds."""
MOST_EARLY = 2 * MAX_SHADOWS

_Value = TypeVar("_Value")


class ShadowLog:
    """Implements `Recorder`, and observes `Serving`."""

    def __init__(self, keep: Callable[[ShadowDecision], None]) -> None:
        """`keep`: told of each shadow once its step was recorded; neither raises nor waits."""
        self._keep = keep
        self._steps: OrderedDict[str, Episode] = OrderedDict()
        self._early: OrderedDict[str, Shadowed] = OrderedDict()

    def record(self, step: Step) -> None:
        """To be told after the recorder that keeps the step."""
        if step.decision is None:
            return
        told = self._early.pop(step.id, None)
        if step.level is not Level.FULL:
            return
        if told is None:
            _put(self._steps, step.id, step.episode, MOST_STEPS)
        else:
            self._keep(_decision(told, step.id, step.episode))

    def end(self, ending: Ending) -> None:
        """Nothing: a shadow may come after the end of its episode."""

    def shadowed(self, told: Shadowed) -> None:
        """The shadow ranked a query."""
        step_id = told.query.step
        if step_id is None:
            return
        episode = self._steps.pop(step_id, None)
        if episode is None:
            _put(self._early, step_id, told, MOST_EARLY)
        else:
            self._keep(_decision(told, step_id, episode))


def _put(kept: OrderedDict[str, _Value], step_id: str, value: _Value, most: int) -> None:
    kept[step_id] = value
    if len(kept) > most:
        kept.popitem(last=False)


def _decision(told: Shadowed, step_id: str, episode: Episode) -> ShadowDecision:
    ranked = [found for found in told.shadow.tools if math.isfinite(found.score)]
    return ShadowDecision(
        step_id=step_id,
        episode=episode,
        policy=told.shadow.policy,
        adapter=told.shadow.adapter,
        # As the candidates of the decision itself, so that the two can be compared.
        candidates=tuple((found.tool, found.score) for found in remembering(ranked, told.query.history)),
        decided_at=datetime.now(UTC),
    )
