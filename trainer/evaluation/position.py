"""How far agents read: the examination of each place, from the swaps that were left to chance.

Above: off_policy.py. Below: shown_log.py. The position-based model: a tool is used if its place is examined and it is
what was wanted, P(used | tool, place k) = e_k · r(tool). The tools that are ranked at k and k + 1 stand at either place
by chance alone, so that, each use divided by the probability of its place,

    e_{k+1} / e_k = Σ used · [stood at k + 1] / P(stood at k + 1)  ÷  Σ used · [stood at k] / P(stood at k)

over the same tools (A. Agarwal, I. Zaitsev, X. Wang, C. Li, M. Najork, T. Joachims, "Estimating Position Bias without
Intrusive Interventions", WSDM 2019; T. Joachims, A. Swaminathan, T. Schnabel, "Unbiased Learning-to-Rank with Biased
Feedback", WSDM 2017, section 5.1). Nobody reads a place without those above it, so that e never rises. e_0 is 1: only
ratios are known, and only ratios are needed.
"""

from __future__ import annotations

import numpy as np

from trainer.evaluation.shown_log import Real, ShownLog

LEAST = 0.02
"""Of an examination, so that no tool counts more than fifty-fold."""


def swaps_of_pairs(log: ShownLog) -> list[int]:
    """How often each pair of neighbours was swapped, the first pair first."""
    return [int(np.count_nonzero((log.ranked == place) & (log.shown == place + 1))) for place in range(log.places - 1)]


def examination(log: ShownLog, weights: Real) -> Real:
    """`[places]`. `weights`: of each entry of the log, 1 each, or as often as a resample has it."""
    chosen = weights * log.used * (log.chance > 0)
    stood = log.stood(log.shown)
    shares = chosen / np.where(stood > 0, stood, 1.0)
    found = [1.0]
    for place in range(log.places - 1):
        of_pair = (log.ranked == place) | (log.ranked == place + 1)
        # A ranking that shows no place below has no such pair.
        of_pair &= log.size > place + 1
        above = float(shares[of_pair & (log.shown == place)].sum())
        below = float(shares[of_pair & (log.shown == place + 1)].sum())
        ratio = min(1.0, below / above) if above > 0 else 1.0
        found.append(max(LEAST, found[-1] * ratio))
    return np.array(found)
