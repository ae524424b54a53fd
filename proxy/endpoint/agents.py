"""The agent's side of a request: its session, what it can be asked, and the way back to it for servers.

Above: server.py. Below: the SDK's connection and request context.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.connection import Connection
from mcp.shared.dispatcher import CallOptions, Outbound, ProgressFnT
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from proxy.errors import UnknownName
from proxy.metatools.base import Caller
from proxy.servers.origin import LEVELS, Ask, Origin, passed_on
from proxy.store.recorder import EndReason, Level
from proxy.tasks import Beginner, Task, TaskStore

Context = ServerRequestContext[Any, Any]
TASK_META_KEY = "toolatlas/task_id"
"""Where a request without arguments of ours names its task; never passed on to a server."""
CLIENT_CHARS = 120


@dataclass(slots=True)
class Session:
    """One initialize-era session of an agent."""

    key: str
    capabilities: Mapping[str, Any]
    task_id: str | None = None
    log_level: str | None = None
    """As it asked with `logging/setLevel`."""


class Link:
    """The way from a server back to the agent, over the request that made the server speak while that is open."""

    def __init__(self, context: Context) -> None:
        self.context = context

    async def ask(self, method: str, params: Mapping[str, Any], on_progress: ProgressFnT | None) -> dict[str, Any]:
        """For agents of the initialize era; an `Ask`."""
        options: CallOptions = {} if on_progress is None else {"on_progress": on_progress}
        return await self._channel().send_raw_request(method, params, options)

    async def tell(self, method: str, params: Mapping[str, Any]) -> None:
        await self._channel().notify(method, params)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """With the token that the agent gave; nothing where it gave none."""
        await self.context.session.report_progress(progress, total, message)

    def _channel(self) -> Outbound:
        session = self.context.session
        if session.can_send_request or is_modern(self.context):
            # The SDK has no public name for this one; mcp is pinned below 2.4 for it.
            return session._request_outbound  # pyright: ignore[reportPrivateUsage]
        return connection_of(self.context).outbound


def is_modern(context: Context) -> bool:
    """Whether the request is of the 2026-07-28 era, without sessions and without questions in mid-call."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def connection_of(context: Context) -> Connection:
    # The SDK has no public name for the connection of a request; mcp is pinned below 2.4 for this.
    return context.session._connection  # pyright: ignore[reportPrivateUsage]


def capabilities_of(context: Context) -> dict[str, Any]:
    """What the agent declared, as it wrote it where the era lets us see that."""
    if is_modern(context):
        declared = _meta(context).get(types.CLIENT_CAPABILITIES_META_KEY)
        return cast(dict[str, Any], declared) if isinstance(declared, dict) else {}
    declared = context.session.client_capabilities
    return {} if declared is None else declared.model_dump(by_alias=True, mode="json", exclude_none=True)


