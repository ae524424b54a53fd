"""One exported line, checked, as rows of the tables.

Above: importing.py. Below: lines.py, which says what a line looks like. Nothing is written here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn, cast

from jsonschema_rs import validator_for
from sqlalchemy import Integer

from proxy.store.lines import SCHEMA, schema
from proxy.store.tables import (
    AttachmentRow,
    Base,
    CallRow,
    DecisionRow,
    DefinitionRow,
    EndingRow,
    EpisodeRow,
    GapRow,
    JudgementRow,
    LabelRow,
    RubricRow,
    RubricSourceRow,
    ShadowRow,
    SnapshotRow,
    StepRow,
    StreamRow,
)

ERROR_CHARS = 300
_OPAQUE = frozenset(
    {"arguments", "observation", "result", "definition", "content", "verdicts", "subtotals", "cost", "credits"}
)
"""Members whose values lines.py does not look into; they may be nested deeper than a validator goes."""

Row = dict[str, Any]
Rows = dict[type[Base], list[Row]]


class BadLine(Exception):
    """A line that cannot be taken; the text names the member, if it is about one."""


@dataclass(frozen=True, slots=True)
class Line:
    """What one line adds, if it is not there yet."""

    kind: str
    rows: Rows


class LineParser:
    """Checks lines by the schema; making it takes a moment, and it can be used for any number of them."""

    def __init__(self) -> None:
        self._validator = validator_for(schema(), validate_formats=True)

    def parse(self, raw: bytes) -> Line:
        """Raises BadLine."""
        line = _decoded(raw)
        if not isinstance(line, dict):
            raise BadLine("it is no JSON object")
        value = cast("Row", line)
        if value.get("schema") != SCHEMA:
            raise BadLine(f"schema: this version reads {SCHEMA!r}, not {_short(repr(value.get('schema')))}")
        try:
            error = next(self._validator.iter_errors(_outline(value)), None)
        except (ValueError, RecursionError) as problem:
            raise BadLine(f"it cannot be checked: {_short(str(problem))}") from problem
        if error is not None:
            raise BadLine(f"{_path(error.instance_path)}{_short(error.message)}")
        return Line(value["kind"], _whole_numbers(_ROWS[value["kind"]](value)))


def _decoded(raw: bytes) -> Any:
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_no_number, parse_float=_number)
    except RecursionError as error:
        raise BadLine("it is nested too deeply") from error
    except ValueError as error:
        raise BadLine(f"it is no JSON: {error}") from error


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _number(written: str) -> float:
    number = float(written)
    if not math.isfinite(number):
        raise ValueError(f"{_short(written)} is greater than any number that can be kept")
    return number


def _outline(value: Any) -> Any:
    """The same with nothing in those values that are not looked into."""
    if isinstance(value, dict):
        return {
            name: _emptied(each) if name in _OPAQUE else _outline(each) for name, each in cast("Row", value).items()
        }
    if isinstance(value, list):
        return [_outline(each) for each in cast("list[Any]", value)]
    return value


def _emptied(value: Any) -> Any:
    if isinstance(value, dict):
        return {}
    if isinstance(value, list):
        return [{} if isinstance(each, dict) else None for each in cast("list[Any]", value)]
    return value


def _path(path: Iterable[str | int]) -> str:
    """`steps[3].call.outcome: `; nothing for the line itself."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return f"{''.join(parts).removeprefix('.')}: " if parts else ""


def _short(text: str) -> str:
    return text if len(text) <= ERROR_CHARS else f"{text[:ERROR_CHARS]}…"


def _time(row: Row, name: str) -> datetime:
    try:
        return datetime.fromisoformat(row[name]).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadLine(f"{name}: {row[name]!r} is no time that can be kept") from error


def _timed(value: Row, *times: str) -> Row:
    return {**value, **{name: _time(value, name) for name in times}}


def _body(value: Row) -> Row:
    return {name: each for name, each in value.items() if name not in ("schema", "kind")}


def _stream(value: Row) -> Rows:
    row = _timed(_body(value), "began_at")
    gaps = [{"stream": value["id"], **_timed(gap, "reported_at")} for gap in row.pop("gaps")]
    return {StreamRow: [row], GapRow: gaps}


