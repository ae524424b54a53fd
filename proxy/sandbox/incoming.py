"""What frames from a container say, once checked: types, run ids, sizes.

Above: exchange.py. Below: channel.py, which knows only that a frame is a JSON object. A field that is missing or
ill-typed, or a frame of another run, is no mistake a supervisor makes: `BrokenFrame`, and the container is ended. What
is merely long is cut, for the interpreter's own limits should have done so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from proxy.catalog.text import one_line
from proxy.sandbox.base import Failure, Limits, Output, RunResult, Status

MAX_NAME = 500
"""Characters of a name the code asks for: long enough for every tool, short enough for an error's text."""
MAX_FAILURE = 20_000
"""Characters of an exception's message, and of its traceback."""
MAX_REASON = 300

T = TypeVar("T")
Broken = Callable[[str], Exception]
"""Makes the error for something that no supervisor sends."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A child waits for code. `fresh`: without variables."""

    fresh: bool


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`id` is what the reply names."""

    id: int
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LookUp:
    id: int
    what: str
    name: str


Incoming = Ready | ToolCall | LookUp | RunResult


def read(frame: Mapping[str, Any], run: int, limits: Limits, broken: Broken) -> Incoming:
    """The meaning of a frame that came while run `run` was in progress (0: none).

    Raises:
        BrokenFrame: By `broken`.
    """
    op = frame.get("op")
    if op == "ready":
        return Ready(_field(frame, "fresh", bool, broken))
    if op not in ("call", "look_up", "done"):
        raise broken(f"an unknown operation, {op!r:.40}")
    if run == 0 or _field(frame, "run", int, broken) != run:
        raise broken(f"'{op}' of a run that is not in progress")
    if op == "call":
        arguments = cast("dict[str, Any]", _field(frame, "arguments", dict, broken))
        return ToolCall(_field(frame, "call", int, broken), _name(frame, "tool", broken), arguments)
    if op == "look_up":
        return LookUp(_field(frame, "call", int, broken), _name(frame, "what", broken), _name(frame, "name", broken))
    return _done(frame, limits, broken)


def _done(frame: Mapping[str, Any], limits: Limits, broken: Broken) -> RunResult:
    status = _field(frame, "status", str, broken)
    if status not in set(Status):
        raise broken(f"an unknown status, {status!r:.40}")
    text = _text(_field(frame, "output", str, broken), limits.output_kept)
    gap_at, left_out = _field(frame, "gap_at", int, broken), _field(frame, "left_out", int, broken)
    if not 0 <= gap_at <= limits.output_kept or left_out < 0:
        raise broken("an impossible gap in the output")
    value = _optional(frame, "value", str, broken)
    reason = _optional(frame, "lost_because", str, broken)
    return RunResult(
        status=Status(status),
        output=Output(text, min(gap_at, len(text)), left_out),
        value=None if value is None else _text(value, limits.output_kept),
        failure=_failure(cast("dict[str, Any] | None", _optional(frame, "failure", dict, broken)), broken),
        kept=_field(frame, "kept", bool, broken),
        lost_because=None if reason is None else one_line(_text(reason, MAX_REASON), MAX_REASON),
    )


def _failure(failure: Mapping[str, Any] | None, broken: Broken) -> Failure | None:
    if failure is None:
        return None
    kind, message = _field(failure, "kind", str, broken), _field(failure, "message", str, broken)
    traceback = _text(_field(failure, "traceback", str, broken), None)
    # The innermost frame, which says most, is the last.
    return Failure(_text(kind, MAX_REASON), _text(message, MAX_FAILURE), traceback[-MAX_FAILURE:])


def _field(frame: Mapping[str, Any], name: str, kind: type[T], broken: Broken) -> T:
    value = frame.get(name)
    # True is an int to Python and none to us.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise broken(f"a frame with a bad '{name}'")
    return value


def _optional(frame: Mapping[str, Any], name: str, kind: type[T], broken: Broken) -> T | None:
    return None if frame.get(name) is None else _field(frame, name, kind, broken)


def _name(frame: Mapping[str, Any], field: str, broken: Broken) -> str:
    return _text(_field(frame, field, str, broken), MAX_NAME)


def _text(text: str, limit: int | None) -> str:
    """At most so many characters, every one of which has a form in UTF-8: half of a surrogate pair becomes `?`."""
    text = text if limit is None else text[:limit]
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
