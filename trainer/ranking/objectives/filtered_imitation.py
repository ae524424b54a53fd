"""Filtered imitation: what came out better than its like counts, all of it alike, and nothing else does.

Above: examples.py. Below: nothing. With the advantage `A` of a ranking's turn, `w = 1` where A is above 0, else 0: the
log's better part is imitated (rejection sampling, as in RAFT, Dong et al. 2023, arXiv 2304.06767).
"""

from __future__ import annotations


def weights(advantage: float) -> tuple[float, float]:
    """`(w, v)` as in advantage_weighted.py; nothing is wrong."""
    return (1.0 if advantage > 0 else 0.0), 0.0
