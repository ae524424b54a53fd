"""The router's contract: what is asked, what is answered, and who answers.

Above: metatools/finding.py, which asks a `Ranker`; the bench and the trainer, which ask a `Router`. Below: one module
per way of ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from proxy.catalog.records import ServerRecord


@dataclass(frozen=True, slots=True)
class History:
    """What a task did before this query; written names of tools, oldest first."""

    searched: tuple[str, ...] = ()
    """The texts of its earlier searches."""
    revealed: tuple[str, ...] = ()
    """Tools that were shown to it, or whose definition it read."""
    called: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """What to rank for."""

    text: str
    task: str | None = None
    """The user's own words, if the agent passed them on."""
    servers: frozenset[str] | None = None
    """Written server names to stay within; None means all."""
    history: History = History()
    episode: str | None = None
    """Id of the task that it is part of: a canary adapter answers whole tasks, or none of their searches."""
    step: str | None = None
    """Id of the step of the log that it is asked in."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One tool with its score; higher is better, comparable within one ranking only."""

    tool: str
    """The written name, `server.tool`."""
    score: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """An answer to a query, and who gave it."""

    tools: tuple[Ranked, ...]
    """Best first."""
    policy: str
    """What the log calls the way of ranking that gave it."""
    adapter: str | None = None
    """Hash of the adapter that took part."""
    degraded: str | None = None
    """Why a lesser policy answered than the one that was set up, in one phrase; None when it did not."""
    servers: tuple[str, ...] = ()
    """Written names of the servers that fit best, best first; empty where the policy ranks tools alone."""


class Router(Protocol):
    """Ranks the tools of the catalogue it was built for. Immutable: a changed catalogue gets a new router."""

    @property
    def policy(self) -> str:
        """What the log calls this way of ranking."""
        ...

    def rank(self, query: Query, limit: int) -> list[Ranked]:
        """At most `limit` tools, best first; none that match nothing of the query. Pure CPU, no waiting."""
        ...


class Ranker(Protocol):
    """What meta-tools ask: a router, wherever it runs, for one catalogue."""

    async def rank(self, query: Query, limit: int) -> Ranking:
        """At most `limit` tools. Never raises for what a router does: then a lesser one answers, and `degraded` says
        why."""
        ...


class RouterFactory(Protocol):
    """Builds a router over all servers' tools. May take seconds; called off the event loop."""

    def __call__(self, servers: Sequence[ServerRecord]) -> Router: ...
