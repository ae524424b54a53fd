"""How well a score separates good runs from defective ones.

Above: judge.py of this package's parent. Below: numpy. AUC is the probability that a good run scores higher than a
defective one, ties counting half (Mann and Whitney's U over the number of pairs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Separation:
    """Of one set of good runs and one of defective ones."""

    good: int
    defective: int
    auc: float | None
    """None where one of the two is empty."""
    low: float | None
    high: float | None
    """95 % bootstrap interval; both sets are resampled."""


def separation(good: Sequence[float], defective: Sequence[float], *, seed: int = 1) -> Separation:
    """Runs without a score are not in either; whoever calls counts them."""
    if not good or not defective:
        return Separation(good=len(good), defective=len(defective), auc=None, low=None, high=None)
    above, below = np.asarray(good, dtype=float), np.asarray(defective, dtype=float)
    wins = (above[:, None] > below[None, :]) + 0.5 * (above[:, None] == below[None, :])
    chance = np.random.default_rng(seed)
    drawn = [_resampled(wins, chance) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Separation(
        good=len(good), defective=len(defective), auc=float(wins.mean()), low=float(low), high=float(high)
    )


def _resampled(wins: NDArray[np.float64], chance: np.random.Generator) -> float:
    rows = chance.integers(0, wins.shape[0], wins.shape[0])
    columns = chance.integers(0, wins.shape[1], wins.shape[1])
    return float(wins[np.ix_(rows, columns)].mean())
