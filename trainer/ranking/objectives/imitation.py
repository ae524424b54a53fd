"""Plain imitation, which looks at no reward: what agents used is taken to be right.

Above: examples.py. Below: nothing. `w = 1` (behavioural cloning, Pomerleau 1991). It is what rewards are measured
against, and no way to train what serves.
"""

from __future__ import annotations


def weights() -> tuple[float, float]:
    """`(w, v)` as in advantage_weighted.py; nothing is wrong."""
    return 1.0, 0.0
