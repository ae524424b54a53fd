"""What the code of one run may still ask for: how often, how much, and how many at a time.

Above: the backends, which ask before anything is done. `Calls` checks the same in its own words; this holds whatever
`Calls` does, and before a flood from a sandbox costs anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio

from proxy.sandbox.base import Limits


class Allowance:
    """Of one run. The methods return why not, for the code to read, or None."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.turns = anyio.Semaphore(limits.parallel, fast_acquire=True)
        """Held by a call while it is under way."""
        self.made = 0
        """Tool calls that were allowed."""
        self._looked_up = 0

    def call(self, arguments: Mapping[str, Any]) -> str | None:
        """Counts the call if it is allowed."""
        if self.made >= self._limits.calls:
            return f"a run may make {self._limits.calls} tool calls; go on in the next run, which has the variables"
        if problem := _problem(arguments, self._limits.argument_bytes):
            return problem
        self.made += 1
        return None

    def look_up(self) -> str | None:
        """Counts the look-up if it is allowed; there may be as many as calls."""
        if self._looked_up >= self._limits.calls:
            return f"a run may look up {self._limits.calls} times; go on in the next run"
        self._looked_up += 1
        return None

    def value(self, size: int) -> str | None:
        """`size`: bytes of a tool's result as JSON."""
        if size <= (most := self._limits.value_bytes):
            return None
        return (
            f"the result has {size:,} bytes as JSON; {most:,} are the most that code is given; ask for less at a time"
        )


def _problem(arguments: Mapping[str, Any], most: int) -> str | None:
    """Why arguments cannot be sent on to a server."""
    try:
        size = len(json.dumps(arguments, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode())
    except UnicodeEncodeError:
        return "the arguments contain half of a surrogate pair, which has no form in UTF-8"
    except (ValueError, RecursionError):
        return "the arguments contain NaN, infinity or too deep a nesting, which have no form in JSON"
    return f"the arguments have {size:,} bytes as JSON; {most:,} are the most" if size > most else None
