"""An episode as a model judge reads it: every step under a short name, and all that others wrote fenced as data.

Above: questions.py, writing/by_model.py. Below: case.py, rendering.py of the store.

A fence is a line with a marker that nobody could know when the texts were written, so that no text can end its own.
What is too long is cut, and the cut stated where it is; of a long episode the steps in the middle are shortened first,
then left out. Task, answer and the names of steps always stay.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from judge.case import Case
from judge.settings import ModelSettings
from proxy.store.rendering import action, shortened, visible
from proxy.store.trajectory import TrajectoryStep

ANSWER = "answer"
SHORT_CHARS = 200
"""Of an action, and of an observation, in a step that is shortened for the whole to fit."""
# As rendering.py writes it, here and for what the log did not keep.
_LEFT_OUT = re.compile(r"\[… [\d,]{1,30} characters left out\]")

Redact = Callable[[str, str], str]
"""Takes the id of an episode and a text, gives the text without what is secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One step, ready to be shown."""

    name: str
    """`s3`, or `s3.1` for the first call that the code of s3 made."""
    id: str
    heading: str
    action: str
    """Redacted, not cut."""
    observation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """What an episode says, redacted; made once, shown in as many questions as need be."""

    task: str | None
    answer: str | None
    steps: tuple[Piece, ...]

    @classmethod
    def of(cls, case: Case, redact: Redact) -> Pieces:
        episode = case.trajectory.id

        def clean(text: str) -> str:
            return redact(episode, text)

        return cls(
            task=None if case.task is None else clean(visible(case.task)),
            answer=None if case.answer is None else clean(visible(case.answer)),
            steps=tuple(_piece(case, name, step, clean) for name, step in _named(case)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The text for the model, and what its answer is checked against."""

    text: str
    marker: str
    steps: Mapping[str, str]
    """The id of each step by its short name."""
    done: Mapping[str, tuple[str, ...]]
    """What the agent wrote, as shown, by `answer` or the short name of a step; in several parts where it was cut."""
    seen: Mapping[str, tuple[str, ...]]
    """What came back, likewise."""
    task: str
    """As shown, without its fence; empty where there is none."""


def _random() -> str:
    return secrets.token_hex(8)


def marker_for(texts: Iterable[str], draw: Callable[[], str] = _random) -> str:
    """One that stands in none of `texts`."""
    within = list(texts)
    marker = draw()
    while any(marker in text for text in within):
        marker = draw()
    return marker


def fenced(marker: str, text: str) -> str:
    """`text` between lines that say where data of others begins and ends."""
    return f"[data {marker}]\n{text}\n[end {marker}]"


def transcript(pieces: Pieces, settings: ModelSettings, *, draw: Callable[[], str] = _random) -> Transcript:
    """Show `pieces` in about `settings.transcript_chars`; task and answer get up to a quarter of them each.

    `draw` gives markers; the first that stands in no text is taken.
    """
    quarter = settings.transcript_chars // 4
    task = None if pieces.task is None else shortened(pieces.task, quarter)
    answer = None if pieces.answer is None else shortened(pieces.answer, quarter)
    room = settings.transcript_chars - len(task or "") - len(answer or "")
    shown = _fitted(pieces.steps, settings.observation_chars, room)
    marker = marker_for(_texts(task, answer, shown), draw)
    parts = [_titled("The task, in the user's words", marker, task or "", absent=task is None)]
    for left_out, group in groupby(zip(pieces.steps, shown, strict=True), key=lambda each: each[1] is None):
        steps = list(group)
        parts += [_gap([step for step, _ in steps])] if left_out else [_step(step, cut, marker) for step, cut in steps]
    parts.append(_titled(f"{ANSWER}: what the agent told its user", marker, answer or "", absent=answer is None))
    done = {step.name: _split(cut[0]) for step, cut in zip(pieces.steps, shown, strict=True) if cut is not None}
    seen = {step.name: _split(cut[1]) for step, cut in zip(pieces.steps, shown, strict=True) if cut is not None}
    return Transcript(
        text="\n\n".join(parts),
        marker=marker,
        steps={step.name: step.id for step in pieces.steps},
        done=done if answer is None else {**done, ANSWER: _split(answer)},
        seen=seen,
        task=task or "",
    )


def _named(case: Case) -> Iterator[tuple[str, TrajectoryStep]]:
    for place, step in enumerate(case.trajectory.steps, 1):
        yield f"s{place}", step
        for inner, call in enumerate(step.code_calls, 1):
            yield f"s{place}.{inner}", call


def _piece(case: Case, name: str, step: TrajectoryStep, clean: Callable[[str], str]) -> Piece:
    by_code = f", called by the code of {name.partition('.')[0]}" if "." in name else ""
    kept = ", not all of it was kept" if case.cut(step) else ""
    return Piece(
        name=name,
        id=step.id,
        heading=f"{name} ({step.outcome}{by_code}{kept})",
        action=clean(action(step.name, step.arguments)),
        observation=clean(case.text(step)),
    )


_Cut = tuple[str, str] | None
"""Action and observation as shown; None where a step is left out."""


def _fitted(steps: Sequence[Piece], most: int, room: int) -> list[_Cut]:
    """Each step as long as `most` allows; then, until all fit, those in the middle shortened, then left out."""
    shown: list[_Cut] = [_cut(step, most) for step in steps]
    size = sum(map(_size, shown))
    middle_first = sorted(range(len(steps)), key=lambda place: abs(2 * place + 1 - len(steps)))
    for limit in (SHORT_CHARS, None):
        for place in middle_first:
            if size <= room:
                return shown
            lesser = None if limit is None else _cut(steps[place], limit)
            size += _size(lesser) - _size(shown[place])
            shown[place] = lesser
    return shown


def _cut(step: Piece, limit: int) -> tuple[str, str]:
    return shortened(step.action, limit), shortened(step.observation, limit)


_FRAME_CHARS = 150
"""Heading and fences of a step, about."""


def _size(cut: _Cut) -> int:
    return 0 if cut is None else len(cut[0]) + len(cut[1]) + _FRAME_CHARS


def _texts(task: str | None, answer: str | None, shown: Sequence[_Cut]) -> Iterator[str]:
    yield from (task or "", answer or "")
    for cut in shown:
        yield from cut or ()


def _step(step: Piece, cut: _Cut, marker: str) -> str:
    assert cut is not None
    done, seen = cut
    return f"{step.heading}\ndone:\n{fenced(marker, done)}\ncame back:\n{fenced(marker, seen)}"


def _gap(steps: Sequence[Piece]) -> str:
    first, last = steps[0].name, steps[-1].name
    names = f"{first} is" if first == last else f"{first} to {last} ({len(steps)} steps) are"
    return f"[… {names} left out here, for the whole to fit]"


def _titled(title: str, marker: str, text: str, *, absent: bool) -> str:
    return f"{title}: not known" if absent else f"{title}:\n{fenced(marker, text)}"


def _split(text: str) -> tuple[str, ...]:
    return tuple(_LEFT_OUT.split(text))
