"""Advantage-weighted regression: what came out well counts more, what came out badly is pushed down a little.

Above: examples.py. Below: nothing of ours. With the advantage `A` of a ranking's turn (trainer/data/advantages.py),

    w = min(clip, exp(A / β)) where A is above -margin, else 0;    v = negative · -A where A is at most -margin, else 0

The first is policy improvement under an implicit bound on the distance from the agents that made the log, and needs no
probabilities of theirs, which are unknown (Peng et al. 2019, arXiv 1910.00177, equation 9). The second is bounded by
the loss (softmax.py).
"""

from __future__ import annotations

import math


def weights(advantage: float, *, beta: float, clip: float, margin: float, negative: float) -> tuple[float, float]:
    """`(w, v)`: what right tools of a ranking with this advantage count, and what its tools count as wrong ones."""
    if advantage <= -margin:
        return 0.0, negative * -advantage
    # Above the clip whatever the power is, which may be more than a float holds.
    return (clip if advantage / beta >= math.log(clip) else math.exp(advantage / beta)), 0.0
