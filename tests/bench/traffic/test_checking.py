"""How far rewards separate what was simulated as good."""

from __future__ import annotations

from bench.traffic.checking import auc


def test_the_share_of_pairs_in_order() -> None:
    assert auc([(0.9, 0.1), (0.5, 0.5), (0.2, 0.3), (0.8, 0.0)]) == 0.625
    assert auc([]) is None
