"""The page of adapters: which there are, what became of each and why, and what this gateway serves with.

Above: application.py. Below: store/registry.py, templates/adapters.html. Reading is all it does: who promotes does so
with `toolatlas adapters`, under a name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from proxy.dashboard.guard import Viewer
from proxy.dashboard.sessions import Sessions
from proxy.dashboard.templating import Templates
from proxy.store.database import Database
from proxy.store.registry import SHORT, Change, Entry, Followed, State, entries

MOST_ADAPTERS = 50
"""On the page, the newest; others are counted."""
MOST_CHANGES = 12
"""Of each adapter, the latest."""
MOST_FIGURES = 24
TEXT_CHARS = 600
_CHIPS: Mapping[State, str] = {
    State.ACTIVE: "good",
    State.CANARY: "live",
    State.SHADOW: "live",
    State.CANDIDATE: "dull",
    State.RETIRED: "dull",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One adapter, for the eye."""

    entry: Entry
    chip: str
    share: float | None
    changes: tuple[Change, ...]
    """The latest first."""
    more_changes: int
    figures: tuple[tuple[str, str], ...]
    """Names and values of what its evaluation found, as far as they are single numbers or words."""
    refused: str
    """Why this gateway does not serve with it; empty where it could."""

    @property
    def short(self) -> str:
        return self.entry.adapter.hash[:SHORT]


class Adapters:
    """Handles GET requests, for viewers that were let in."""

    def __init__(
        self,
        database: Database,
        followed: Callable[[], Followed] | None,
        templates: Templates,
        sessions: Sessions,
    ) -> None:
        """`followed`: what this gateway makes of the registry; None where it follows none."""
        self._database = database
        self._followed = followed
        self._templates = templates
        self._sessions = sessions

    async def page(self, request: Request) -> Response:
        """All of them, the newest first."""
        followed = None if self._followed is None else self._followed()
        found = await entries(self._database)
        refused: Mapping[str, str] = {} if followed is None else followed.refused
        viewer: Viewer = request.state.viewer
        return await self._templates.page(
            "adapters.html",
            up="",
            viewer=viewer,
            form_token=None if viewer.session is None else self._sessions.form_token(viewer.session.nonce),
            adapters=[shown(each, refused) for each in found[:MOST_ADAPTERS]],
            more=max(0, len(found) - MOST_ADAPTERS),
            followed=followed,
            short=SHORT,
        )


def shown(entry: Entry, refused: Mapping[str, str]) -> Shown:
    """What the page says of one; `refused` as in `Followed`."""
    latest = entry.history[: -MOST_CHANGES - 1 : -1]
    return Shown(
        entry=entry,
        chip=_CHIPS[entry.state],
        share=entry.history[-1].share,
        changes=latest,
        more_changes=len(entry.history) - len(latest),
        figures=tuple(_figures(entry.adapter.metrics))[:MOST_FIGURES],
        refused=refused.get(entry.adapter.hash, "")[:TEXT_CHARS],
    )


def _figures(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, each in cast("Mapping[str, Any]", value).items():
            yield from _figures(each, f"{name}, {key}" if name else str(key))
    elif isinstance(value, bool | str | int) and not isinstance(value, float):
        yield name, str(value)[:TEXT_CHARS]
    elif isinstance(value, float) and math.isfinite(value):
        yield name, f"{value:.4g}"
