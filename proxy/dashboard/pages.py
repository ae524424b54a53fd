"""The pages: servers, episodes, one episode, tools.

Above: application.py. Below: queries.py, timeline.py, judged.py, templates/. Reading is all they do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from proxy.dashboard.choice import (
    JUDGED,
    OUTCOMES,
    REASONS,
    RUNNING,
    BadChoice,
    Choice,
    is_id,
    read_choice,
    read_window,
    written,
)
from proxy.dashboard.guard import Viewer
from proxy.dashboard.judged import MAX_JUDGEMENTS, Places, judged
from proxy.dashboard.queries import Page, Usage, agents, by_server, episodes, too_long, usage
from proxy.dashboard.servers import ListServers
from proxy.dashboard.sessions import Sessions
from proxy.dashboard.templating import Templates
from proxy.dashboard.timeline import STEPS_PER_PAGE, first_step, timeline
from proxy.dashboard.ways import way_up
from proxy.dashboard.words import too_long_to_show
from proxy.store.database import Database
from proxy.store.judgements import counted, judgements, labels_of
from proxy.store.rubrics import rubrics
from proxy.store.trajectories import load

_FIELDS = ("agent", "server", "tool", "outcome", "reason", "judged", "failures", "since", "before", "text")
_WINDOW_NAMES: Mapping[str, str] = {
    "24h": "24 hours",
    "7d": "7 days",
    "30d": "30 days",
    "all": "all time",
}


class Pages:
    """Handlers of GET requests, for viewers that were let in."""

    def __init__(self, database: Database, servers: ListServers, templates: Templates, sessions: Sessions) -> None:
        self._database = database
        self._servers = servers
        self._templates = templates
        self._sessions = sessions

    async def servers(self, request: Request) -> Response:
        """All servers, those of the log that are configured no more too."""
        window, problem = _window(request)
        used = by_server(await usage(self._database, window))
        lines = [(line, used.pop(line.name, Usage(line.name, ""))) for line in self._servers()]
        return await self._page(
            request,
            "servers.html",
            status=400 if problem else 200,
            servers=lines,
            gone=list(used.values()),
            window=window,
            windows=_WINDOW_NAMES,
            problem=problem,
        )

    async def tools(self, request: Request) -> Response:
        """Tools by use and failure."""
        window, problem = _window(request)
        server = request.query_params.get("server", "").strip()
        order = "failures" if request.query_params.get("sort") == "failures" else "calls"
        used = [one for one in await usage(self._database, window) if server in ("", one.server)]
        if order == "failures":
            used.sort(key=lambda one: (-one.failures, -one.calls))
        return await self._page(
            request,
            "tools.html",
            status=400 if problem else 200,
            tools=used,
            window=window,
            windows=_WINDOW_NAMES,
            server=server,
            servers=[line.name for line in self._servers()],
            order=order,
            problem=problem,
        )

    async def episodes(self, request: Request) -> Response:
        """Episodes, newest first, a page at a time."""
        query = request.query_params
        try:
            choice = read_choice(query)
            problem = None
        except BadChoice as bad:
            choice, problem = Choice(), str(bad)
        page = Page((), None) if problem else await episodes(self._database, choice)
        chosen = {name: query.get(name, "").strip() for name in _FIELDS}
        kept = {name: value for name, value in chosen.items() if value}
        return await self._page(
            request,
            "episodes.html",
            status=400 if problem else 200,
            page=page,
            chosen=chosen,
            filtered=bool(kept),
            newest=_link("episodes", kept),
            older=None if page.next is None else _link("episodes", {**kept, "after": written(page.next)}),
            first_page=choice.after is None,
            agents=await agents(self._database),
            servers=[line.name for line in self._servers()],
            outcomes=OUTCOMES,
            reasons=(RUNNING, *REASONS),
            judged=tuple(JUDGED),
            problem=problem,
        )

    async def episode(self, request: Request) -> Response:
        """One episode as a timeline."""
        episode_id = request.path_params["episode"]
        gone = f"There is no episode {episode_id}, or not any more."
        if not is_id(episode_id):
            return await self.missing(request, gone)
        if await too_long(self._database, episode_id):
            text = too_long_to_show(episode_id)
            return await self._page(
                request, "message.html", status=413, up=way_up(request), title="Too long", text=text
            )
        trajectory = await load(self._database, episode_id)
        if trajectory is None:
            return await self.missing(request, gone)
        number = first_step(request.query_params.get("from"), len(trajectory.steps))
        shown = timeline(trajectory, number)
        viewer: Viewer = request.state.viewer
        said = (await judgements(self._database, [episode_id])).get(episode_id, ())
        latest = said[: -MAX_JUDGEMENTS - 1 : -1]
        by = await rubrics(self._database, {each.rubric_hash for each in latest})
        places = Places(trajectory, (shown.first, shown.last))
        async with self._database.reading() as connection:
            entries = (await labels_of(connection, [episode_id])).get(episode_id, ())
        return await self._page(
            request,
            "episode.html",
            up="../",
            episode=trajectory,
            timeline=shown,
            judgements=[judged(each, by.get(each.rubric_hash), places) for each in latest],
            more_judgements=len(said) - len(latest),
            labelled=sorted(Counter(each.labeller for each in counted(entries)).items()),
            # Whoever may still say something of it is not to have read what the judge says.
            unfolded=not viewer.may_label or any(each.labeller == viewer.label for each in entries),
            before=max(1, number - STEPS_PER_PAGE) if number > 1 else None,
            after=shown.last + 1 if shown.last < shown.total else None,
        )

    async def missing(self, request: Request, text: str = "There is no such page.") -> Response:
        """What is not there."""
        return await self._page(request, "message.html", status=404, up=way_up(request), title="Not found", text=text)

    async def _page(self, request: Request, name: str, *, status: int = 200, up: str = "", **values: Any) -> Response:
        viewer: Viewer = request.state.viewer
        form_token = None if viewer.session is None else self._sessions.form_token(viewer.session.nonce)
        return await self._templates.page(name, status, up=up, viewer=viewer, form_token=form_token, **values)


def _window(request: Request) -> tuple[str, str | None]:
    try:
        return read_window(request.query_params), None
    except BadChoice as bad:
        return read_window({}), str(bad)


def _link(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
