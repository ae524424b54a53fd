"""Why a router has no answer: what is told to agents, counted in metrics and written into the log.

Above: whatever asks a router that may not answer. Below: nothing.
"""

from __future__ import annotations

from enum import StrEnum


class Why(StrEnum):
    """Why there is no answer. The values complete "The router is …", and count as labels."""

    STARTING = "starting"
    DOWN = "down"
    EMBEDDING = "embedding new tools"
    LATE = "late"
    BUSY = "busy"
    FAILING = "failing"
    UNADAPTED = "without its adapter"


class NoAnswer(Exception):
    """A query was not answered."""

    def __init__(self, why: Why) -> None:
        super().__init__(why)
        self.why = why
