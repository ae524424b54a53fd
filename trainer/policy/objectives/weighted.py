"""The loss of weighted actions: good ones are made likelier, bad ones less likely down to a floor.

Above: advantage_weighted.py and filtered_imitation.py. Below: reading.py. With what a token counts, `m`, what its row
counts, `c`, and weights `w` of good and `v` of bad actions, over all tokens of an update,

    L = Σ c m (-w log π(t) + v max(log π(t), floor)) / Σ c m

As in trainer/ranking/objectives/softmax.py the second term ends at its floor, token by token, where a plain negative
log-likelihood would go on without end (asymmetric treatment of negatives as in Roux et al. 2025, arXiv 2503.14286).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from trainer.policy.reading import log_likelihoods
from trainer.policy.windows import Window
from trainer.ranking.tensors import Tensor

Weigh = Callable[[float], tuple[float, float]]
"""Of an advantage: `(w, v)`."""


class Weighted:
    """Implements `Objective`. `floor`: in nats."""

    def __init__(self, model: Any, weigh: Weigh, floor: float) -> None:
        self._model = model
        self._weigh = weigh
        self._floor = floor

    def teaches(self, window: Window) -> bool:
        return any(any(self._weigh(window.advantages[place])) for place in window.learned)

    def loss(self, part: Sequence[Window], of: Sequence[Window]) -> Tensor:
        whole = math.fsum(each.weight * math.fsum(each.weights) for each in of)
        likely = log_likelihoods(self._model, part)
        return sum(weighted(*each, self._weigh, self._floor) for each in zip(part, likely, strict=True)) / whole


def weighted(window: Window, likely: Tensor, weigh: Weigh, floor: float) -> Tensor:
    """The numerator of `L` for one window, a number. `likely`: of its learned tokens, `[k]`."""
    good: list[float] = []
    bad: list[float] = []
    for place in window.learned:
        right, wrong = weigh(window.advantages[place])
        counts = window.weight * window.weights[place]
        good.append(counts * right)
        bad.append(counts * wrong)
    return (likely.new_tensor(bad) * likely.clamp(min=floor) - likely.new_tensor(good) * likely).sum()
