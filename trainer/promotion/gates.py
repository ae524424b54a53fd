"""What has to be shown of an adapter before it answers anybody.

Above: advancing.py. Below: evidence.py. Pure functions. A gate lets through, holds (what would decide is missing, and
may come) or refuses (what there is speaks against it).

Non-inferiority: of the paired differences of each slice and figure the lower bound of the confidence interval has to be
above -margin. The interval is the percentile bootstrap over clusters (A. C. Davison and D. V. Hinkley, "Bootstrap
Methods and their Application", Cambridge 1997, sections 3.8 and 5.3), one-sided at level / k each, where k slices and
figures are looked at (Bonferroni), so that the chance that any of them lies beyond its bound is at most level.

A slice of few or varied tasks cannot show that nothing is lost: where the bound is further than the margin below the
mean, one that is exactly as good as before would be held. It can show harm, and is asked for that alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from proxy.store.registry import SHORT, Approval
from proxy.store.rewards import Batch
from trainer.promotion.evidence import ALL, Evidence, Paired

RESAMPLES = 20_000
HARM_TASKS = 30
"""In a slice; with less it says nothing at all."""
_SEED = 8


class Result(StrEnum):
    PASSED = "passed"
    HELD = "held"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Gate:
    """One of them, and what it found."""

    name: str
    result: Result
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """What the gates ask for.

    Raises:
        ValueError: A value cannot be meant.
    """

    margin: float = 0.02
    """Loss that is taken for none."""
    level: float = 0.05
    """Of all intervals together."""
    least_tasks: int = 200
    """In all, and in a slice that has to show that nothing is lost there."""
    least_clusters: int = 10
    budget_ms: float = 150.0
    """Of the router, as `serve --router-budget-ms`."""
    approval: bool = False
    """Whether a person has to agree before it answers anybody."""

    def __post_init__(self) -> None:
        if self.margin < 0.0 or not 0.0 < self.level < 0.5 or self.budget_ms <= 0.0:
            raise ValueError("a margin is at least 0, a level between 0 and 0.5, and a budget more than 0 ms")
        if self.least_tasks < 1 or self.least_clusters < 2:
            raise ValueError("a slice has at least one task, and two clusters")


@dataclass(frozen=True, slots=True)
class Interval:
    mean: float
    lower: float
    upper: float


def offline_gates(
    evidence: Evidence | None, settings: GateSettings, *, active: str | None, batches: Mapping[str, Batch | None]
) -> tuple[Gate, ...]:
    """Those between candidate and shadow.

    Args:
        active: Hash of the adapter that is active now.
        batches: By judge, the latest that it judged; None where there is none.
    """
    if evidence is None:
        return (Gate("evaluation", Result.HELD, "it was not evaluated"),)
    return (
        _comparison(evidence, active),
        *_slices(evidence.paired, settings),
        _latency(evidence.p95_ms, settings.budget_ms),
        *_judges(evidence.judges, batches),
    )


def approval_gate(hashed: str, approvals: Sequence[Approval], settings: GateSettings) -> Gate:
    """The one between shadow and canary: from there on agents are served by it."""
    if approvals:
        return Gate("approval", Result.PASSED, f"by {approvals[-1].by}")
    if settings.approval:
        command = f"toolatlas adapters approve {hashed[:SHORT]}"
        return Gate("approval", Result.HELD, f"a person has to agree: {command}")
    return Gate("approval", Result.PASSED, "none is asked for")


def verdict(gates: Iterable[Gate]) -> Result:
    """Of all together: one that refuses outweighs one that holds."""
    results = {gate.result for gate in gates}
    return next((result for result in (Result.REFUSED, Result.HELD) if result in results), Result.PASSED)


def interval(paired: Paired, level: float) -> Interval:
    """Mean of the differences, and the bounds that it lies beyond with probability `level` each."""
    return _within(paired, _resampled(paired), level)


def _resampled(paired: Paired) -> NDArray[np.float64]:
    """Means of the differences in `RESAMPLES` draws of its clusters, always the same ones."""
    named = {cluster: place for place, cluster in enumerate(sorted(set(paired.clusters)))}
    places = np.array([named[cluster] for cluster in paired.clusters])
    sums = np.bincount(places, weights=np.array(paired.differences), minlength=len(named))
    sizes = np.bincount(places, minlength=len(named))
    random = np.random.default_rng(_SEED)
    drawn = random.multinomial(len(named), np.full(len(named), 1 / len(named)), size=RESAMPLES)
    return (drawn @ sums) / (drawn @ sizes)


def _within(paired: Paired, means: NDArray[np.float64], level: float) -> Interval:
    lower, upper = np.quantile(means, (level, 1.0 - level))
    return Interval(math.fsum(paired.differences) / len(paired.differences), float(lower), float(upper))


def _comparison(evidence: Evidence, active: str | None) -> Gate:
    def said(hashed: str | None) -> str:
        return "the router without an adapter" if hashed is None else hashed[:SHORT]

    if evidence.against == active:
        return Gate("comparison", Result.PASSED, f"with {said(active)}, which is in force")
    text = f"it was compared with {said(evidence.against)}, but {said(active)} is in force: evaluate it again"
    return Gate("comparison", Result.HELD, text)


def _slices(paired: Sequence[Paired], settings: GateSettings) -> Iterator[Gate]:
    large: list[Paired] = []
    small: list[Paired] = []
    silent: list[Paired] = []
    for each in paired:
        tasks, several = len(each.differences), len(set(each.clusters)) >= settings.least_clusters
        if several and tasks >= settings.least_tasks:
            large.append(each)
        elif each.slice != ALL:
            (small if several and tasks >= HARM_TASKS else silent).append(each)
    if not any(each.slice == ALL for each in large):
        most = max((len(each.differences) for each in paired if each.slice == ALL), default=0)
        needed = f"{settings.least_tasks} are needed, in {settings.least_clusters} clusters"
        yield Gate(f"slice {ALL}", Result.HELD, f"too little data: {most} held-out tasks, {needed}")
    for each in silent:
        text = f"{len(each.differences)} tasks say nothing; the canary will"
        yield Gate(f"slice {each.slice}, {each.figure}", Result.PASSED, text)
    # By how wide its interval is, not by what it says.
    precise: list[tuple[Paired, NDArray[np.float64]]] = []
    vague = [(each, _resampled(each)) for each in small]
    for each in large:
        means = _resampled(each)
        found = _within(each, means, settings.level / len(large))
        is_precise = each.slice == ALL or found.mean - found.lower <= settings.margin
        (precise if is_precise else vague).append((each, means))
    for each, means in precise:
        found = _within(each, means, settings.level / len(precise))
        yield Gate(f"slice {each.slice}, {each.figure}", *_found(found, len(each.differences), settings.margin))
    for each, means in vague:
        found = _within(each, means, settings.level / len(vague))
        yield Gate(f"slice {each.slice}, {each.figure}", *_harm(found, len(each.differences)))


def _found(found: Interval, tasks: int, margin: float) -> tuple[Result, str]:
    text = _said(found, tasks)
    if found.upper < 0.0:
        return Result.REFUSED, f"{text}: it is worse"
    if found.lower > -margin:
        return Result.PASSED, text
    return Result.HELD, f"{text}: a loss of {margin} is not excluded"


def _harm(found: Interval, tasks: int) -> tuple[Result, str]:
    text = _said(found, tasks)
    if found.upper < 0.0:
        return Result.REFUSED, f"{text}: it is worse"
    return Result.PASSED, f"{text}: it says too little to exclude a loss; the canary will say"


def _said(found: Interval, tasks: int) -> str:
    return f"{found.mean:+.3f} over {tasks} tasks, between {found.lower:+.3f} and {found.upper:+.3f}"


def _latency(p95_ms: float | None, budget_ms: float) -> Gate:
    if p95_ms is None:
        return Gate("latency", Result.HELD, "it was not measured")
    text = f"95 of 100 queries within {p95_ms:.0f} ms, and the budget is {budget_ms:.0f} ms"
    return Gate("latency", Result.PASSED if p95_ms <= budget_ms else Result.REFUSED, text)


def _judges(judges: Sequence[str], batches: Mapping[str, Batch | None]) -> Iterator[Gate]:
    if not judges:
        yield Gate("judge", Result.HELD, "it is not known who gave the rewards")
    for judge in judges:
        yield Gate(f"judge {judge}", *_canaries(batches.get(judge)))


def _canaries(batch: Batch | None) -> tuple[Result, str]:
    if batch is None:
        return Result.HELD, "no batch of it is in the log, so that its canaries cannot be looked at"
    failed = [str(canary.get("name", "?")) for canary in batch.canaries if not canary.get("passed")]
    if failed or not batch.accepted:
        names = ", ".join(failed) or batch.note or "the batch was refused"
        return Result.HELD, f"in its latest batch its canaries did not pass: {names}"
    return Result.PASSED, f"all {len(batch.canaries)} canaries of its latest batch passed"
