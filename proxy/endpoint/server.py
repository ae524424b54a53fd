"""The MCP server that agents talk to, for all modes and both protocol eras at once.

Above: http.py, which brings requests. Below: modes.py, and calls.py for tool calls. A middleware of the SDK's server
answers requests itself and raw, since the SDK's typed results would drop what a server said (docs/decisions/0002).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar, cast

import mcp_types as types
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError

from proxy import __version__
from proxy.endpoint.agents import Agents, Context, Link, connection_of, is_modern
from proxy.endpoint.authentication import agent_servers
from proxy.endpoint.calls import ToolCalls
from proxy.endpoint.changes import MAX_FOLLOWED, Changes, Follower, Listener, OnSession, OnStream
from proxy.endpoint.modes import Mode
from proxy.endpoint.parking import ParkableCall, Parking
from proxy.endpoint.replicas import marked, unmarked
from proxy.endpoint.shown_schemas import shown_schema
from proxy.errors import AgentError, GatewayError, ProtocolFault
from proxy.gateway import Gateway
from proxy.metatools.base import Caller
from proxy.metatools.steps import Steps
from proxy.servers.origin import LEVELS, RESUMING, Ask
from proxy.tasks import TaskStore

logger = logging.getLogger("toolatlas.endpoint")

MAX_STREAMS = 1_024
"""Of `subscriptions/listen`, over all agents."""
LISTS = frozenset({"tools/list", "resources/list", "resources/templates/list", "prompts/list", "resources/read"})
MAY_ASK = frozenset({"resources/read", "prompts/get"})
"""Beside calls, the requests that a server may answer with a question."""
OF_SESSION = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
"""What an initialize-era agent sets for its session."""

T = TypeVar("T")


class Endpoint:
    """Builds the SDK server with `server()`; one endpoint serves every mode."""

    def __init__(
        self,
        gateway: Gateway,
        mode_of: Callable[[Context], Mode],
        agent_of: Callable[[Context], str],
        tasks: TaskStore,
        steps: Steps,
        *,
        replica: str,
        roots: bool,
    ) -> None:
        self._pool = gateway.pool
        self._schema = partial(shown_schema, gateway)
        self._mode_of = mode_of
        self._agents = Agents(agent_of, tasks, gateway.pool.release, roots=roots)
        self._parking = Parking(gateway.pool.start_soon)
        self._calls = ToolCalls(self._agents, self._parking, steps)
        self._changes = Changes(gateway.pool)
        self._replica = replica
        self._streams = 0
        gateway.on_change(lambda: self._changes.catalogue_changed(gateway.catalog))

    def server(self) -> Server[Any]:
        async def unreachable(context: Context, params: object) -> Any:
            raise AssertionError("answered by the middleware")

        server: Server[Any] = Server(
            "toolatlas",
            version=__version__,
            on_list_tools=unreachable,
            on_call_tool=unreachable,
            on_subscriptions_listen=self._listen,
            get_tool_input_schema=self._schema,
        )
        server.middleware.append(self._answer)
        return server

    async def _answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None:
            if ctx.method == "notifications/roots/list_changed" and not is_modern(ctx):
                self._pool.start_soon(self._pool.roots_changed, self._agents.session(ctx).key)
            return await call_next(ctx)
        if ctx.method in ("ping", "subscriptions/listen") or _not_shared(ctx):
            return await call_next(ctx)
        mode = self._mode_of(ctx)
        if ctx.method in ("initialize", "server/discover"):
            return await self._introduce(ctx, mode, cast(dict[str, Any], await call_next(ctx)))
        if ctx.method == "tools/call":
            return self._enveloped(ctx, await self._calls.serve(ctx, mode))
        if ctx.method == "tools/list":
            link = Link(ctx)
            tools = mode.list_tools(self._agents.caller(ctx, link, {}, link.ask))
            return self._enveloped(ctx, {"tools": await _as_protocol_error(tools)})
        if ctx.method in OF_SESSION:
            return await _as_protocol_error(self._set(ctx, mode))
        relayed = await _as_protocol_error(self._relay(ctx, mode))
        return await call_next(ctx) if relayed is None else self._enveloped(ctx, relayed)

    def _enveloped(self, context: Context, result: dict[str, Any]) -> dict[str, Any]:
        """What the era demands around a result that we answer raw."""
        if not is_modern(context):
            return {key: value for key, value in result.items() if key != "resultType"}
        if result.get("resultType") == "input_required":
            return marked(result, self._replica)
        if context.method in LISTS:
            result = {"ttlMs": 0, "cacheScope": "private", **result}
        return {"resultType": "complete", **result}

    async def _introduce(self, context: Context, mode: Mode, result: dict[str, Any]) -> dict[str, Any]:
        introduction = await _as_protocol_error(mode.introduced(result))
        instructions = await _as_protocol_error(mode.instructions())
        if instructions is not None:
            introduction["instructions"] = instructions
        if context.method == "initialize":
            session = self._agents.session(context, cast(dict[str, Any], context.params or {}).get("capabilities"))
            connection = connection_of(context)
            if "toolatlas.follower" not in connection.state:
                follower = _follower(OnSession(connection), session.key, context, mode)
                connection.exit_stack.enter_context(self._changes.follow(follower))
                connection.state["toolatlas.follower"] = follower
        return introduction

    async def _relay(self, context: Context, mode: Mode) -> dict[str, Any] | None:
        params, link = dict(context.params or {}), Link(context)
        resumed = unmarked({key: params.pop(key) for key in RESUMING if key in params})
        if not is_modern(context) or context.method not in MAY_ASK:
            return await mode.relay(context.method, params, self._relayer(context, mode, link, resumed, link.ask))
        what = (mode.label, mode.server, context.method, {k: v for k, v in params.items() if k != "_meta"})
        call = ParkableCall(self._agents.label(context), what)
        if (waiting := self._parking.taken_up(call, resumed)) is not None:
            cast(Link, waiting.working).context = context
            return await self._parking.answer(waiting)
        call.working = link
        caller = self._relayer(context, mode, link, resumed, call.ask)
        relay = partial(_relayed, mode, context.method, params, caller)
        if not caller.origin.capabilities:
            return await relay()
        self._parking.begin(call, relay)
        return await self._parking.answer(call)

    def _relayer(self, context: Context, mode: Mode, link: Link, resumed: Mapping[str, Any], ask: Ask) -> Caller:
        caller = self._agents.caller(context, link, resumed, ask)
        caller.target.on_level = partial(self._agents.touched, context, caller.agent, mode.label)
        return caller

    async def _set(self, context: Context, mode: Mode) -> dict[str, Any]:
        params = cast(dict[str, Any], context.params or {})
        if context.method == "logging/setLevel":
            if params.get("level") not in LEVELS:
                raise MCPError(types.INVALID_PARAMS, f"level: one of {', '.join(LEVELS)}")
            # Each server is told with the next call that goes to it.
            self._agents.session(context).log_level = params["level"]
            return {}
        follower = connection_of(context).state.get("toolatlas.follower")
        if not isinstance(follower, Follower):
            raise MCPError(types.INVALID_REQUEST, "send initialize first")
        if context.method == "resources/unsubscribe":
            await self._changes.unsubscribe(follower, str(params.get("uri")))
            return {}
        link = Link(context)
        server, uri = await mode.resource(params.get("uri"))
        origin = self._agents.caller(context, link, {}, link.ask).origin
        await self._changes.subscribe(follower, server, uri, str(params["uri"]), origin)
        return {}

    async def _listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """A 2026-07-28 agent's stream of changes; lasts until the agent ends it."""
        if self._streams >= MAX_STREAMS:
            raise MCPError(types.INTERNAL_ERROR, f"the gateway has {MAX_STREAMS} open streams and opens no more")
        followed = params.notifications.resource_subscriptions or ()
        if len(followed) > MAX_FOLLOWED:
            raise MCPError(types.INVALID_PARAMS, f"a stream follows at most {MAX_FOLLOWED} resources")
        mode, link, stream = self._mode_of(context), Link(context), OnStream()
        origin = self._agents.caller(context, link, {}, link.ask).origin
        follower = _follower(stream, origin.session, context, mode)

        async def subscribe(address: str) -> None:
            try:
                server, uri = await mode.resource(address)
                await self._changes.subscribe(follower, server, uri, address, origin)
            except GatewayError as error:
                logger.warning("an agent's subscription to a resource cannot be kept: %s", error)

        self._streams += 1
        try:
            with self._changes.follow(follower):
                for address in followed:
                    self._pool.start_soon(subscribe, address)
                return await ListenHandler(stream.bus)(context, params)
        finally:
            self._streams -= 1


def _follower(listener: Listener, session: str, context: Context, mode: Mode) -> Follower:
    seen = None if context.request is None else agent_servers(context.request.scope)
    return Follower(listener, session, mode.server, seen, mode.tools_change)


async def _relayed(mode: Mode, method: str, params: dict[str, Any], caller: Any) -> dict[str, Any]:
    result = await mode.relay(method, params, caller)
    assert result is not None, "every mode passes on what a server may answer with a question"
    return result


def _not_shared(context: Context) -> bool:
    """What a server keeps for a connection, which here is that of many agents: in 2026-07-28 no agent sets such a
    thing, and tasks of one would be open to all."""
    return context.method.startswith("tasks/") or (is_modern(context) and context.method in OF_SESSION)


async def _as_protocol_error(answer: Awaitable[T]) -> T:
    """Requests other than calls have no result that could carry an error."""
    try:
        return await answer
    except ProtocolFault as error:
        raise MCPError(error.code, str(error), error.data) from error
    except AgentError as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from error
    except GatewayError as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from error
