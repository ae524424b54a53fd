"""Ctrl-C and SIGTERM while something is learned: the first one asks it to stop in order, the second one ends it.

Above: training.py and learning.py. Below: the standard library.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stoppable() -> Generator[Callable[[], bool]]:
    """Gives what says whether to go on."""
    asked: list[int] = []

    def ask(number: int, _: FrameType | None) -> None:
        if asked:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: not asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
