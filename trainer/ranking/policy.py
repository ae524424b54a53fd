"""The contract between a ranking policy and its training.

Above: training.py. Below: head.py, encoder_lora.py and scorer.py, one for each kind of adapter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from proxy.router.adapters import Adapter
from trainer.ranking.examples import Example
from trainer.ranking.tensors import Tensor

Places = Sequence[Mapping[str, int]]
"""For each example the column of each of its tools."""


class Policy(Protocol):
    """Scores of tools that have gradients."""

    def parameters(self) -> Mapping[str, Tensor]:
        """What is trained, by name, always in the same order."""
        ...

    def scores(self, examples: Sequence[Example]) -> tuple[Tensor, Places]:
        """Of the tools that each of `n` examples chooses among, `[n, m]`, before the softmax; minus infinity where an
        example has fewer."""
        ...

    def distance(self) -> Tensor:
        """Squared, from the untrained router, a number: what the anchor holds."""
        ...

    def save(self, folder: Path, servers: frozenset[str], facts: Mapping[str, Any]) -> Adapter:
        """Write it to `folder`, which must not exist. `servers`: configured names of those that are learned."""
        ...
