"""Filtered imitation of actions: those that came out better than their like count alike, and no others do.

Above: tuning.py. Below: weighted.py. `w = 1` where the advantage is above 0, else 0, and `v = 0`: rejection sampling,
as in RAFT (Dong et al. 2023, arXiv 2304.06767).
"""

from __future__ import annotations

from typing import Any

from trainer.policy.objectives.weighted import Weighted
from trainer.policy.settings import TuningSettings
from trainer.ranking.objectives.filtered_imitation import weights


def filtered_imitation(model: Any, settings: TuningSettings) -> Weighted:
    return Weighted(model, weights, settings.floor)
