"""What an evaluation hands to the gates, as it stands in the registry beside the adapter.

Above: gates.py, and whoever evaluates, which puts `to_json` under `EVIDENCE` in the adapter's metrics. Below: nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

EVIDENCE = "promotion"
"""The key in `Registered.metrics`."""
ALL = "all"
"""The slice of all held-out tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """One figure of one slice: with the adapter minus without it, task by task.

    Raises:
        ValueError: The lengths differ, or a difference is not finite.
    """

    slice: str
    """`all`, or what its tasks have in common."""
    figure: str
    """Such as `tool_recall@10`; more is better."""
    differences: tuple[float, ...]
    clusters: tuple[str, ...]
    """Of each task: tasks that need the same servers are no independent evidence."""

    def __post_init__(self) -> None:
        if len(self.differences) != len(self.clusters) or not all(map(math.isfinite, self.differences)):
            raise ValueError("each task has a difference, which is finite, and a cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of an adapter before anybody is served with it."""

    against: str | None
    """Hash of the adapter that it was compared with; None for the router without one."""
    paired: tuple[Paired, ...]
    p95_ms: float | None
    """Time of 95 of a hundred queries with it, in the router's process; None where it was not measured."""
    judges: tuple[str, ...]
    """Names of those who gave the rewards that it was trained on."""

    def to_json(self) -> dict[str, Any]:
        """As JSON, for the registry."""
        return {
            "against": self.against,
            "p95_ms": self.p95_ms,
            "judges": list(self.judges),
            "paired": [
                {
                    "slice": each.slice,
                    "figure": each.figure,
                    "differences": list(each.differences),
                    "clusters": list(each.clusters),
                }
                for each in self.paired
            ],
        }

    @classmethod
    def of(cls, metrics: Mapping[str, Any] | None) -> Self | None:
        """Of an adapter's metrics; None where there is none in them.

        Raises:
            ValueError: There is something else in its place.
        """
        given = (metrics or {}).get(EVIDENCE)
        if given is None:
            return None
        try:
            return cls(
                against=given["against"],
                p95_ms=None if given["p95_ms"] is None else float(given["p95_ms"]),
                judges=tuple(str(each) for each in given["judges"]),
                paired=tuple(_paired(each) for each in cast("Sequence[Mapping[str, Any]]", given["paired"])),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"the evaluation in the registry cannot be read: {error!r}") from error


def _paired(given: Mapping[str, Any]) -> Paired:
    return Paired(
        slice=str(given["slice"]),
        figure=str(given["figure"]),
        differences=tuple(float(each) for each in given["differences"]),
        clusters=tuple(str(each) for each in given["clusters"]),
    )
