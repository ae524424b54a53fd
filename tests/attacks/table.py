"""All attacks, in the order of the printed table."""

from __future__ import annotations

from tests.attacks.case import Attack
from tests.attacks.cases import calls, channel, deadlines, embedded, kernel, language, network, resources

ATTACKS: tuple[Attack, ...] = (
    *resources.ATTACKS,
    *deadlines.ATTACKS,
    *kernel.ATTACKS,
    *network.ATTACKS,
    *channel.ATTACKS,
    *language.ATTACKS,
    *calls.ATTACKS,
)
"""On containers."""
EMBEDDED: tuple[Attack, ...] = embedded.ATTACKS
"""On the embedded interpreter."""