def _definition(value: Row) -> Rows:
    return {DefinitionRow: [_body(value)]}


def _snapshot(value: Row) -> Rows:
    return {SnapshotRow: [_timed(_body(value), "taken_at")]}


def _rubric(value: Row) -> Rows:
    row = _timed(_body(value), "created_at")
    of_it = {"rubric_hash": value["hash"]}
    attachments, sources = row.pop("attachments"), row.pop("sources")
    return {
        RubricRow: [row],
        AttachmentRow: [{**_timed(each, "attached_at"), **of_it} for each in attachments],
        RubricSourceRow: [{"episode_id": each, **of_it} for each in sources],
    }


def _episode(value: Row) -> Rows:
    row: Row = {"parent_step": None, **_timed(_body(value), "began_at")}
    of_it = {"episode_id": value["id"]}
    steps, ending, judged, labelled = (row.pop(name) for name in ("steps", "ending", "judgements", "labels"))
    _check_ids(steps)
    calls = [{"step_id": step["id"], **of_it, **_call(step["call"])} for step in steps if step["call"] is not None]
    decided = {step["id"]: step["decision"] for step in steps if step["decision"] is not None}
    decisions = [{"step_id": step_id, **of_it, **_decision(each)} for step_id, each in decided.items()]
    shadows = [
        {"step_id": step_id, **of_it, **_timed(shadow, "decided_at")}
        for step_id, each in decided.items()
        if (shadow := each.get("shadow")) is not None
    ]
    return {
        EpisodeRow: [row],
        StepRow: [{**_step(step), **of_it} for step in steps],
        CallRow: calls,
        DecisionRow: decisions,
        ShadowRow: shadows,
        EndingRow: [] if ending is None else [{**_timed(ending, "ended_at"), **of_it}],
        JudgementRow: [{**_timed(each, "created_at"), **of_it} for each in judged],
        LabelRow: [{**_timed(each, "created_at"), **of_it} for each in labelled],
    }


def _check_ids(steps: list[Row]) -> None:
    ids: set[str] = set()
    numbers: set[tuple[str, int]] = set()
    for index, step in enumerate(steps):
        if step["id"] in ids:
            raise BadLine(f"steps[{index}].id: another step of the episode is {step['id']}, too")
        if (number := (step["stream"], step["seq"])) in numbers:
            raise BadLine(f"steps[{index}].seq: another step of the episode has this number in its stream, too")
        ids.add(step["id"])
        numbers.add(number)


def _step(step: Row) -> Row:
    row = _timed(step, "started_at")
    size = _size(row.pop("observation_size"), "observation")
    del row["call"], row["decision"]
    return {**row, **size, "revealed": row["revealed"] or None}


def _call(call: Row) -> Row:
    row = _timed(call, "started_at")
    size = _size(row.pop("result_size", None), "result")
    return {"arguments": None, "result": None, **row, **size}


def _decision(decision: Row) -> Row:
    later = dict.fromkeys(("asked", "cut", "entropy", "sure", "explored"))
    row = {**later, **_timed(decision, "decided_at")}
    row.pop("shadow", None)
    return row


def _size(size: Mapping[str, Any] | None, of: str) -> Row:
    whole, kept, hash = (None,) * 3 if size is None else (size["whole_bytes"], size["kept_bytes"], size["hash"])
    return {f"{of}_bytes": whole, f"{of}_kept": kept, f"{of}_hash": hash}


def _whole_numbers(rows: Rows) -> Rows:
    """JSON may write a whole number as 5.0, which a database does not take for one."""
    for table, each in rows.items():
        columns = [column.name for column in table.__table__.columns if isinstance(column.type, Integer)]
        for row in each:
            for name in columns:
                if isinstance(row.get(name), float):
                    row[name] = int(row[name])
    return rows


_ROWS: Mapping[str, Callable[[Row], Rows]] = {
    "stream": _stream,
    "definition": _definition,
    "snapshot": _snapshot,
    "rubric": _rubric,
    "episode": _episode,
}
