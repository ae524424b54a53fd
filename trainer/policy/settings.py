"""What can be chosen when a policy is tuned; goes into the adapter's manifest.

Above: tuning.py. Below: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from proxy.errors import ConfigurationError

Algorithm = Literal["advantage-weighted", "filtered-imitation", "sft", "kto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningSettings:
    """One module of objectives/ describes each algorithm.

    Raises:
        ConfigurationError: A number is out of its bounds; the text names it.
    """

    algorithm: Algorithm = "advantage-weighted"
    beta: float = 1.0
    """Of advantage-weighted: how much advantages, in standard deviations, count. Large: hardly."""
    clip: float = 5.0
    """The most that an action counts."""
    margin: float = 0.5
    """An action whose advantage is at most minus this is pushed down, not learned."""
    negative: float = 0.1
    """What pushing down counts beside learning, per standard deviation."""
    floor: float = -3.0
    """In nats; a token that is less likely is pushed down no further."""
    reason: float = 0.5
    """What a token of a reason counts beside one of an action."""
    kto_beta: float = 0.1
    """Of KTO: how much distance from the untuned model counts."""
    tokens: int = 4_096
    """The most that is read at once; longer rows are read in windows."""
    before: int = 2_048
    """Of them, what a window reads before the first action that it teaches."""
    windows: int = 4
    """The most of one row and epoch, drawn by chance."""
    epochs: int = 2
    learning_rate: float = 3e-4
    batch: int = 4
    """Windows of one pass."""
    accumulation: int = 4
    """Passes of one update."""
    rank: int = 8
    """Of LoRA."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("beta", "clip", "kto_beta", "learning_rate"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"{name} of the policy is above 0, not {getattr(self, name)}")
        for name in ("margin", "negative", "reason"):
            if not getattr(self, name) >= 0:
                raise ConfigurationError(f"{name} of the policy is at least 0, not {getattr(self, name)}")
        for name in ("before", "windows", "epochs", "batch", "accumulation", "rank"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} of the policy is at least 1, not {getattr(self, name)}")
        if not self.floor < 0:
            raise ConfigurationError(f"floor of the policy is a logarithm below 0, not {self.floor}")
        if self.tokens <= self.before:
            raise ConfigurationError(f"before, {self.before}, has to be less than tokens, {self.tokens}")
