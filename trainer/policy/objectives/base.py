"""The contract between an objective and the tuning.

Above: tuning.py. Below: the other modules of this package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from trainer.policy.windows import Window
from trainer.ranking.tensors import Tensor


class Objective(Protocol):
    """A loss over windows, of a model that it was made with."""

    def teaches(self, window: Window) -> bool:
        """Whether its loss depends on this window; others need not be read."""
        ...

    def loss(self, part: Sequence[Window], of: Sequence[Window]) -> Tensor:
        """What `part`, one pass, adds to the loss of all windows of an update: a number with gradients. The sum over
        parts is the update's loss, however it is parted."""
        ...
