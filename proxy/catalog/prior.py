"""In which order servers are introduced before anything was asked: those first that were of use lately.

Above: logbook.py learns from the log, the texts that introduce servers ask for the order. Below: the catalogue's
records. With no word of use, or none at all yet, servers stand as they are configured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proxy.catalog.records import ServerRecord


class Prior:
    """One for a gateway. The same uses and the same configuration give the same order."""

    def __init__(self) -> None:
        self._uses: Mapping[str, int] = {}

    def learn(self, uses: Mapping[str, int]) -> None:
        """`uses`: by configured name of a server, in place of what was learned before."""
        self._uses = dict(uses)

    def order(self, servers: Sequence[ServerRecord]) -> list[ServerRecord]:
        # Stable: servers that were used alike stay in the configured order.
        return sorted(servers, key=lambda server: -self._uses.get(server.name, 0))
