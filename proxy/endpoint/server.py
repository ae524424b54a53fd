"""The MCP server that agents talk to, for all modes and both protocol eras at once.

Above: http.py, which brings requests. Below: modes.py. A middleware of the SDK's server answers tool requests itself
and raw, since the SDK's typed results would drop what a server said (docs/decisions/0002).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import anyio
import mcp_types as types
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from proxy import __version__
from proxy.catalog.text import block
from proxy.endpoint.modes import Mode, ServerMode
from proxy.errors import GatewayError, ProtocolFault
from proxy.metatools.approval import elicitation
from proxy.metatools.base import Caller, text_result
from proxy.store.recorder import Outcome, Recorder, Step
from proxy.tasks import Task, TaskStore

logger = logging.getLogger("toolatlas.endpoint")

ASK_TIMEOUT_S = 300.0
ERROR_LIMIT = 4_000
"""Characters of an error text; a server's own message can be of any length."""
RELAYED = frozenset(
    {
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "prompts/list",
        "prompts/get",
        "completion/complete",
    }
)
LISTS = frozenset({"tools/list", "resources/list", "resources/templates/list", "prompts/list", "resources/read"})

T = TypeVar("T")

Context = ServerRequestContext[Any, Any]


@dataclass(slots=True)
class Session:
    """One initialize-era session of an agent."""

    key: str
    task_id: str | None = None


class Endpoint:
    """Builds the SDK server with `server()`; one endpoint serves every mode."""

    def __init__(
        self,
        mode_of: Callable[[Context], Mode],
        agent_of: Callable[[Context], str],
        tasks: TaskStore,
        recorders: tuple[Recorder, ...],
        release: Callable[[str], None],
    ) -> None:
        self._mode_of = mode_of
        self._agent_of = agent_of
        self._tasks = tasks
        self._recorders = recorders
        self._release = release
        self._bus = InMemorySubscriptionBus()
        self._followers: dict[int, Connection] = {}
        """Connections of sessions whose tool list changes with the catalogue."""

    def server(self) -> Server[Any]:
        async def unreachable(context: Context, params: object) -> Any:
            raise AssertionError("answered by the middleware")

        server: Server[Any] = _Announcing(
            "toolatlas",
            version=__version__,
            on_list_tools=unreachable,
            on_call_tool=unreachable,
            on_subscriptions_listen=ListenHandler(self._bus),
            get_tool_input_schema=lambda name: None,
        )
        server.middleware.append(self._answer)
        return server

    async def tell_change(self) -> None:
        """Tell agents in the pass-through modes that the list of tools has changed."""
        await self._bus.publish(ToolsListChanged())
        for connection in list(self._followers.values()):
            await connection.send_tool_list_changed()

    async def _answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None:
            return await call_next(ctx)
        mode = self._mode_of(ctx)
        if ctx.method in ("initialize", "server/discover"):
            return await self._introduce(ctx, mode, cast(dict[str, Any], await call_next(ctx)))
        if ctx.method == "tools/list":
            return _enveloped(ctx, {"tools": await _as_protocol_error(mode.list_tools(self._caller(ctx)))})
        if ctx.method == "tools/call":
            return _enveloped(ctx, await self._call(ctx, mode))
        if ctx.method in RELAYED and isinstance(mode, ServerMode):
            relayed = mode.relay(ctx.method, ctx.params or {}, self._caller(ctx))
            return _enveloped(ctx, await _as_protocol_error(relayed))
        return await call_next(ctx)

    async def _introduce(self, context: Context, mode: Mode, result: dict[str, Any]) -> dict[str, Any]:
        if context.method == "initialize" and mode.label != "search":
            self._follow(_connection(context))
        instructions = await _as_protocol_error(mode.instructions())
        if instructions is not None:
            result["instructions"] = instructions
        if isinstance(mode, ServerMode):
            listing = (await _as_protocol_error(mode.record())).listing
            if listing is not None:
                passed_on = {key: value for key, value in listing.capabilities.items() if key in PASSED_CAPABILITIES}
                result["capabilities"] = {**passed_on, "tools": {"listChanged": True}}
                result["serverInfo"] = dict(listing.server_info) or result.get("serverInfo")
        return result

    def _follow(self, connection: Connection) -> None:
        self._followers[id(connection)] = connection
        connection.exit_stack.callback(self._followers.pop, id(connection), None)

    async def _call(self, context: Context, mode: Mode) -> dict[str, Any]:
        params = dict(context.params or {})
        name, arguments = params.pop("name", None), params.pop("arguments", None)
        if not isinstance(name, str):
            raise MCPError(types.INVALID_PARAMS, "tools/call needs the name of a tool as a string in params.name")
        resumed = {key: params.pop(key) for key in ("inputResponses", "requestState") if key in params}
        caller = self._caller(context, resumed)
        task: list[Task] = []

        def begin() -> Task:
            if not task:
                task.append(self._task(context, caller))
            return task[0]

        def record(outcome: Outcome, result: dict[str, Any] | None, problem: str | None = None) -> None:
            step = Step(
                task_id=_named_task(arguments) or (task[0].id if task else ""),
                agent=caller.agent,
                mode=mode.label,
                name=name,
                arguments=arguments,
                outcome=outcome,
                started_at=started,
                duration_ms=(time.perf_counter() - began) * 1000,
                server=caller.target.server,
                tool=caller.target.tool,
                result=result,
                error=problem,
            )
            for recorder in self._recorders:
                recorder.record(step)

        started, began = datetime.now(UTC), time.perf_counter()
        try:
            result = await mode.call(name, arguments, params, caller, begin)
        except anyio.get_cancelled_exc_class():
            record(Outcome.CANCELLED, None)
            raise
        except GatewayError as error:
            # A server's words may be part of it.
            result = text_result(block(str(error), ERROR_LIMIT), is_error=True)
            record(error.outcome, result, str(error))
            if isinstance(error, ProtocolFault) and mode.label != "search":
                raise MCPError(error.code, str(error), error.data) from error
        except Exception as error:
            logger.exception("answering %s", name)
            result = text_result("The gateway failed at this call, not you; its log says why.", is_error=True)
            record(Outcome.PROTOCOL_ERROR, result, f"internal error: {type(error).__name__}")
        else:
            # A question to the user is half a call: the retry that answers it is recorded.
            if result.get("resultType") != "input_required":
                record(Outcome.TOOL_ERROR if result.get("isError") is True else Outcome.OK, result)
        return result

    def _task(self, context: Context, caller: Caller) -> Task:
        if caller.modern:
            return self._tasks.begin(caller.agent)
        session = self._session(context)
        task = self._tasks.of_session(caller.agent, session.task_id)
        session.task_id = task.id
        return task

    def _session(self, context: Context) -> Session:
        connection = _connection(context)
        session = connection.state.get("toolatlas")
        if session is None:
            session = connection.state["toolatlas"] = Session(key=f"session-{id(connection):x}")
            connection.exit_stack.callback(self._end_session, session)
        return session

    def _end_session(self, session: Session) -> None:
        if session.task_id is not None:
            self._tasks.end(session.task_id)
        self._release(session.key)

    def _caller(self, context: Context, resumed: Mapping[str, Any] | None = None) -> Caller:
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        agent = self._agent_of(context)
        has_token = (context.meta or {}).get("progress_token") is not None
        meta = (context.params or {}).get("_meta")
        capabilities = cast(dict[str, Any], meta).get(types.CLIENT_CAPABILITIES_META_KEY) if modern and meta else None

        async def report(progress: float, total: float | None, message: str | None) -> None:
            await context.session.report_progress(progress, total, message)

        async def ask(question: str) -> bool | None:
            return await _ask(context, question)

        return Caller(
            agent=agent,
            # Without sessions the credential is what keeps two agents' stateful servers apart.
            session=f"agent-{agent}" if modern else self._session(context).key,
            modern=modern,
            ask=ask,
            on_progress=report if has_token else None,
            capabilities=cast(dict[str, Any], capabilities) if isinstance(capabilities, dict) else None,
            resumed=resumed or {},
        )


