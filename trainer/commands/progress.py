"""How far learning is, on standard error: bars on a terminal, otherwise a line every some seconds.

Above: training.py and learning.py. Below: rich.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from judge.tally import Tally
    from trainer.loop.checkpoints import Position

LINE_EVERY_S = 10.0


class Reporter:
    """Shows what it is told; implements what trainer/loop/learning.py's `Told` holds. Updates come from a thread."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}
        self._judged = 0
        self._steps = 0
        self._said = time.monotonic()

    def say(self, what: str) -> None:
        """Something begins, or has happened."""
        if self._bar is not None:
            self._bar.console.print(what, markup=False, highlight=False)
        else:
            typer.echo(what, err=True)

    def judged(self, done: Tally, waiting: int) -> None:
        self._judged += done.judged
        self._show("judged", self._judged, max(waiting, self._judged), f"judged {self._judged:,} of {waiting:,}")

    def steps(self, most: int) -> None:
        self._steps = most

    def updated(self, position: Position, loss: float) -> None:
        best = "" if position.best_loss is None else f", best validation {position.best_loss:.4f}"
        text = f"update {position.step:,} of {self._steps:,}, loss {loss:.4f}{best}"
        self._show("trained", position.step, self._steps, text)

    def _show(self, name: str, done: int, of: int, text: str) -> None:
        if self._bar is not None:
            if name not in self._tasks:
                self._tasks[name] = self._bar.add_task(name, total=of)
            self._bar.update(self._tasks[name], completed=done, total=of, description=text)
        elif time.monotonic() - self._said >= LINE_EVERY_S:
            self._said = time.monotonic()
            typer.echo(text, err=True)


@contextmanager
def reporting() -> Generator[Reporter]:
    """As long as it is open."""
    if not sys.stderr.isatty():
        yield Reporter(None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Reporter(bar)
