"""Writes the log as lines of JSON, one episode a line, with the catalogues, rubrics and streams that they name.

Above: commands/episodes.py. Below: trajectories.py, catalogues.py, judgements.py, rubrics.py; lines.py says what a line
looks like. What an episode names stands before it, once, so that a reader needs a single pass, and the memory of one
page.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, cast

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.store.assembling import ANSWERED
from proxy.store.catalogues import definitions
from proxy.store.database import Database
from proxy.store.filters import Filters
from proxy.store.judgements import Judgement, Label, LabelEntry, judgements_of, labels_of
from proxy.store.lines import SCHEMA
from proxy.store.rubrics import Rubric, rubrics_of
from proxy.store.tables import GapRow, SnapshotRow, StreamRow
from proxy.store.trajectories import Trajectory, TrajectoryCall, TrajectoryDecision, TrajectoryStep, stream

EPISODES_AT_ONCE = 50
DEFINITIONS_AT_ONCE = 200
DEEPEST = 200
"""Levels of nesting that a value may have where JSON cannot be written as it is."""

# ASCII, so that every string of the log can be written, halves of surrogate pairs included.
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


async def export(database: Database, filters: Filters | None = None) -> AsyncIterator[str]:
    """The lines of all episodes that `filters` choose, in the order in which they began, without line breaks."""
    named = _Named(database)
    async for some in batches(stream(database, filters)):
        ids = [trajectory.id for trajectory in some]
        async with database.reading() as connection:
            judged = await judgements_of(connection, ids)
            labelled = await labels_of(connection, ids)
        async for line in named.by(some, [*_rubrics_named(judged), *_rubrics_named(labelled)]):
            yield line
        for trajectory in some:
            its = judged.get(trajectory.id, ()), labelled.get(trajectory.id, ())
            yield line_of("episode", episode_line(trajectory, *its))


async def batches(trajectories: AsyncIterator[Trajectory]) -> AsyncIterator[list[Trajectory]]:
    """The same, some at a time: what belongs to several is then read by one query."""
    some: list[Trajectory] = []
    async for trajectory in trajectories:
        some.append(trajectory)
        if len(some) == EPISODES_AT_ONCE:
            yield some
            some = []
    if some:
        yield some


def line_of(kind: str, value: Mapping[str, Any], schema: str = SCHEMA) -> str:
    """One line. What JSON has no word for (NaN, infinities, endless nesting) is replaced by a string that names it."""
    line = {"schema": schema, "kind": kind, **value}
    try:
        return _ENCODER.encode(line)
    except (ValueError, RecursionError):
        return _ENCODER.encode(_sayable(line, DEEPEST))


class _Named:
    """What episodes name by id or hash: each is written once, before the first episode that needs it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._streams: set[str] = set()
        self._snapshots: set[str] = set()
        self._definitions: set[str] = set()
        self._rubrics: set[str] = set()

    async def by(self, trajectories: Sequence[Trajectory], rubric_hashes: Sequence[str]) -> AsyncIterator[str]:
        steps = [step for trajectory in trajectories for step in trajectory.every_step()]
        streams = _new(self._streams, [each.stream for each in (*trajectories, *steps)])
        rubrics = _new(self._rubrics, rubric_hashes)
        decided = [step.decision.catalog for step in steps if step.decision is not None]
        snapshots = _new(self._snapshots, [*(each.catalog for each in (*trajectories, *steps)), *decided])
        async with self._database.reading() as connection:
            lines = await _streams(connection, streams)
            lines += [line_of("rubric", _rubric(each)) for each in (await rubrics_of(connection, rubrics)).values()]
        for line in lines:
            yield line
        for hash in snapshots:
            async for line in self._snapshot(hash):
                yield line

    async def _snapshot(self, hash: str) -> AsyncIterator[str]:
        async with self._database.reading() as connection:
            found = await connection.execute(select(SnapshotRow.__table__).where(SnapshotRow.hash == hash))
            row = found.mappings().one_or_none()
        if row is None:
            return
        hashes = _new(self._definitions, [digest for _, digest in row["tools"]])
        for start in range(0, len(hashes), DEFINITIONS_AT_ONCE):
            async with self._database.reading() as connection:
                some = await definitions(connection, hashes[start : start + DEFINITIONS_AT_ONCE])
            for definition in some.values():
                yield line_of("definition", members(definition))
        yield line_of("snapshot", _said(row))


