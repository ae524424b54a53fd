"""What pages show of the configured servers, as they are now.

Above: pages.py and rest.py. Below: whoever puts the application together gives a `ListServers` over the gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLine:
    """One configured server."""

    name: str
    """Configured."""
    written: str
    """As agents write it."""
    phase: str
    """`asleep`, `starting`, `ready`, `down` or `disabled`."""
    reason: str | None
    """Why it is down or disabled."""
    tools: int
    """That agents can see."""


ListServers: TypeAlias = Callable[[], Sequence[ServerLine]]
"""All configured servers, in the order of the configuration."""
