"""All that promotion goes by, with its defaults; frozen.

Above: advancing.py and whoever calls it. Below: gates.py and sequential.py, which have their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trainer.promotion.gates import GateSettings
from trainer.promotion.sequential import SequentialSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionSettings:
    """All that promotion goes by.

    Raises:
        ValueError: A value cannot be meant.
    """

    gates: GateSettings = field(default_factory=GateSettings)
    sequential: SequentialSettings = field(default_factory=SequentialSettings)
    shadowed: int = 50
    """Searches that its shadow has to have ranked before it answers anybody."""
    share: float = 0.1
    """Of tasks, for a canary."""
    watched_days: float = 14.0
    """How long an active adapter is compared with what it was as a canary; later, much else has changed, too."""

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0 or self.shadowed < 0 or self.watched_days < 0.0:
            raise ValueError("a share is between 0 and 1, and numbers are at least 0")
