"""The router's contract. Above: metatools/search.py. Below: one module per way of ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from proxy.catalog.records import ServerRecord


@dataclass(frozen=True, slots=True)
class Query:
    """What to rank for."""

    text: str
    task: str | None = None
    """The user's own words, if the agent passed them on."""
    servers: frozenset[str] | None = None
    """Written server names to stay within; None means all."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One tool with its score; higher is better, comparable within one ranking only."""

    tool: str
    """The written name, `server.tool`."""
    score: float


class Router(Protocol):
    """Ranks the tools of the catalogue it was built for. Immutable: a changed catalogue gets a new router."""

    @property
    def policy(self) -> str:
        """What the log calls this way of ranking."""
        ...

    def rank(self, query: Query, limit: int) -> list[Ranked]:
        """At most `limit` tools, best first; none that match nothing of the query. Pure CPU, no waiting."""
        ...


class RouterFactory(Protocol):
    """Builds a router over all servers' tools. May take seconds; called off the event loop."""

    def __call__(self, servers: Sequence[ServerRecord]) -> Router: ...
