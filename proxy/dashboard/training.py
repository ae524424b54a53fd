"""The pages of training: all runs that were evaluated, and the report of one.

Above: application.py. Below: run_report.py, store/training_runs.py, templates/. Reading is all they do; who
trains is whoever calls `toolatlas learn` or `toolatlas train run`, on whichever machine.
"""

from __future__ import annotations

import re
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from proxy.dashboard.guard import Viewer
from proxy.dashboard.run_report import headline, shown
from proxy.dashboard.sessions import Sessions
from proxy.dashboard.templating import Templates
from proxy.dashboard.ways import way_up
from proxy.store.database import Database
from proxy.store.training_runs import read, recent

_RUN = re.compile(r"[A-Za-z0-9-]{1,64}")


class Training:
    """Handlers of GET requests, for viewers that were let in."""

    def __init__(self, database: Database, templates: Templates, sessions: Sessions) -> None:
        self._database = database
        self._templates = templates
        self._sessions = sessions

    async def runs(self, request: Request) -> Response:
        """All runs, the newest first."""
        found = [(report, headline(report)) for report in await recent(self._database)]
        return await self._page(request, "training.html", runs=found)

    async def run(self, request: Request) -> Response:
        """One of them."""
        run = request.path_params["run"]
        try:
            report = await read(self._database, run) if _RUN.fullmatch(run) else None
        except ValueError as error:
            text = f"The report of this run cannot be shown: {error}."
            return await self._message(request, 409, "Another version", text)
        if report is None:
            return await self._message(request, 404, "Not found", f"There is no report of a run {run}.")
        return await self._page(request, "run.html", up="../", shown=shown(report))

    async def _message(self, request: Request, status: int, title: str, text: str) -> Response:
        return await self._page(request, "message.html", status=status, up=way_up(request), title=title, text=text)

    async def _page(self, request: Request, name: str, *, status: int = 200, up: str = "", **values: Any) -> Response:
        viewer: Viewer = request.state.viewer
        form_token = None if viewer.session is None else self._sessions.form_token(viewer.session.nonce)
        return await self._templates.page(name, status, up=up, viewer=viewer, form_token=form_token, **values)
