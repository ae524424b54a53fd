"""Rows of the tables put together to trajectories.

Above: trajectories.py, which reads the rows. Below: trajectory.py, whose values these become. Pure functions; a row is
anything with the columns of its table as attributes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.store.recorder import EndReason, Level, Outcome, Revealed
from proxy.store.trajectory import (
    EpisodeHead,
    Size,
    Trajectory,
    TrajectoryCall,
    TrajectoryDecision,
    TrajectoryEnding,
    TrajectoryShadow,
    TrajectoryStep,
)

ANSWERED = frozenset({Outcome.OK, Outcome.TOOL_ERROR})
"""How calls end that a server answered: only those have a result that the agent can have received unchanged."""


def head_of(episode: Any, ending: Any) -> EpisodeHead:
    """`ending` is None for an episode that is running."""
    return EpisodeHead(**_head(episode, ending))


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Rows that belong to steps, by the ids of these."""

    calls: Mapping[str, Any]
    decisions: Mapping[str, Any]
    shadows: Mapping[str, Any]
    delegated: Mapping[str, Sequence[str]]
    """Ids of episodes."""
    episodes: Mapping[str, str]
    """Of steps that delegated: the id of the episode that they are of."""


def trajectory_of(episode: Any, ending: Any, steps: Iterable[Any], beside: Beside, gaps: Iterable[Any]) -> Trajectory:
    """One episode; `steps` in the order in which they began, `gaps` those of the streams that its steps are from."""
    rows = list(steps)
    runs = {row.id for row in rows if row.parent_id is None}
    own: list[Any] = []
    in_code: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        (in_code[row.parent_id] if row.parent_id in runs else own).append(row)

    def step(row: Any, code_calls: tuple[TrajectoryStep, ...] = ()) -> TrajectoryStep:
        return _step(row, beside, code_calls)

    return Trajectory(
        **_head(episode, ending),
        steps=tuple(step(row, tuple(step(call) for call in in_code.get(row.id, ()))) for row in own),
        parent_episode=beside.episodes.get(episode.parent_step),
        lost=_lost(rows, gaps, open_ended=ending is None or ending.reason == EndReason.LOST),
    )


def _head(episode: Any, ending: Any) -> dict[str, Any]:
    return {
        "id": episode.id,
        "stream": episode.stream,
        "agent": episode.agent,
        "mode": episode.mode,
        "client": episode.client,
        "protocol": episode.protocol,
        "rendering": episode.rendering,
        "catalog": episode.catalog,
        "began_at": episode.began_at,
        "parent_step": episode.parent_step,
        "ending": None if ending is None else _ending(ending),
    }


def _ending(row: Any) -> TrajectoryEnding:
    return TrajectoryEnding(
        reason=EndReason(row.reason),
        ended_at=row.ended_at,
        outcome=row.outcome,
        answer=row.answer,
        task=row.task,
        task_source=row.task_source,
        level=Level(row.level),
        steps=row.steps,
        calls=row.calls,
        failures=row.failures,
        tokens_seen=row.tokens_seen,
        tokens_eager=row.tokens_eager,
    )


def _step(row: Any, beside: Beside, code_calls: tuple[TrajectoryStep, ...]) -> TrajectoryStep:
    call, decision = beside.calls.get(row.id), beside.decisions.get(row.id)
    return TrajectoryStep(
        id=row.id,
        parent_id=row.parent_id,
        stream=row.stream,
        seq=row.seq,
        mode=row.mode,
        name=row.name,
        arguments=row.arguments,
        outcome=Outcome(row.outcome),
        error=row.error,
        observation=row.observation,
        observation_size=_size(row.observation_bytes, row.observation_kept, row.observation_hash),
        action_tokens=row.action_tokens,
        observation_tokens=row.observation_tokens,
        revealed=tuple(Revealed(tool=tool, how=how) for tool, how in row.revealed or ()),
        catalog=row.catalog,
        level=Level(row.level),
        started_at=row.started_at,
        duration_ms=row.duration_ms,
        call=None if call is None else _call(call, row),
        decision=None if decision is None else _decision(decision, beside.shadows.get(row.id)),
        code_calls=code_calls,
        delegated=tuple(beside.delegated.get(row.id, ())),
    )


def _call(row: Any, step: Any) -> TrajectoryCall:
    outcome = Outcome(row.outcome)
    # No result of its own in the table means that the observation is the same, if the server answered at all.
    unchanged = row.result is None and outcome in ANSWERED
    return TrajectoryCall(
        server=row.server,
        tool=row.tool,
        written=row.written,
        arguments=step.arguments if row.arguments is None else row.arguments,
        result=step.observation if unchanged else row.result,
        result_size=_size(step.observation_bytes, step.observation_kept, step.observation_hash)
        if unchanged and row.result_bytes is None
        else _size(row.result_bytes, row.result_kept, row.result_hash),
        outcome=outcome,
        started_at=row.started_at,
        duration_ms=row.duration_ms,
        level=Level(step.level),
    )


def _size(whole: int | None, kept: int | None, hashed: str | None) -> Size | None:
    return None if whole is None else Size(whole_bytes=whole, kept_bytes=kept or 0, hash=hashed)


def _decision(row: Any, shadow: Any) -> TrajectoryDecision:
    return TrajectoryDecision(
        policy=row.policy,
        adapter=row.adapter,
        query=row.query,
        task=row.task,
        servers=_tuple(row.servers),
        candidates=None if row.candidates is None else _candidates(row),
        shown=_tuple(row.shown),
        propensities=_tuple(row.propensities),
        degraded=row.degraded,
        catalog=row.catalog,
        decided_at=row.decided_at,
        duration_ms=row.duration_ms,
        asked=row.asked,
        cut=row.cut,
        entropy=row.entropy,
        sure=row.sure,
        explored=row.explored,
        shadow=None if shadow is None else _shadow(shadow),
    )


def _shadow(row: Any) -> TrajectoryShadow:
    return TrajectoryShadow(
        policy=row.policy, adapter=row.adapter, candidates=_candidates(row), decided_at=row.decided_at
    )


def _candidates(row: Any) -> tuple[tuple[str, float], ...]:
    return tuple((tool, score) for tool, score in row.candidates)


def _tuple(values: Any) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def _lost(steps: list[Any], gaps: Iterable[Any], *, open_ended: bool) -> int:
    """How many numbers of the episode's streams were lost while it ran. Numbers are given in the order of time, so
    what was lost before its first step or, if it ended in order, after its last is not its own."""
    spans: dict[str, tuple[int, int]] = {}
    for row in steps:
        first, last = spans.get(row.stream, (row.seq, row.seq))
        spans[row.stream] = min(first, row.seq), max(last, row.seq)
    lost = 0
    for gap in gaps:
        if gap.stream in spans:
            first, last = spans[gap.stream]
            if gap.last_seq > first and (open_ended or gap.first_seq < last):
                lost += gap.last_seq - gap.first_seq + 1
    return lost
