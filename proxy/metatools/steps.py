"""Makes the log's steps of finished calls, and decides how much of each may be written.

Above: endpoint/calls.py and code_calls.py, whose calls come here in any case, whatever they came to. Below: recorders.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from proxy.gateway import Gateway
from proxy.metatools.base import Target
from proxy.metatools.unreached import level_of_unreached
from proxy.store.recorder import Call, Ending, Level, Outcome, Recorder, Step
from proxy.tasks import Task, Trail


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """One call that is over."""

    id: str
    parent: str | None = None
    mode: str
    name: str
    arguments: Any
    target: Target
    outcome: Outcome
    result: Mapping[str, Any] | None = None
    error: str | None = None
    server: str | None = None
    """Configured name of the only server that it can have been for, if there is only one."""
    astray: bool = False
    """It was for a task that is not there."""
    started_at: datetime
    began: float
    """Of `time.perf_counter`."""


class Steps:
    """Hands steps to recorders."""

    def __init__(self, gateway: Gateway, recorders: Sequence[Recorder], level: Level) -> None:
        """`level`: the most that is written of any step."""
        self._gateway = gateway
        self._recorders = recorders
        self._level = level
        self.observers: list[Recorder] = []
        """Count and time steps and keep no contents. Of steps that are written nowhere they get an outline."""

    def record(self, task: Task, call: Finished) -> None:
        _follow(task.trail, call)
        level = Level.least((self._level, call.target.level, task.level, self._unreached(call)))
        if level is Level.OFF and not self.observers:
            return
        step = Step(
            id=call.id,
            parent=call.parent,
            episode=task.episode,
            mode=call.mode,
            name=call.name,
            arguments=call.arguments,
            outcome=call.outcome,
            started_at=call.started_at,
            duration_ms=(time.perf_counter() - call.began) * 1000,
            result=call.result,
            error=call.error,
            call=_seen(call.target.call, call.result),
            revealed=tuple(call.target.revealed),
            decision=call.target.decision,
            catalog=self._gateway.catalog.hash,
            level=level,
        )
        if level is Level.OFF:
            step = _outline(step)
        for recorder in self.observers if level is Level.OFF else (*self._recorders, *self.observers):
            recorder.record(step)

    def end(self, ending: Ending) -> None:
        """Of an episode whose last step was recorded."""
        level = Level.least((self._level, ending.level))
        for recorder in self.observers if level is Level.OFF else (*self._recorders, *self.observers):
            recorder.end(replace(ending, level=level))

    def _unreached(self, call: Finished) -> Level:
        if call.target.call is not None:
            return Level.FULL
        return level_of_unreached(self._gateway, call.mode, call.name, call.arguments, call.server, astray=call.astray)


def _follow(trail: Trail, call: Finished) -> None:
    """What the next search of the task is ranked with."""
    target = call.target
    if target.decision is not None:
        trail.search(target.decision.query, target.decision.shown)
    trail.reveal(shown.tool for shown in target.revealed if shown.how == "definition")
    if target.call is not None and call.outcome is Outcome.OK:
        trail.call(target.call.written)


def _outline(step: Step) -> Step:
    """That something was called and what came of it, without contents and without the name of the tool."""
    call, decision = step.call, step.decision
    if call is not None:
        call = replace(call, tool="", written="", arguments=None, result=None)
    if decision is not None:
        decision = replace(decision, query="", task=None, servers=None, candidates=(), shown=())
    return replace(
        step,
        name=step.name if step.mode == "search" else "",
        arguments=None,
        result=None,
        error=None,
        call=call,
        revealed=(),
        decision=decision,
    )


def _seen(call: Call | None, result: Mapping[str, Any] | None) -> Call | None:
    """With the step's own result in place of an equal one, so that it is written once."""
    if call is None or result is None or call.result is None or call.result is result:
        return call
    same = call.result.keys() == result.keys() and all(call.result[key] is value for key, value in result.items())
    return replace(call, result=result) if same else call
