"""Which agents share a connection to a server, and what the server is told that it can ask on it.

Above: pool.py, which keeps a connection for each key. Agents share as long as the server treats them alike. One of its
own gets an agent where the configuration says `isolation: session`, whose forwarded headers the server sees, or, by
default, that can be asked questions by a server that is known to ask some (docs/decisions/0014).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

from proxy.servers.config import Isolation, ServerConfig
from proxy.servers.origin import Origin, asked_of, passed_on

EVERY_QUESTION: Mapping[str, Any] = {
    "sampling": {"context": {}, "tools": {}},
    "elicitation": {"form": {}, "url": {}},
    "roots": {"listChanged": True},
}
"""What a shared connection declares, to see all tools of the server and whether it asks."""
UNASKED = "unasked"
"""Variant of the shared connection, to a server that asks, for agents that cannot be asked anything."""


class Key(NamedTuple):
    """Names one connection of a server."""

    name: str
    session: str = ""
    """Empty for those that agents share."""
    variant: str = ""


class Sharing:
    """The rule, with what is known of the servers."""

    def __init__(self, roots: bool) -> None:
        self._roots = roots
        self._identities: set[str] = set()
        """Of servers that have put a question to an agent, whatever their entry is called."""
        self._asking: set[str] = set()
        """Names of those that are configured; an identity is too dear to be made for every call."""

    def apply(self, configs: Mapping[str, ServerConfig], asking: Set[str]) -> None:
        """Take over a configuration, with the names of servers that are known to ask."""
        self._identities |= {configs[name].identity for name in asking}
        self._asking = {name for name, config in configs.items() if config.identity in self._identities}

    def asks(self, config: ServerConfig) -> bool:
        return config.name in self._asking

    def note_question(self, config: ServerConfig) -> None:
        """A server has put a question: from now on agents do not share it as if it were silent."""
        self._identities.add(config.identity)
        self._asking.add(config.name)

    def key(self, config: ServerConfig, origin: Origin | None) -> Key:
        """The connection for a request of an agent, or of the gateway itself."""
        if origin is None:
            return Key(config.name)
        forwarded = _forwarded(config, origin) if config.forward_headers else {}
        if config.isolation is Isolation.AUTO and self.asks(config):
            asked_for = asked_of(origin.capabilities)
            if not forwarded and not asked_for:
                return Key(config.name, "", UNASKED)
            # In the era without sessions one credential may stand for programs that can be asked different things.
            return Key(config.name, origin.session, _digest(forwarded, asked_for))
        if forwarded:
            return Key(config.name, origin.session, _digest(forwarded))
        return Key(config.name, origin.session) if config.isolation is Isolation.SESSION else Key(config.name)

    def declared(self, key: Key, config: ServerConfig, origin: Origin | None) -> dict[str, Any]:
        """The capabilities that a server of the initialize era is told on that connection."""
        if key.session and origin is not None:
            return asked_of(origin.capabilities)
        if key.variant == UNASKED or config.isolation is Isolation.SHARED:
            return {}
        return asked_of(passed_on(EVERY_QUESTION, self._roots))


def with_forwarded(config: ServerConfig, origin: Origin) -> ServerConfig:
    """The entry for an agent's own connection: with those headers of its request that the entry lets through."""
    return replace(config, headers={**config.headers, **_forwarded(config, origin)})


def _forwarded(config: ServerConfig, origin: Origin) -> dict[str, str]:
    return {name: origin.headers[name] for name in config.forward_headers if name in origin.headers}


def _digest(*parts: Mapping[str, Any]) -> str:
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
