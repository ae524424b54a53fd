"""The contract between the loop and what it trains.

Above: training.py. Below: one class for each thing that can be trained (ranking/, policy/).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

LOSS = "loss"
"""The metric of `validate` that says when to stop; lower is better."""


class Trainable(Protocol):
    """One model with its rows, its optimiser and its draws of chance. Used by one thread."""

    @property
    def steps(self) -> int:
        """How many updates there are in all, if nothing stops it before."""
        ...

    def step(self) -> Mapping[str, float]:
        """Make the next update, gradient accumulation included, and return its figures."""
        ...

    def validate(self) -> Mapping[str, float]:
        """Figures on rows that are not trained on, `loss` among them. Changes nothing: it draws from no generator that
        `step` draws from."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that the next `step` depends on, weights, optimiser, order and generators: tensors, numbers, texts, and
        lists and dictionaries of these."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there: the same losses follow as if nothing had been in between."""
        ...

    def save(self, folder: Path, facts: Mapping[str, Any]) -> str:
        """Write the adapter as it is now to `folder`, which must not exist; return its hash. `facts`: JSON, for its
        manifest."""
        ...
