"""The agent's sources as they were fed to Monty, and its errors shown with them.

Above: monty_run.py. Below: pydantic-monty. Monty numbers what it is fed; number 0 is our prelude, whose frames are left
out.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from pydantic_monty import Frame, MontyRuntimeError, MontySyntaxError, SourceRange

from proxy.sandbox.base import Failure
from proxy.sandbox.gaps import explained
from proxy.sandbox.rewriting import Rewritten

KEPT = 300
"""Sources that are kept for tracebacks, and for calls by functions they define: calls from older ones are made one at a
time."""
SHOWN_FIRST, SHOWN_LAST = 2, 8
"""Frames of a traceback."""
_FED = re.compile(r"<python-input-(\d+)>")


@dataclass(frozen=True, slots=True)
class _Cell:
    run: int
    code: Rewritten


class Cells:
    """What one interpreter was fed since its beginning."""

    def __init__(self) -> None:
        self._cells: dict[int, _Cell] = {}
        self._fed = 1
        self._runs = 0

    def add(self, code: Rewritten) -> None:
        """Note what is fed next, as one more run of the agent's."""
        self._runs += 1
        self._cells[self._fed] = _Cell(self._runs, code)
        self._fed += 1
        if len(self._cells) > KEPT:
            del self._cells[next(iter(self._cells))]

    def skip(self) -> None:
        """Note that something of ours is fed next."""
        self._fed += 1

    def take_back(self) -> None:
        """Forget the last one: it was never fed to the worker that is used from now on."""
        self._fed -= 1
        self._cells.pop(self._fed, None)

    def awaits(self, position: SourceRange) -> bool:
        """Whether the call there was rewritten to wait for its result."""
        cell = self._cell(position.filename)
        return cell is not None and position.start in cell.code.awaited

    def frame(self, frame: Frame) -> str | None:
        """A frame as Python shows it; None for one that is not the agent's."""
        fed = _FED.fullmatch(frame.filename)
        cell = self._cell(frame.filename)
        if fed is not None and cell is None:
            return None
        where = frame.filename if cell is None else f"<cell {cell.run}>"
        within = f", in {frame.function_name}" if frame.function_name else ""
        shown = f'  File "{where}", line {frame.line}{within}'
        lines = () if cell is None else cell.code.lines
        source = lines[frame.line - 1].strip() if 0 < frame.line <= len(lines) else ""
        return f"{shown}\n    {source}" if source else shown

    def _cell(self, filename: str) -> _Cell | None:
        fed = _FED.fullmatch(filename)
        return None if fed is None else self._cells.get(int(fed[1]))


def failure_of(error: MontyRuntimeError | MontySyntaxError, cells: Cells, tool_errors: Collection[str]) -> Failure:
    """What the code raised; a RuntimeError with the text of one of `tool_errors` is a ToolError."""
    kind = error.display(format="type-msg").partition(":")[0]
    # Of a KeyError Monty shows the key without its quotes.
    message = str(error.exception()) if kind == "KeyError" else error.display(format="msg")
    if kind == "RuntimeError" and message in tool_errors:
        kind = "ToolError"
    frames = [shown for frame in error.traceback() if (shown := cells.frame(frame)) is not None]
    if (left_out := len(frames) - SHOWN_FIRST - SHOWN_LAST) > 0:
        frames[SHOWN_FIRST:-SHOWN_LAST] = [f"  … {left_out} more frames …"]
    return Failure(kind, explained(kind, message), "\n".join(frames))
