"""Short ways to a case, for tests of checks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from judge.case import Case
from judge.scripted import scripted
from proxy.store.catalogues import Catalogue, CatalogueDefinition
from proxy.store.recorder import Level


def case(
    *steps: Mapping[str, Any], level: Level = Level.FULL, tools: Mapping[str, Any] | None = None, **told: Any
) -> Case:
    """Of the steps of a script; `told` is its task, answer and outcome, `tools` definitions by `server.tool`."""
    return Case(scripted({"steps": list(steps), **told}, level=level), None if tools is None else catalogue(tools))


def call(name: str, gives: str = "fine", outcome: str = "ok", /, **arguments: Any) -> dict[str, Any]:
    """One step: a call of `name`."""
    return {name: arguments, "gives": gives, "outcome": outcome}


def catalogue(tools: Mapping[str, Any]) -> Catalogue:
    """That has these definitions."""
    return Catalogue(
        hash="c" * 64,
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        servers=(),
        tools={name: f"hash of {name}" for name in tools},
        definitions={
            name: CatalogueDefinition(
                hash=f"hash of {name}",
                server=name.partition(".")[0],
                tool=name.partition(".")[2],
                definition=definition,
                tokens=1,
            )
            for name, definition in tools.items()
        },
        introduction=None,
        introduction_tokens=0,
        eager_tokens=0,
    )
