"""Logs of rankings where the truth is known: how relevant each tool is, and how far agents read.

Above: test_off_policy.py. Below: trainer/evaluation/shown_log.py. Uses follow the position-based model; the logging
router ranks by a noisy sight of relevance, and two neighbours are swapped as proxy/router/exploring.py does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainer.evaluation.shown_log import Real, ShownLog

EXAMINED = (1.0, 0.62, 0.41, 0.30, 0.22)
SIZE = len(EXAMINED)
OF_EPISODE = 3


@dataclass(frozen=True, slots=True)
class Simulated:
    log: ShownLog
    truth: float
    """Right uses per ranking that the target's order brings in expectation, for these very rankings."""


def simulated(seed: int, rankings: int, *, share: float, better: bool = True) -> Simulated:
    """`share`: of rankings with a swapped pair. `better`: the target sees relevance more clearly than the router that
    logged; otherwise it has all of it the wrong way round."""
    random = np.random.default_rng([20, seed])
    relevance = random.beta(1, 3, size=(rankings, SIZE))
    ranked = _places(relevance + random.normal(0, 0.25, relevance.shape))
    target = _places(relevance + random.normal(0, 0.1, relevance.shape)) if better else _places(-relevance)
    shown = ranked.copy()
    swapped = random.random(rankings) < share
    pairs = random.integers(SIZE - 1, size=rankings)
    for row in np.flatnonzero(swapped):
        above, below = ranked[row] == pairs[row], ranked[row] == pairs[row] + 1
        shown[row][above], shown[row][below] = pairs[row] + 1, pairs[row]
    examined = np.array(EXAMINED)
    used = random.random(relevance.shape) < examined[shown] * relevance
    episodes = -(-rankings // OF_EPISODE)
    log = ShownLog(
        episode=np.repeat(np.arange(rankings) // OF_EPISODE, SIZE),
        ranking=np.repeat(np.arange(rankings), SIZE),
        size=np.full(rankings * SIZE, SIZE),
        ranked=ranked.ravel(),
        shown=shown.ravel(),
        target=target.ravel(),
        chance=np.full(rankings * SIZE, share / (SIZE - 1)),
        used=used.ravel().astype(np.float64),
        episodes=episodes,
        rankings=rankings,
        swaps=int(swapped.sum()),
    )
    return Simulated(log, float((examined[target] * relevance).sum(axis=1).mean()))


def _places(scores: Real) -> np.ndarray:
    return np.argsort(np.argsort(-scores, axis=1), axis=1)
