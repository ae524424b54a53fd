"""The same as JSON, for programs: episodes, one episode, sums of tools, servers.

Above: application.py. Below: queries.py, store/. Times are ISO 8601 in UTC.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from typing import Any

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from proxy.dashboard.choice import BadChoice, is_id, read_choice, read_window, written
from proxy.dashboard.queries import Usage, episodes, too_long, usage
from proxy.dashboard.servers import ListServers
from proxy.dashboard.words import too_long_to_show
from proxy.store.database import Database
from proxy.store.trajectories import load


class Rest:
    """Handlers of GET requests, for viewers that were let in."""

    def __init__(self, database: Database, servers: ListServers) -> None:
        self._database = database
        self._servers = servers

    async def episodes(self, request: Request) -> Response:
        """`{"episodes": […], "next": …}`; `next` is what `after` takes for the next page, None on the last."""
        try:
            page = await episodes(self._database, read_choice(request.query_params))
        except BadChoice as bad:
            return answer({"error": str(bad)}, 400)
        following = None if page.next is None else written(page.next)
        return answer({"episodes": page.episodes, "next": following})

    async def episode(self, request: Request) -> Response:
        """One trajectory, whole."""
        episode_id = request.path_params["episode"]
        if not is_id(episode_id):
            return await self.missing(request)
        if await too_long(self._database, episode_id):
            return answer({"error": too_long_to_show(episode_id)}, 413)
        trajectory = await load(self._database, episode_id)
        if trajectory is None:
            return answer({"error": "There is no such episode, or not any more."}, 404)
        return await anyio.to_thread.run_sync(answer, trajectory)

    async def stats(self, request: Request) -> Response:
        """How often each tool was called within `window`, and how that went."""
        try:
            window = read_window(request.query_params)
        except BadChoice as bad:
            return answer({"error": str(bad)}, 400)
        return answer({"window": window, "tools": [_usage(one) for one in await usage(self._database, window)]})

    async def servers(self, request: Request) -> Response:
        """The configured servers as they are now."""
        return answer({"servers": list(self._servers())})

    async def missing(self, request: Request) -> Response:
        """What is not there."""
        return answer({"error": "There is no such resource."}, 404)


def answer(content: Any, status: int = 200) -> Response:
    """JSON in ASCII: half surrogate pairs of servers' words survive it."""
    return Response(json.dumps(content, default=_plain), status, media_type="application/json")


def _usage(one: Usage) -> Mapping[str, Any]:
    return {
        "server": one.server,
        "tool": one.tool,
        "calls": one.calls,
        "failures": one.failures,
        "outcomes": one.outcomes,
        "mean_ms": round(one.mean_ms, 2),
        "longest_ms": round(one.longest_ms, 2),
        "last_at": one.last_at,
    }


def _plain(value: object) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