class Agents:
    """Turns requests into callers, and keeps the sessions of the initialize era."""

    def __init__(
        self, agent_of: Callable[[Context], str], tasks: TaskStore, release: Callable[[str], None], *, roots: bool
    ) -> None:
        """`release` is told the key of a session that is over. `roots` says whether agents may tell servers their
        roots: these are folders of this machine, so only its own users may."""
        self._roots = roots
        self._agent_of = agent_of
        self._tasks = tasks
        self._release = release

    def label(self, context: Context) -> str:
        """Whose credential a request came with."""
        return self._agent_of(context)

    def session(self, context: Context, declared: object = None) -> Session:
        """The session of an initialize-era request. `declared` are the capabilities of an `initialize`, which the SDK
        knows only after it is answered."""
        connection = connection_of(context)
        session = connection.state.get("toolatlas.session")
        if session is None:
            given = cast(dict[str, Any], declared) if isinstance(declared, dict) else capabilities_of(context)
            session = Session(f"session-{secrets.token_hex(8)}", passed_on(given, self._roots))
            connection.state["toolatlas.session"] = session
            connection.exit_stack.callback(self._end, session)
        return session

    def caller(self, context: Context, link: Link, resumed: Mapping[str, Any], ask: Ask) -> Caller:
        has_token = (context.meta or {}).get("progress_token") is not None
        agent = self.label(context)
        return Caller(
            agent=agent,
            origin=self._origin(context, link, agent, ask),
            on_progress=link.progress if has_token else None,
            resumed=resumed,
        )

    def task(self, context: Context, agent: str, mode: str, named: str | None) -> Task:
        """The task that a call belongs to: the one that it names, that of its session, or in the era without sessions
        a new one; where no answer would tell the agent the id of that, the one of its credential.

        Raises:
            UnknownName: The named one does not run.
        """
        if named is None:
            named = _named_task(context)
        if named is not None:
            return self._tasks.get(agent, named)
        by = _beginner(context, agent, mode)
        if is_modern(context):
            return self._tasks.begin(by) if mode == "search" else self._tasks.implied(by)
        session = self.session(context)
        task = self._tasks.of_session(by, session.task_id)
        session.task_id = task.id
        return task

    def task_of_failure(self, context: Context, agent: str, mode: str) -> Task:
        """For the log, the task of a call that failed before it came to one."""
        if not is_modern(context):
            return self.task(context, agent, mode, None)
        with suppress(UnknownName):
            if (named := _named_task(context)) is not None:
                return self._tasks.get(agent, named)
        return self._tasks.implied(_beginner(context, agent, mode))

    def touched(self, context: Context, agent: str, mode: str, level: Level) -> None:
        """A request that is no call, and so in no log, went to a server that is logged at this level: what came of it
        may turn up in the calls of the same task. Without a session, only a request that names its task has one."""
        if level is Level.FULL:
            return
        with suppress(UnknownName):
            if not is_modern(context) or mode != "search" or TASK_META_KEY in _meta(context):
                self.task(context, agent, mode, None).touched(level)

    def begin_call(self, task: Task) -> None:
        self._tasks.hold(task)

    def end_call(self, task: Task) -> None:
        """After it is recorded: a task that ended meanwhile is told to have ended with its last call."""
        self._tasks.release(task)

    def _origin(self, context: Context, link: Link, agent: str, ask: Ask) -> Origin:
        headers: Mapping[str, str] = context.request.headers if context.request is not None else {}
        if not is_modern(context):
            session = self.session(context)
            return Origin(
                session=session.key,
                modern=False,
                ask=ask,
                tell=link.tell,
                capabilities=session.capabilities,
                log_level=session.log_level,
                headers=headers,
            )
        level = _meta(context).get(types.LOG_LEVEL_META_KEY)
        return Origin(
            # Without sessions the credential is what keeps two agents' own connections apart.
            session=f"agent-{agent}",
            one_agent=False,
            modern=True,
            ask=ask,
            tell=link.tell,
            capabilities=passed_on(capabilities_of(context), self._roots),
            log_level=level if level in LEVELS else None,
            headers=headers,
        )

    def _end(self, session: Session) -> None:
        if session.task_id is not None:
            self._tasks.end(session.task_id, EndReason.SESSION)
        self._release(session.key)


def _named_task(context: Context) -> str | None:
    """The task that a request of the era without sessions names outside of its arguments."""
    given = _meta(context).get(TASK_META_KEY) if is_modern(context) else None
    return given if isinstance(given, str) else None


def _beginner(context: Context, agent: str, mode: str) -> Beginner:
    return Beginner(agent=agent, mode=mode, client=_client(context), protocol=context.protocol_version)


def _client(context: Context) -> str | None:
    """Name and version of the agent's program, as it gave them."""
    info = context.session.client_params.client_info if context.session.client_params is not None else None
    return None if info is None else f"{info.name} {info.version}"[:CLIENT_CHARS]


def _meta(context: Context) -> dict[str, Any]:
    meta = (context.params or {}).get("_meta")
    return cast(dict[str, Any], meta) if isinstance(meta, dict) else {}
