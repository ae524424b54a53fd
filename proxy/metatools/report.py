"""What an agent reads of a run of its code: how it ended, then what it printed, its value, and what went wrong.

Above: running.py. Below: nothing. What a reader must not miss stands in the first line; what is long is cut in its
middle, the count said, and kept to be read with read_result.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proxy.metatools.base import text_result
from proxy.sandbox.base import Failure, Limits, Output, RunResult, Status

SCALES = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1, 0.04, 0.01)
"""Tried one after the other until the report is short enough: characters take up to six bytes."""
TRACEBACK_CHARS = 2_000
MESSAGE_CHARS = 4_000
NOTHING = "(nothing printed and no value: print what you want to see, or end with an expression)"


@dataclass(frozen=True, slots=True)
class Run:
    """A run, with what its interpreter does not know."""

    result: RunResult
    calls: int
    """Tool calls made."""
    hint: str | None = None
    """How to repair what went wrong."""


def report(run: Run, limits: Limits, max_bytes: int, keep: Callable[[str], str]) -> dict[str, Any]:
    """The `tools/call` result for a run, in at most about `max_bytes`. `keep` is given a whole text that is shown in
    part, and returns the id to read it with."""
    kept: dict[str, str] = {}

    def keep_once(text: str) -> str:
        if text not in kept:
            kept[text] = keep(text)
        return kept[text]

    answer: dict[str, Any] = {}
    for scale in SCALES:
        answer = text_result(_text(run, limits, scale, keep_once), is_error=run.result.status is not Status.OK)
        if len(json.dumps(answer, ensure_ascii=False).encode()) <= max_bytes:
            break
    return answer


def _text(run: Run, limits: Limits, scale: float, keep: Callable[[str], str]) -> str:
    result = run.result
    head, tail, shown = (int(scale * most) for most in (limits.output_head, limits.output_tail, limits.shown_value))
    notes = [_how_it_ended(result), _count(run.calls), _variables(result)]
    sections: list[str] = []
    if result.output.text or result.output.left_out:
        text, left_out = _middle_left_out(result.output, head, tail)
        sections.append(f"Output:\n{text.removesuffix(chr(10))}")
        if left_out:
            total = len(result.output.text) + result.output.left_out
            where = f'read_result(id="{keep(_whole(result.output))}") gives all'
            if result.output.left_out:
                where += f" but {result.output.left_out:,}"
            notes.append(f"{left_out:,} of {total:,} characters of output left out, {where}")
    if result.value is not None:
        value = _sendable(result.value)
        sections.append(f"Value:\n{value[:shown]}")
        if len(value) > shown:
            where = f'read_result(id="{keep(value)}", offset={shown})'
            notes.append(f"the value has {len(value):,} characters, {shown:,} are shown, {where} gives the rest")
            sections[-1] += f"\n… {len(value) - shown:,} characters left out …"
    if result.failure is not None:
        sections.append(_what_was_raised(result.failure, scale))
    if run.hint is not None:
        sections.append(run.hint)
    if not sections and result.status is Status.OK:
        sections.append(NOTHING)
    if result.status is Status.TIMEOUT:
        sections.append(
            f"Do less in one run, or give timeout_s, at most {limits.max_run_s:g}. What tools have done stays done."
        )
    return "\n".join([f"[{'; '.join(notes)}]", *sections])


def _how_it_ended(result: RunResult) -> str:
    seconds = f"{result.seconds:.1f} s" if result.seconds < 100 else f"{result.seconds:.0f} s"
    match result.status:
        case Status.OK:
            return f"ok in {seconds}"
        case Status.ERROR:
            return f"error after {seconds}"
        case Status.TIMEOUT:
            return f"stopped after {seconds}, its time limit"
        case Status.CANCELLED:
            return f"cancelled after {seconds}"
        case Status.DIED:
            return f"the interpreter died after {seconds}"


def _count(calls: int) -> str:
    return "1 tool call" if calls == 1 else f"{calls} tool calls"


def _variables(result: RunResult) -> str:
    why = "" if result.lost_because is None else _sendable(result.lost_because).rstrip(".")
    if not result.kept:
        return f"variables lost: {why}" if why else "variables lost"
    return f"variables kept, those of earlier runs were lost: {why}" if why else "variables kept"


def _middle_left_out(output: Output, head: int, tail: int) -> tuple[str, int]:
    """What is shown of the output, and how many characters of it are not."""
    text, gap = output.text, output.gap_at if output.left_out else len(output.text)
    if not output.left_out and len(text) <= head + tail:
        return _sendable(text), 0
    start = text[: min(head, gap)]
    end = text[max(len(text) - tail, gap if output.left_out else 0) :] if tail else ""
    left_out = len(text) + output.left_out - len(start) - len(end)
    return _sendable(f"{start}\n… {left_out:,} characters left out …\n{end}"), left_out


def _whole(output: Output) -> str:
    if not output.left_out:
        return _sendable(output.text)
    gap = f"\n… {output.left_out:,} characters that were not kept …\n"
    return _sendable(output.text[: output.gap_at] + gap + output.text[output.gap_at :])


def _what_was_raised(failure: Failure, scale: float) -> str:
    traceback = _sendable(failure.traceback).rstrip()
    raised = _sendable(f"{failure.kind}: {failure.message}" if failure.message else failure.kind)
    room, rest = int(scale * TRACEBACK_CHARS), int(scale * MESSAGE_CHARS)
    if raised in traceback:
        # A backend may have written it as Python does, with what helps behind it.
        room, raised = room + rest, ""
    if len(traceback) > room:
        traceback = f"… {len(traceback) - room:,} characters left out …\n{traceback[len(traceback) - room :]}"
    if len(raised) > rest:
        raised = f"{raised[:rest]}… {len(raised) - rest:,} characters left out"
    return "\n".join(each for each in (traceback, raised) if each)


def _sendable(text: str) -> str:
    """Halves of surrogate pairs, which no agent could be sent, as `\\udc80`."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