PASSED_CAPABILITIES = frozenset({"resources", "prompts", "completions"})


class _Announcing(Server[Any]):
    """The HTTP leg asks for these options without arguments, which would deny `listChanged`."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, *args, **kwargs)


def _connection(context: Context) -> Connection:
    # The SDK has no public name for the connection of a request; mcp is pinned below 2.4 for this.
    return context.session._connection  # pyright: ignore[reportPrivateUsage]


def _named_task(arguments: Any) -> str | None:
    task_id = cast(dict[str, Any], arguments).get("task_id") if isinstance(arguments, dict) else None
    return task_id if isinstance(task_id, str) else None


def _enveloped(context: Context, result: dict[str, Any]) -> dict[str, Any]:
    """What the era demands around a result that we answer raw."""
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return {key: value for key, value in result.items() if key != "resultType"}
    if context.method in LISTS:
        result = {"ttlMs": 0, "cacheScope": "private", **result}
    return {"resultType": "complete", **result}


async def _as_protocol_error(answer: Awaitable[T]) -> T:
    """Requests other than calls have no result that could carry an error."""
    try:
        return await answer
    except ProtocolFault as error:
        raise MCPError(error.code, str(error), error.data) from error
    except GatewayError as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from error


async def _ask(context: Context, question: str) -> bool | None:
    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.elicitation is None or not context.session.can_send_request:
        return None
    request = types.ElicitRequest(params=types.ElicitRequestFormParams.model_validate(elicitation(question)))
    with suppress(TimeoutError), anyio.fail_after(ASK_TIMEOUT_S):
        answer = await context.session.send_request(
            request, types.ElicitResult, metadata=ServerMessageMetadata(related_request_id=context.request_id)
        )
        return answer.action == "accept"
    return False
