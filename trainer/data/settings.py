"""What can be chosen about the data of a run; part of the hash of what was trained on.

Above: collecting.py, and trainer/settings.py, which reads them. Below: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from proxy.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvantageSettings:
    """See advantages.py for the equations."""

    shrinkage: float = 5.0
    """Lambda: a group counts as if so many more episodes had the mean of all that it may be compared with."""
    turn: float = 0.5
    """Alpha: what a turn's credit, which is between -1 and 1, counts beside the advantage of its episode."""

    def __post_init__(self) -> None:
        if self.shrinkage < 0 or self.turn < 0:
            raise ConfigurationError("shrinkage and turn of the advantages are at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapSettings:
    """See caps.py."""

    agent_share: float = 0.2
    """The most of what is taught that one agent may have, 0 to 1, or what the lower median agent has, if that is more.
    1 trusts them all."""
    alone_share: float = 0.05
    """What an agent may teach as right that no other bears out, against all that others teach; 1 trusts them all."""
    trust: float = 4.0
    """The same against what others bear out of its own: with 4, four of five may be what it alone has seen."""
    beta: float = 1.0
    clip: float = 5.0
    margin: float = 0.5
    """As in ranking/settings.py: by these, training makes weights of advantages."""

    def __post_init__(self) -> None:
        if not 0 < self.agent_share <= 1:
            raise ConfigurationError(f"agent_share is above 0 and at most 1, not {self.agent_share:g}")
        if not 0 <= self.alone_share <= 1 or self.trust < 0:
            raise ConfigurationError("alone_share is between 0 and 1, and trust at least 0")
        if self.beta <= 0 or self.clip <= 0:
            raise ConfigurationError("beta and clip of the caps are above 0")
        if self.margin < 0:
            raise ConfigurationError("margin of the caps is at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSettings:
    """See splits.py."""

    by: Literal["hash", "time", "servers"] = "hash"
    validation: float = 0.1
    test: float = 0.2
    """Shares of what is split, together less than 1. By servers, `test` is what the servers make it."""
    servers: tuple[str, ...] | None = None
    """Configured names of the servers that are held out; None holds out a half, drawn by `seed`. By servers only."""
    seed: int = 0
    alike: float = 0.5
    """The least share of words and pairs of words, values masked, that near duplicates have in common."""
    near: float = 0.9
    """The least cosine of near duplicates, where there is an encoder."""

    def __post_init__(self) -> None:
        if min(self.validation, self.test) < 0 or self.validation + self.test >= 1:
            raise ConfigurationError("the shares of validation and test are at least 0, and together less than 1")
        if self.servers is not None and self.by != "servers":
            raise ConfigurationError("servers are held out where rows are split by servers")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSettings:
    """All of it."""

    advantages: AdvantageSettings = field(default_factory=AdvantageSettings)
    caps: CapSettings = field(default_factory=CapSettings)
