"""Everything of a judge that can be set, with its defaults; frozen.

Above: commands/ makes it of options and environment. Below: nothing. What changes a verdict or a reward is in
`fingerprint`, which is part of the judge's name: rewards of different settings never stand for one another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite

from judge.rubric import Category
from proxy.errors import ConfigurationError

FINGERPRINT_CHARS = 8


def _weights() -> dict[Category, float]:
    # Of a third party's demonstration: the paper does not publish its own, only that the first is the largest.
    return {
        Category.TASK_FULFILMENT: 0.4,
        Category.TOOL_APPROPRIATENESS: 0.3,
        Category.TOOL_GROUNDING: 0.2,
        Category.PARAMETER_ACCURACY: 0.1,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardSettings:
    """How verdicts become a reward.

    Raises:
        ConfigurationError: A value cannot be meant.
    """

    weights: Mapping[Category, float] = field(default_factory=_weights)
    """Of the categories; only their ratios count."""
    most_missing: float = 0.3
    """Share of the weight inside the scope that may be missing; with more there is no reward."""
    essential_cap: float = 0.3
    """The most that a trajectory gets in which an essential criterion has less than half its credit."""
    pitfall_share: float = 1.0
    """How much of a pitfall's weight, over the weight of its category's criteria, is taken off that category."""

    def __post_init__(self) -> None:
        given = tuple(self.weights.values())
        if set(self.weights) != set(Category) or not all(map(isfinite, given)) or min(given) < 0 or sum(given) <= 0:
            raise ConfigurationError("each of the four categories has a weight of at least 0, and not all have 0")
        for name in ("most_missing", "essential_cap", "pitfall_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigurationError(f"{name} is between 0 and 1, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How a model is asked. The endpoint itself, its key and its limits are in `EndpointSettings`.

    Raises:
        ConfigurationError: A value cannot be meant.
    """

    repeats: int = 3
    """How often each criterion is asked, in another order each time."""
    criteria_at_once: int = 4
    """Criteria per question; 1 asks each alone."""
    temperature: float = 0.0
    transcript_chars: int = 24_000
    """Of the rendered trajectory in one question; more is cut, and the cut stated."""
    observation_chars: int = 4_000
    """Of one observation in it."""

    def __post_init__(self) -> None:
        if not 1 <= self.repeats <= 20 or not 1 <= self.criteria_at_once <= 20:
            raise ConfigurationError("repeats and criteria at once are between 1 and 20")
        if self.observation_chars < 200 or self.transcript_chars < self.observation_chars:
            raise ConfigurationError("an observation gets at least 200 characters, the transcript at least as many")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """An OpenAI-compatible endpoint.

    Raises:
        ConfigurationError: A value cannot be meant.
    """

    url: str
    """Base URL, usually ending in `/v1`."""
    model: str
    api_key: str | None = field(default=None, repr=False)
    at_once: int = 4
    timeout_s: float = 120.0
    """For one attempt."""
    retries: int = 4
    """After the first attempt, with back-off."""
    max_output_tokens: int = 2_000
    input_price: float = 0.0
    """Per million tokens."""
    output_price: float = 0.0
    servers: frozenset[str] = frozenset()
    """Configured names of servers whose episodes may be sent to a remote endpoint; `*` means all."""

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")) or not self.model:
            raise ConfigurationError("a judge's endpoint has a URL that begins with http:// or https://, and a model")
        if self.at_once < 1 or self.timeout_s <= 0 or self.retries < 0 or self.max_output_tokens < 1:
            raise ConfigurationError("an endpoint needs at least one question at once, some time, and an answer")


def fingerprint(reward: RewardSettings, model: ModelSettings | None) -> str:
    """Short hash of all that changes a verdict or a reward, beside model, prompts and checks."""
    said = {"reward": asdict(reward), "model": None if model is None else asdict(model)}
    canonical = json.dumps(said, sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:FINGERPRINT_CHARS]
