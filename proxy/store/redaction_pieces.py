"""Pieces of a text that are to be replaced, and how those that overlap are told apart.

Above: redaction.py, and redaction_assigned.py and redaction_patterns.py, which find them. Below: redaction_names.py.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from proxy.store.redaction_names import PLACEHOLDER


@dataclass(frozen=True, slots=True)
class Found:
    """A piece of a text that is to be replaced."""

    start: int
    end: int
    kind: str
    value: str
    """What it stands for, out of any quoting and encoding."""
    secrets: tuple[str, ...] = ()
    """What to look for from now on: `value`, or parts of it."""


class Taken:
    """Pieces of a text that are to be replaced, in order and apart from each other."""

    def __init__(self, text: str) -> None:
        self.found: list[Found] = []
        self._starts: list[int] = []
        self._kept = [match.span() for match in PLACEHOLDER.finditer(text)] if "[" in text else []

    def add(self, found: Found) -> None:
        """Take it, unless one that was taken before has a part of it, or it would break a placeholder."""
        at = bisect_left(self._starts, found.start)
        before = self.found[at - 1] if at else None
        after = self.found[at] if at < len(self.found) else None
        if found.start >= found.end or (before and before.end > found.start) or (after and after.start < found.end):
            return
        if not self._breaks(found):
            self.found.insert(at, found)
            self._starts.insert(at, found.start)

    def _breaks(self, found: Found) -> bool:
        """Whether it would take a part of a placeholder, or nothing but one."""
        first = bisect_left(self._kept, (found.start, found.start))
        # The one that begins before it, and the last one that begins within it.
        around = self._kept[max(0, first - 1) : first]
        within = self._kept[first : bisect_left(self._kept, (found.end, 0))][-1:]
        whole = [(found.start, found.end)]
        return (
            any(end > found.start for _, end in around) or any(end > found.end for _, end in within) or within == whole
        )
