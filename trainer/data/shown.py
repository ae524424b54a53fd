"""What a policy was shown of a gateway at a time of the log: rules, index of servers, and its actions.

Above: collecting.py, policy_rows.py, keys.py. Below: the store's catalogues, and proxy/policy/surface.py, which shows a
running gateway in the same words.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proxy.policy.base import Action, Variant
from proxy.policy.surface import Surface
from proxy.store.catalogues import Catalogue, catalogue
from proxy.store.database import Database

AT_ONCE = 8
"""Catalogues in memory: episodes come in the order of time, and so do these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One catalogue, as search mode shows it."""

    hash: str
    introduction: str
    actions: tuple[Action, ...]
    tools: Mapping[str, tuple[str, ...]]
    """Written name of a server -> those of its tools, without the server's."""

    def surface(self, variant: Variant) -> Surface:
        """Raises ConfigurationError where the gateway of that time lacked what the variant is about."""
        return Surface(_Past(self.introduction, self.actions), variant)


class Catalogues:
    """Catalogues of the log, the last ones kept."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: OrderedDict[str, Shown | None] = OrderedDict()

    async def shown(self, hashed: str) -> Shown | None:
        """None where it was never written, or without what agents were told of it."""
        if hashed not in self._known:
            # Names are enough: definitions stand in what the policy read.
            found = await catalogue(self._database, hashed, tools=())
            self._known[hashed] = None if found is None else shown_of(found)
            if len(self._known) > AT_ONCE:
                self._known.popitem(last=False)
        self._known.move_to_end(hashed)
        return self._known[hashed]


def shown_of(catalogue: Catalogue) -> Shown | None:
    """None where its introduction is not there, or cannot be read."""
    # The last line has the definitions (proxy/logbook.py).
    introduction, _, offered = (catalogue.introduction or "").rpartition("\n")
    try:
        actions = tuple(
            Action(name=each["name"], description=each["description"], parameters=each["inputSchema"])
            for each in json.loads(offered)
        )
    except (ValueError, TypeError, KeyError):
        return None
    tools: dict[str, list[str]] = {}
    for written in catalogue.tools:
        server, _, tool = written.partition(".")
        tools.setdefault(server, []).append(tool)
    return Shown(
        hash=catalogue.hash,
        introduction=introduction,
        actions=actions,
        tools={server: tuple(each) for server, each in tools.items()},
    )


@dataclass(frozen=True, slots=True)
class _Past:
    """Implements `World`, for its looks alone."""

    introduction: str
    actions: tuple[Action, ...]

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        raise NotImplementedError("what is over cannot be called")
