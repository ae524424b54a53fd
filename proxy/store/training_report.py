"""What is known of a run of training once it is evaluated: plain values that are JSON in the store.

Above: trainer/evaluation/, which makes them; training_runs.py; the dashboard, which shows them. Below: pydantic, which
reads them back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

ALL = "all"
"""The slice of all held-out tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimated:
    """A figure with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """Of the decisions whose surest tool had a probability between `low` and `high`."""

    low: float
    high: float
    count: int
    confidence: float
    """Mean of those probabilities; 0 where there are none."""
    accuracy: float
    """Share of them where that tool was right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """One router's scores read as probabilities: a softmax at the temperature that fits best on validation rows."""

    temperature: float
    nll: Estimated
    """Mean of -ln of the probability of what was right, in nats."""
    ece: float
    """Expected calibration error, 0 to 1: how far confidence and accuracy are apart, over `bins`."""
    bins: tuple[Reliability, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfRouter:
    """One router on the held-out tasks."""

    router: str
    """`lexical`, `encoder`, `fused`, `previous` or `adapter`, or what whoever evaluated calls it."""
    adapter: str | None
    """Hash."""
    figures: Mapping[str, Estimated]
    """`server_recall@5` and so on, all better when higher; a figure that no task has is not in it."""
    decisions: Decisions | None = None
    """None where nothing could be fitted."""
    p95_ms: float | None = None
    """Time of 95 of 100 rankings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One figure on some of the tasks: the adapter minus what it is compared with, task by task."""

    name: str
    """`all`, or what its tasks have in common, such as `servers: 2`."""
    figure: str
    tasks: int
    before: float
    after: float
    difference: Estimated
    """Interval by cluster."""
    differences: tuple[float, ...]
    """Of each task, for whoever wants another interval."""
    clusters: tuple[str, ...]
    """Of each task: the combination of servers that it needs. Tasks of one are no independent evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoEstimate:
    """Nothing can be said, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPolicy:
    """What another order of the tools that were shown would have brought, from logged propensities."""

    name: str
    """`snips`, `doubly robust`."""
    logged: float
    """Right uses per ranking, as it was shown."""
    estimate: Estimated
    """The same in the adapter's order; interval by episode."""
    difference: Estimated
    effective: float
    """Effective sample size: of how many equally weighted rankings it is worth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FromLog:
    """Off-policy estimates with what they rest on."""

    rankings: int
    """That showed at least two tools and whose propensities are known."""
    swaps: int
    """Of them, those that left two neighbours to chance and swapped them."""
    examination: tuple[float, ...]
    """Of the position model: probability that an agent reads as far as each place, relative to the first."""
    position_model: str
    """How it is known, in words."""
    results: tuple[OffPolicy, ...] = ()
    none: NoEstimate | None = None
    """Why there are no results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A query that is answered otherwise than before."""

    episode_id: str | None
    """Whose words it is in: it goes when the episode goes. None where it is of a task file."""
    query: str
    before: tuple[str, ...]
    """The first tools."""
    after: tuple[str, ...]
    right: tuple[str, ...]
    gain: float
    """Of the reciprocal rank of what was right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One metric of training."""

    name: str
    """`loss` and so on."""
    kind: str
    """`training` or `validation`."""
    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataUsed:
    """What the run learned from."""

    hash: str
    episodes: int
    rankings: int
    held_out: int
    """Tasks that were measured."""
    scopes: Mapping[str, float] = field(default_factory=dict[str, float])
    """Scope of the rewards -> share of the episodes."""
    agents: Mapping[str, float] = field(default_factory=dict[str, float])
    """Agent -> share of what would be taught as right without caps."""
    agents_capped: Mapping[str, float] = field(default_factory=dict[str, float])
    """The share that it has."""
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    """Why -> episodes."""
    sides: Mapping[str, int] = field(default_factory=dict[str, int])
    """`training`, `validation`, `test`, `dropped` -> episodes."""
    judges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Of one run."""

    run: str
    made_at: datetime
    command: str
    """What to type to do the same again."""
    version: str
    commit: str | None
    seed: int | None
    adapter: str
    """Hash."""
    kind: str
    """Of the adapter: `head`, `lora` or `scorer`."""
    against: str | None
    """Hash of the adapter that `slices` compare with; None for the fused router without one."""
    against_router: str
    """Which of `routers` that is."""
    data: DataUsed
    routers: tuple[OfRouter, ...]
    slices: tuple[Slice, ...]
    from_log: FromLog
    changed: tuple[Changed, ...] = ()
    curves: tuple[Curve, ...] = ()
    latency_p95_ms: float | None = None
    """Of the adapter's rankings; None where none was measured."""
    notes: tuple[str, ...] = ()
    """What a reader has to know: sentences."""

    @property
    def whole(self) -> tuple[Slice, ...]:
        """The slices of all tasks."""
        return tuple(each for each in self.slices if each.name == ALL)

    def to_json(self) -> dict[str, Any]:
        return _ADAPTER.dump_python(self, mode="json")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Report:
        """What `to_json` gave.

        Raises:
            ValueError: It is something else, such as the report of another version.
        """
        try:
            return _ADAPTER.validate_python(dict(given))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise ValueError(f"the report does not fit this version, {place}: {first['msg']}") from error


_ADAPTER = TypeAdapter(Report)
