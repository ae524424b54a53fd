"""One trajectory as what its page shows: steps in order, each with a title, what was sent, and what came back.

Above: pages.py and templates/episode.html. Below: store/trajectory.py. Nothing here is HTML.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from proxy.dashboard.words import as_object, known, pretty, said
from proxy.store.recorder import Outcome
from proxy.store.trajectory import Size, Trajectory, TrajectoryCall, TrajectoryDecision, TrajectoryStep

STEPS_PER_PAGE = 100
MAX_CODE_CALLS = 200
"""Of one run of code on a page; the rest is counted."""
MAX_CHARS = 20_000
"""Of one text on a page; the rest is counted, and `toolatlas episodes show` has it."""
PAGE_CHARS = 1_000_000
"""Of all texts on a page; the steps that they are too much for are on the next one."""
CALLS_CHARS = PAGE_CHARS * 3 // 4
"""Of the texts of one run's calls; the calls beyond are counted."""
OPEN_CHARS = 900
OPEN_LINES = 14
"""A text with more than either is folded."""
TITLE_CHARS = 200
MAX_RANKED = 20

_KINDS: Mapping[str, str] = {
    "search_tools": "search",
    "list_servers": "list",
    "list_tools": "list",
    "describe_tools": "reveal",
    "call_tool": "call",
    "run_python": "code",
    "read_result": "read",
    "finish_task": "finish",
}
_APART: Mapping[str, Sequence[tuple[str, str]]] = {
    "search": [("task", "Task")],
    "list": [],
    "reveal": [],
    "code": [("code", "Code")],
    "read": [],
    "finish": [("answer", "Answer")],
}
"""Arguments of meta-tools that are texts of their own, with their labels."""
_IN_TITLE: Mapping[str, Sequence[str]] = {
    "search": ("query",),
    "list": ("server",),
    "reveal": ("tools",),
    "read": ("id",),
    "finish": ("outcome",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One text, with a label and all that is to be said of its cuts."""

    label: str
    text: str
    chars: int
    lines: int
    notes: tuple[str, ...] = ()
    failed: bool = False

    @property
    def folded(self) -> bool:
        return len(self.text) > OPEN_CHARS or self.lines > OPEN_LINES


@dataclass(frozen=True, slots=True)
class Ranked:
    """One tool in a ranking."""

    tool: str
    score: float
    place: int | None
    """Where the agent saw it; None if it did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One step on the page."""

    id: str
    kind: str
    """`search`, `list`, `reveal`, `call`, `code`, `read` or `finish`."""
    name: str
    title: str
    outcome: str
    started_at: datetime
    offset_ms: float
    """Since the episode began."""
    duration_ms: float
    bar_x: float
    bar_width: float
    """Percent of the episode's time."""
    action_tokens: int | None
    observation_tokens: int | None
    sent: tuple[Passage, ...]
    received: tuple[Passage, ...]
    revealed: tuple[tuple[str, str], ...]
    """Tools, and how much of them was shown."""
    decision: TrajectoryDecision | None
    ranked: tuple[Ranked, ...]
    not_ranked: int
    """Candidates that are left out here."""
    calls: tuple[Entry, ...]
    more_calls: int
    delegated: tuple[str, ...]
    """Ids of episodes."""

    @property
    def failed(self) -> bool:
        return self.outcome != Outcome.OK

    @property
    def chars(self) -> int:
        return sum(len(one.text) for one in (*self.sent, *self.received)) + sum(call.chars for call in self.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A page of an episode's steps."""

    entries: tuple[Entry, ...]
    first: int
    """Number of its first step, counted from 1."""
    total: int
    task: str
    answer: str
    span_ms: float

    @property
    def last(self) -> int:
        return self.first + len(self.entries) - 1


def timeline(trajectory: Trajectory, first: int = 1) -> Timeline:
    """The steps from number `first` on, counted from 1."""
    ends = [_end_ms(trajectory, step) for step in trajectory.steps]
    if trajectory.ending is not None:
        ends.append((trajectory.ending.ended_at - trajectory.began_at).total_seconds() * 1000)
    span_ms = max([1.0, *ends])
    steps = trajectory.steps[first - 1 : first - 1 + STEPS_PER_PAGE]
    return Timeline(
        entries=_fitting((_entry(trajectory, step, span_ms) for step in steps), PAGE_CHARS),
        first=first,
        total=len(trajectory.steps),
        task=trajectory.task or known(trajectory.task_missing),
        answer=trajectory.answer or known(trajectory.answer_missing),
        span_ms=span_ms,
    )


def first_step(wanted: str | None, total: int) -> int:
    """Number of the step that a page begins with, as a query string asks for it: one that there is."""
    number = int(wanted) if wanted is not None and wanted.isascii() and wanted.isdigit() and len(wanted) < 10 else 1
    return min(max(1, number), max(1, total))


def _entry(trajectory: Trajectory, step: TrajectoryStep, span_ms: float) -> Entry:
    kind = _KINDS.get(step.name, "call") if step.mode == "search" else "call"
    offset_ms = (step.started_at - trajectory.began_at).total_seconds() * 1000
    ranked = _ranking(step.decision)
    calls = (_entry(trajectory, call, span_ms) for call in step.code_calls[:MAX_CODE_CALLS])
    fitting = _fitting(calls, CALLS_CHARS)
    return Entry(
        id=step.id,
        kind=kind,
        name=step.name,
        title=_cut(_title(kind, step), TITLE_CHARS),
        outcome=step.outcome,
        started_at=step.started_at,
        offset_ms=max(0.0, offset_ms),
        duration_ms=step.duration_ms,
        bar_x=_percent(offset_ms, span_ms),
        bar_width=max(0.4, _percent(step.duration_ms, span_ms)),
        action_tokens=step.action_tokens,
        observation_tokens=step.observation_tokens,
        sent=tuple(_sent(kind, step)),
        received=tuple(_received(step)),
        revealed=tuple((one.tool, one.how) for one in step.revealed),
        decision=step.decision,
        ranked=tuple(ranked[:MAX_RANKED]),
        not_ranked=max(0, len(ranked) - MAX_RANKED),
        calls=fitting,
        more_calls=len(step.code_calls) - len(fitting),
        delegated=step.delegated,
    )


def _fitting(entries: Iterator[Entry], chars: int) -> tuple[Entry, ...]:
    """The first ones, as many as have no more texts than that, and at least one."""
    fitting: list[Entry] = []
    for entry in entries:
        chars -= entry.chars
        if fitting and chars < 0:
            break
        fitting.append(entry)
    return tuple(fitting)


def _title(kind: str, step: TrajectoryStep) -> str:
    if step.call is not None:
        return step.call.written
    given = as_object(step.arguments)
    match kind:
        case "search":
            said = given.get("query")
        case "reveal":
            tools = given.get("tools")
            said = ", ".join(map(str, cast("list[Any]", tools))) if isinstance(tools, list) else tools
        case "list":
            said = given.get("server")
        case "call":
            said = given.get("tool")
        case "read":
            said = given.get("id")
        case "finish":
            said = given.get("outcome")
        case _:
            said = None
    return said if isinstance(said, str) and said.strip() else step.name


def _received(step: TrajectoryStep) -> Iterator[Passage]:
    """What came back: to the agent, or to its code, and from the server where that is something else."""
    if step.error is not None:
        yield _passage("Error", step.error, failed=True)
    if step.observation is not None:
        label = "What the agent read" if step.parent_id is None else "What the code got"
        yield _passage(label, said(step.observation), step.observation_size)
    elif step.error is None:
        yield _passage("Result", f"({known(step.observation_missing)})")
    if step.call is not None and step.call.result is not None and step.call.result is not step.observation:
        yield _passage("What the server sent", said(step.call.result), step.call.result_size)


def _sent(kind: str, step: TrajectoryStep) -> Iterator[Passage]:
    """What the agent sent, and what the server was sent where that is something else."""
    if step.arguments is None:
        yield _passage("Arguments", f"({known(step.arguments_missing)})")
        return
    given = as_object(step.arguments)
    shown: Any = step.arguments
    if kind == "call" and step.name == "call_tool" and "arguments" in given:
        shown = given["arguments"]
    elif kind in _APART and given:
        for name, label in _APART[kind]:
            if isinstance(words := given.get(name), str):
                yield _passage(label, words)
        apart = {name for name, _ in _APART[kind] if isinstance(given.get(name), str)}
        if step.name != (title := _title(kind, step)) and len(title) <= TITLE_CHARS:
            apart |= {name for name in _IN_TITLE.get(kind, ()) if isinstance(given.get(name), str | list)}
        shown = {name: value for name, value in given.items() if name not in apart}
    if shown not in ({}, None):
        yield _passage("Arguments", shown if isinstance(shown, str) else pretty(shown))
    if step.call is not None and _changed(step.call, step.arguments, shown):
        yield _passage("Arguments as the server got them", pretty(step.call.arguments))


def _changed(call: TrajectoryCall, *sent: Any) -> bool:
    return call.arguments is not None and call.arguments not in sent


def _ranking(decision: TrajectoryDecision | None) -> Sequence[Ranked]:
    if decision is None or decision.candidates is None:
        return ()
    places = {tool: place for place, tool in enumerate(decision.shown or (), 1)}
    return [Ranked(tool, score, places.get(tool)) for tool, score in decision.candidates]


def _passage(label: str, text: str, size: Size | None = None, *, failed: bool = False) -> Passage:
    notes: list[str] = []
    if size is not None and size.left_out_bytes:
        notes.append(
            f"The log keeps {size.kept_bytes:,} of {size.whole_bytes:,} bytes of it; the agent was given all of them."
        )
    if len(text) > MAX_CHARS:
        notes.append(
            f"Here are its first {MAX_CHARS:,} of {len(text):,} characters; `toolatlas episodes show` has the others."
        )
    return Passage(
        label=label,
        text=text[:MAX_CHARS],
        chars=len(text),
        lines=text.count("\n") + 1,
        notes=tuple(notes),
        failed=failed,
    )


def _end_ms(trajectory: Trajectory, step: TrajectoryStep) -> float:
    return (step.started_at - trajectory.began_at).total_seconds() * 1000 + step.duration_ms


def _percent(part: float, whole: float) -> float:
    return min(100.0, max(0.0, round(100 * part / whole, 2)))


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
