"""How a run is going, on standard error: a bar on a terminal, otherwise a line every some seconds.

Above: run.py. Below: rich, tally.py.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from judge.tally import Tally

LINE_EVERY_S = 10.0


class Reporter:
    """Adds up what was judged, and shows it."""

    def __init__(self, total: int, began: Tally, bar: Progress | None) -> None:
        self._total = total
        self._sums = began
        self._bar = bar
        self._task = None if bar is None else bar.add_task("judged", total=total)
        self._began = self._said = time.monotonic()

    @property
    def sums(self) -> Tally:
        return self._sums

    @property
    def took_s(self) -> float:
        return time.monotonic() - self._began

    def add(self, done: Tally) -> None:
        """One batch was written."""
        self._sums += done
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._sums.judged)
        elif time.monotonic() - self._said >= LINE_EVERY_S:
            self._said = time.monotonic()
            rate = self._sums.judged / self.took_s
            typer.echo(f"judged {self._sums.judged:,} of {self._total:,}, {rate:,.0f} a second", err=True)


@contextmanager
def reporting(total: int, began: Tally) -> Generator[Reporter]:
    """Shows how far `total` episodes are, as long as it is open."""
    if not sys.stderr.isatty():
        yield Reporter(total, began, None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Reporter(total, began, bar)
