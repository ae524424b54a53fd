"""What a ranking is worth: shares of what was needed that it puts in front, and how sure such a mean is.

Above: the bench and the trainer's evaluation. Below: numpy. Needs are sets of alternatives: each is met by any one of
its names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DRAWS = 2_000
"""Of a bootstrap: the ends of its interval are then right to about a fiftieth of its length."""
_DRAWN_AT_ONCE = 1_000_000
"""Numbers, so that many values cost time and not memory."""

Need = frozenset[str]
"""Names of which one is enough; most have one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure with its bootstrap interval."""

    value: float
    low: float
    high: float


def recall_at(ranked: Sequence[str], needs: Sequence[Need], count: int) -> float:
    """The share of needs met within the first `count`; 1 where nothing is needed."""
    first = frozenset(ranked[:count])
    return sum(not need.isdisjoint(first) for need in needs) / len(needs) if needs else 1.0


def all_within(ranked: Sequence[str], needs: Sequence[Need], count: int) -> bool:
    """Whether every need is met within the first `count`."""
    first = frozenset(ranked[:count])
    return not any(need.isdisjoint(first) for need in needs)


def reciprocal_rank(ranked: Sequence[str], needs: Sequence[Need]) -> float:
    """1 / the place of the first name that is needed; 0 where there is none."""
    wanted = frozenset[str]().union(*needs)
    return next((1 / place for place, name in enumerate(ranked, start=1) if name in wanted), 0.0)


def cost_of_all(ranked: Sequence[str], needs: Sequence[Need], costs: Mapping[str, int]) -> int | None:
    """What an agent pays that reads one after the other until every need is met; None where one never is."""
    open_needs = list(needs)
    spent = 0
    for name in ranked:
        if not open_needs:
            break
        spent += costs[name]
        open_needs = [need for need in open_needs if name not in need]
    return None if open_needs else spent


def least_cost(needs: Sequence[Need], costs: Mapping[str, int]) -> int | None:
    """What one pays that knows: the cheapest name of each need, each once; None where a need has no name with a cost.

    Where one name meets several needs that have others too, this may be more than the least.
    """
    chosen: set[str] = set()
    for need in needs:
        known = sorted((costs[name], name) for name in need if name in costs)
        if not known:
            return None
        chosen.add(known[0][1])
    return sum(costs[name] for name in chosen)


def bootstrap(
    values: Sequence[float],
    *,
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    clusters: Sequence[str] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Estimate:
    """The mean of `values`, or another statistic, with its 95 % percentile interval over resamples.

    `statistic`: of `[draws, n]` along the last axis. `clusters`: of each value; values of one cluster are drawn
    together, which values that depend on each other ask for; then the statistic is the mean. No values: ValueError.
    """
    if len(values) == 0:
        raise ValueError("nothing to estimate from")
    random = np.random.default_rng(seed)
    array = np.asarray(values, dtype=np.float64)
    if clusters is not None:
        if statistic is not None:
            raise ValueError("with clusters the statistic is the mean")
        return _clustered(array, clusters, draws, random)
    take = statistic if statistic is not None else _mean
    at_once = max(1, _DRAWN_AT_ONCE // len(array))
    drawn = [
        take(array[random.integers(len(array), size=(min(at_once, draws - start), len(array)))])
        for start in range(0, draws, at_once)
    ]
    return _estimate(float(take(array[np.newaxis])[0]), np.concatenate(drawn))


def percentile_of(share: float) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """A statistic for `bootstrap`: the nearest-rank percentile, `share` between 0 and 1."""

    def statistic(values: NDArray[np.float64]) -> NDArray[np.float64]:
        place = min(values.shape[-1] - 1, int(share * values.shape[-1]))
        return np.partition(values, place, axis=-1)[..., place]

    return statistic


def _clustered(
    values: NDArray[np.float64], clusters: Sequence[str], draws: int, random: np.random.Generator
) -> Estimate:
    names = {name: index for index, name in enumerate(dict.fromkeys(clusters))}
    members = np.array([names[name] for name in clusters])
    sums = np.bincount(members, values, len(names))
    counts = np.bincount(members, minlength=len(names))
    chosen = random.integers(len(names), size=(draws, len(names)))
    return _estimate(float(values.mean()), sums[chosen].sum(-1) / counts[chosen].sum(-1))


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values.mean(axis=-1)


def _estimate(value: float, drawn: NDArray[np.float64]) -> Estimate:
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Estimate(value=value, low=float(low), high=float(high))
