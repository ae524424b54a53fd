"""Advantage-weighted regression of actions: what came out well counts more, what came out badly is pushed down.

Above: tuning.py. Below: weighted.py, and the weights of trainer/ranking/objectives/advantage_weighted.py, whose
equation is the ranker's, too: `w = min(clip, exp(A / β))` where the advantage `A` of an action's turn is above -margin,
`v = negative · -A` elsewhere (Peng et al. 2019, arXiv 1910.00177, equation 9). Probabilities of the agents that made
the log are unknown, and none are needed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from trainer.policy.objectives.weighted import Weighted
from trainer.policy.settings import TuningSettings
from trainer.ranking.objectives.advantage_weighted import weights


def advantage_weighted(model: Any, settings: TuningSettings) -> Weighted:
    weigh = partial(weights, beta=settings.beta, clip=settings.clip, margin=settings.margin, negative=settings.negative)
    return Weighted(model, weigh, settings.floor)
