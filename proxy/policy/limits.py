"""The bounds of one task that a model works, and how they are written in options: `name=value`.

Above: loop.py and context.py keep to them; the commands `serve` and `agent` read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from proxy.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLimits:
    """Tokens are UTF-8 bytes / 4 where the model's endpoint does not count them."""

    turns: int = 30
    """Answers of the model."""
    tokens: int = 400_000
    """Read and written, over all turns."""
    seconds: int = 600
    context_tokens: int = 24_000
    """Of all that a model is told in one turn, definitions included; old observations are folded until it fits."""
    keep: int = 3
    """The newest observations, which are never folded."""
    observation_chars: int = 12_000
    """Of one observation; the middle goes first. A gateway's search mode pages at 10,000 bytes anyway."""
    output_tokens: int = 2_048
    """Of one answer."""


def work_limits(given: Sequence[str]) -> WorkLimits:
    """`name=value` each, such as `turns=20`.

    Raises:
        ConfigurationError: No such limit, or no positive whole number.
    """
    known = [each.name for each in fields(WorkLimits)]
    values: dict[str, Any] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in known:
            raise ConfigurationError(f"a limit of the agent is one of {', '.join(known)}, not {name!r}")
        if not (value.isascii() and value.isdigit() and int(value[:12]) > 0 and len(value) <= 12):
            raise ConfigurationError(f"the agent's limit {name} is a positive whole number, not {value!r}")
        values[name] = int(value)
    return WorkLimits(**values)