async def _streams(connection: AsyncConnection, ids: Sequence[str]) -> list[str]:
    rows = await connection.execute(select(StreamRow.__table__).where(StreamRow.id.in_(ids)).order_by(StreamRow.id))
    lines: list[str] = []
    for row in rows.mappings().all():
        columns = GapRow.first_seq, GapRow.last_seq, GapRow.reason, GapRow.reported_at
        gaps = await connection.execute(select(*columns).where(GapRow.stream == row["id"]).order_by(GapRow.first_seq))
        lines.append(line_of("stream", {**_said(row), "gaps": [_said(gap) for gap in gaps.mappings()]}))
    return lines


def _rubrics_named(said: Mapping[str, Sequence[Judgement] | Sequence[LabelEntry]]) -> list[str]:
    return [each.rubric_hash for its in said.values() for each in its if each.rubric_hash is not None]


def _rubric(rubric: Rubric) -> dict[str, Any]:
    line = members(rubric)
    attached = [members(each) for each in rubric.attachments]
    for attachment in attached:
        # It stands in the line of its rubric.
        del attachment["rubric_hash"]
    return {**line, "attachments": attached, "sources": list(rubric.sources)}


def _new(known: set[str], names: Iterable[str]) -> list[str]:
    """Those of `names` that were not known, each once and in order; they are from now on."""
    new = [name for name in dict.fromkeys(names) if name not in known]
    known.update(new)
    return new


def episode_line(
    trajectory: Trajectory, judged: Sequence[Judgement], labelled: Sequence[LabelEntry | Label]
) -> dict[str, Any]:
    """What the line of an episode says, without what every line says."""
    return {
        "id": trajectory.id,
        "stream": trajectory.stream,
        "agent": trajectory.agent,
        "mode": trajectory.mode,
        "client": trajectory.client,
        "protocol": trajectory.protocol,
        "rendering": trajectory.rendering,
        "catalog": trajectory.catalog,
        "began_at": time_of(trajectory.began_at),
        "parent_step": trajectory.parent_step,
        "steps": [_step(step) for step in trajectory.every_step()],
        "ending": None if trajectory.ending is None else members(trajectory.ending),
        "judgements": [_of_episode(each) for each in judged],
        "labels": [_of_episode(each) for each in labelled],
    }


def _step(step: TrajectoryStep) -> dict[str, Any]:
    return {
        "id": step.id,
        "parent_id": step.parent_id,
        "stream": step.stream,
        "seq": step.seq,
        "mode": step.mode,
        "name": step.name,
        "arguments": step.arguments,
        "outcome": step.outcome,
        "error": step.error,
        "observation": step.observation,
        "observation_size": None if step.observation_size is None else members(step.observation_size),
        "action_tokens": step.action_tokens,
        "observation_tokens": step.observation_tokens,
        "revealed": [[shown.tool, shown.how] for shown in step.revealed],
        "catalog": step.catalog,
        "level": step.level,
        "started_at": time_of(step.started_at),
        "duration_ms": step.duration_ms,
        "call": None if step.call is None else _call(step.call, step),
        "decision": None if step.decision is None else _decision(step.decision),
    }


def _decision(decision: TrajectoryDecision) -> dict[str, Any]:
    return {**members(decision), "shadow": None if decision.shadow is None else members(decision.shadow)}


def _call(call: TrajectoryCall, step: TrajectoryStep) -> dict[str, Any]:
    """What is the step's own is not repeated."""
    line: dict[str, Any] = {
        "server": call.server,
        "tool": call.tool,
        "written": call.written,
        "outcome": call.outcome,
        "started_at": time_of(call.started_at),
        "duration_ms": call.duration_ms,
    }
    if call.arguments is not step.arguments:
        line["arguments"] = call.arguments
    unchanged = call.result is step.observation and call.outcome in ANSWERED
    if not unchanged and call.result is not None:
        line["result"] = call.result
    if call.result_size is not None and not (unchanged and call.result_size == step.observation_size):
        line["result_size"] = members(call.result_size)
    return line


def _of_episode(value: Judgement | LabelEntry | Label) -> dict[str, Any]:
    line = members(value)
    # It stands in the line of its episode.
    del line["episode_id"]
    return line


def members(value: Any) -> dict[str, Any]:
    """The fields of a dataclass as JSON has them."""
    return _said({field.name: getattr(value, field.name) for field in fields(value)})


def _said(value: Mapping[Any, Any]) -> dict[str, Any]:
    """The same members, with times as text."""
    return {name: time_of(each) if isinstance(each, datetime) else each for name, each in value.items()}


def time_of(time: datetime) -> str:
    return time.isoformat()


def _sayable(value: Any, levels: int) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if not isinstance(value, dict | list):
        return value
    if levels == 0:
        return "nested too deeply"
    if isinstance(value, dict):
        return {name: _sayable(each, levels - 1) for name, each in cast("dict[str, Any]", value).items()}
    return [_sayable(each, levels - 1) for each in cast("list[Any]", value)]
