"""The modes of each sight that agents have: most see everything, some only the servers that their token names.

Above: app.py, which asks for those of a request. Below: the modes, built once for each set of servers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from proxy.endpoint.modes import DirectMode
from proxy.endpoint.search_mode import SearchMode
from proxy.gateway import Gateway
from proxy.sight import NarrowSight, Sight

MAX_NARROW = 256
"""Sets of servers whose modes are kept; the least recently used ones are built again."""


@dataclass(frozen=True, slots=True)
class Modes:
    """What agents with one sight work through; a server's own mode needs the sight alone."""

    sight: Sight
    search: SearchMode
    direct: DirectMode


class Sights:
    """Finds the modes of an agent."""

    def __init__(self, gateway: Gateway, build: Callable[[Sight], Modes]) -> None:
        self._gateway = gateway
        self._build = build
        self._whole = build(gateway)
        self._narrow: OrderedDict[frozenset[str], Modes] = OrderedDict()

    def of(self, servers: frozenset[str] | None) -> Modes:
        """For whoever may use these configured servers; None means all."""
        if servers is None:
            return self._whole
        if (known := self._narrow.get(servers)) is None:
            known = self._narrow[servers] = self._build(NarrowSight(self._gateway, servers))
            if len(self._narrow) > MAX_NARROW:
                self._narrow.popitem(last=False)
        self._narrow.move_to_end(servers)
        return known
