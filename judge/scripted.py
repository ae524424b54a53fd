"""Trajectories written by hand, for canaries, the gold set and tests: a short script in, values as from the log out.

Above: trust/, tests. Below: proxy.store's trajectory. A script is a mapping, as YAML gives it:

    task: What time is it in Oslo?          # left out: the agent passed on no task
    answer: It is 14:05 in Oslo.            # left out: the agent never said
    outcome: done
    steps:
      - search_tools: {query: time in a city}
        gives: "time.get_current_time(timezone: str) - the time now"
      - time.get_current_time: {timezone: Europe/Oslo}
        gives: '{"datetime": "2026-11-30T14:05:00+01:00"}'
        outcome: ok                          # any of Outcome; `ok` where left out
        cut: true                            # a part of the result was not kept

A name with a dot is a call of a server's tool by `call_tool`, or by code where the step has `by_code: true`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, cast

from proxy.store.recorder import EndReason, Level, Outcome
from proxy.store.trajectory import Size, Trajectory, TrajectoryCall, TrajectoryEnding, TrajectoryStep

BEGAN = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
_STEP_S = 2
_OWN = frozenset({"gives", "outcome", "cut", "by_code"})
_OUTCOMES = (None, "done", "failed", "abandoned")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted(Trajectory):
    """A trajectory that nobody lived: no log gives one, so any model may see it."""


def scripted(script: Mapping[str, Any], *, level: Level = Level.FULL) -> Scripted:
    """The trajectory that `script` tells. Its id is made of the script, so that the same script has the same one.

    Raises:
        ValueError: The script cannot be meant.
    """
    if unknown := sorted(script.keys() - {"task", "answer", "outcome", "steps"}):
        raise ValueError(f"a script has task, answer, outcome and steps, not {unknown[0]}")
    for name in ("task", "answer"):
        if not isinstance(script.get(name), str | None):
            raise ValueError(f"the {name} of a script is a text, not {script[name]!r}")
    if script.get("outcome") not in _OUTCOMES:
        raise ValueError(f"the outcome of a script is done, failed or abandoned, not {script['outcome']!r}")
    told: Any = script.get("steps", [])
    if not isinstance(told, list | tuple) or not all(isinstance(each, Mapping) for each in cast("list[Any]", told)):
        raise ValueError("the steps of a script are a list of mappings")
    steps = tuple(_step(place, each, level) for place, each in enumerate(cast("list[Mapping[str, Any]]", told)))
    full = level is Level.FULL
    return Scripted(
        id=f"e_{sha256(repr((script, level)).encode()).hexdigest()[:24]}",
        stream="st_scripted",
        agent="scripted",
        mode="search",
        client=None,
        protocol=None,
        rendering=1,
        catalog="",
        began_at=BEGAN,
        ending=TrajectoryEnding(
            reason=EndReason.FINISHED,
            ended_at=BEGAN + timedelta(seconds=_STEP_S * (len(steps) + 1)),
            outcome=script.get("outcome", "done"),
            answer=script.get("answer") if full else None,
            task=script.get("task") if full else None,
            task_source="task" if full and script.get("task") is not None else None,
            level=level,
            steps=len(steps),
            calls=sum(step.call is not None for step in steps),
            failures=sum(step.outcome is not Outcome.OK for step in steps),
            tokens_seen=sum((step.action_tokens or 0) + (step.observation_tokens or 0) for step in steps),
            tokens_eager=None,
        ),
        steps=steps,
        lost=0,
    )


def _step(place: int, told: Mapping[str, Any], level: Level) -> TrajectoryStep:
    names = [name for name in told if name not in _OWN]
    if len(names) != 1:
        raise ValueError(f"step {place + 1} of a script names one tool, not {names}")
    name, arguments = names[0], told[names[0]]
    full = level is Level.FULL
    if (ended := told.get("outcome", "ok")) not in tuple(Outcome):
        raise ValueError(f"the outcome of step {place + 1} of a script is one of {', '.join(Outcome)}, not {ended!r}")
    outcome = Outcome(ended)
    text = told.get("gives", "")
    if not isinstance(text, str):
        raise ValueError(f"what step {place + 1} of a script gives is a text, not {text!r}")
    failed = outcome is Outcome.TOOL_ERROR
    result = {"content": [{"type": "text", "text": text}], **({"isError": True} if failed else {})}
    at = BEGAN + timedelta(seconds=_STEP_S * (place + 1))
    kept = len(text)
    size = Size(whole_bytes=kept + (10_000 if told.get("cut") else 0), kept_bytes=kept, hash=None)
    server, dot, tool = name.partition(".")
    call = None
    if dot:
        call = TrajectoryCall(
            server=server,
            tool=tool,
            written=name,
            arguments=arguments if full else None,
            result=result if full else None,
            result_size=size,
            outcome=outcome,
            started_at=at,
            duration_ms=10.0,
            level=level,
        )
    by_code = bool(told.get("by_code"))
    asked = {"tool": name, "arguments": arguments} if dot and not by_code else arguments
    return TrajectoryStep(
        id=f"s_{place:016x}",
        parent_id=None,
        stream="st_scripted",
        seq=place + 1,
        mode="code" if by_code else "search",
        name=name if by_code or not dot else "call_tool",
        arguments=asked if full else None,
        outcome=outcome,
        error=None,
        observation=result if full else None,
        observation_size=size,
        action_tokens=20,
        observation_tokens=max(1, len(text) // 4),
        revealed=(),
        catalog="",
        level=level,
        started_at=at,
        duration_ms=10.0,
        call=call,
        decision=None,
    )
