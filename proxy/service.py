"""What requests of agents are served with: tasks and what they keep, the way to tools, and the modes of each sight.

A part of the composition: app.py makes one for a gateway and hands it on. Below: endpoint/ and metatools/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mcp.server import ServerRequestContext

from proxy.catalog.arguments import ArgumentChecker
from proxy.catalog.catalog import Catalog
from proxy.catalog.prior import Prior
from proxy.catalog.shapes import Shapes
from proxy.endpoint.authentication import agent_servers
from proxy.endpoint.http import asked_mode, asked_server
from proxy.endpoint.modes import DirectMode, Mode, ServerMode
from proxy.endpoint.search_mode import SearchMode
from proxy.endpoint.sights import Modes, Sights
from proxy.gateway import Gateway
from proxy.metatools.approval import Approvals
from proxy.metatools.attachments import Attachments
from proxy.metatools.base import MetaTool
from proxy.metatools.calling import Answers, ToolCaller
from proxy.metatools.code_calls import Means
from proxy.metatools.delegating import Delegates, DelegateTask
from proxy.metatools.finding import ListServers, ListTools, SearchTools, Showing
from proxy.metatools.interpreters import Interpreters
from proxy.metatools.pages import PageStore
from proxy.metatools.running import RunPython
from proxy.metatools.steps import Steps
from proxy.metatools.using import CallTool, DescribeTools, FinishTask, ReadResult
from proxy.sandbox.limits import limits_of
from proxy.settings import Settings
from proxy.sight import PastSight, Sight
from proxy.store.recorder import Recorder
from proxy.tasks import Task, TaskStore


class Service:
    """Everything between a request and the gateway. `recorders` are told of every step and every end of an episode.

    Raises:
        ConfigurationError: A limit of the sandbox cannot be meant.
    """

    def __init__(
        self,
        settings: Settings,
        gateway: Gateway,
        recorders: Sequence[Recorder],
        interpreters: Interpreters | None,
        showing: Showing,
        delegates: Delegates | None = None,
    ) -> None:
        self._settings = settings
        self._gateway = gateway
        self._interpreters = interpreters
        # A further definition takes the room of the names: all together have to stay below 750 tokens.
        self._showing = showing if delegates is None else replace(showing, names_bytes=0)
        self._delegates = delegates
        self._limits = limits_of(settings.sandbox_limits)
        self._pages = PageStore(settings.page_memory_bytes)
        self._attachments = Attachments(settings.page_memory_bytes)
        self._checker = ArgumentChecker()
        self.shapes = Shapes(settings.cache_dir / "shapes")
        self.calls = ToolCaller(gateway, self._checker, Approvals())
        self.steps = Steps(gateway, recorders, settings.log)
        self.tasks = TaskStore(
            settings.replica, settings.task_idle_s, self._end, self.steps.end, gap_s=settings.task_gap_s
        )
        self._sights = Sights(gateway, self._modes)

    def mode_of(self, context: ServerRequestContext[Any, Any]) -> Mode:
        """What the agent of a request works through."""
        request = context.request
        seen = self._sights.of(None if request is None else agent_servers(request.scope))
        name = asked_server(request)
        if name is not None:
            return ServerMode(seen.sight, self.calls, name)
        return seen.direct if (asked_mode(request) or self._settings.mode) == "direct" else seen.search

    @property
    def prior(self) -> Prior:
        """In which order servers are introduced."""
        return self._showing.prior

    @property
    def metatools(self) -> frozenset[str]:
        """Names of the tools of the gateway itself."""
        return self._sights.of(None).search.names

    def introduced(self, catalog: Catalog) -> SearchMode:
        """The search mode of an earlier catalogue, to be read and not to be called."""
        return self._modes(PastSight(self._gateway, catalog)).search

    def _modes(self, sight: Sight) -> Modes:
        settings, answers = self._settings, Answers(sight, self.shapes, self._settings.log)
        metatools = (
            SearchTools(sight, self._showing, settings.search_wait_s),
            ListServers(sight),
            ListTools(sight),
            DescribeTools(sight, answers, settings.search_wait_s),
            CallTool(sight, self.calls, answers, settings.search_wait_s),
            *self._code(sight, answers),
            ReadResult(self._pages, self._attachments, page_length=settings.result_limit * 4 // 5),
            FinishTask(self.tasks),
        )
        search = self._search(sight, metatools)
        if self._delegates is not None:
            # The model works through what the agent sees, without the way to delegate once more.
            delegate = DelegateTask(search, self._delegates, self.steps, self.tasks)
            search = self._search(sight, (*metatools[:-1], delegate, metatools[-1]))
        return Modes(
            sight=sight,
            search=search,
            direct=DirectMode(sight, self.calls, settings.search_wait_s),
        )

    def _search(self, sight: Sight, metatools: Sequence[MetaTool]) -> SearchMode:
        return SearchMode(
            sight, metatools, self._checker, self._pages, self._settings.result_limit, self._showing.prior
        )

    def _code(self, sight: Sight, answers: Answers) -> tuple[MetaTool, ...]:
        if self._interpreters is None:
            return ()
        means = Means(
            gateway=sight,
            caller=self.calls,
            answers=answers,
            attachments=self._attachments,
            steps=self.steps,
            limits=self._limits,
            wait_s=self._settings.search_wait_s,
        )
        return (RunPython(self._interpreters, means, self._pages, self._settings.result_limit),)

    def _end(self, task: Task) -> None:
        self._pages.drop(task.id)
        self._attachments.drop(task.id)
        if self._interpreters is not None:
            self._interpreters.drop(task.id)
        self._gateway.pool.release(task.id)
