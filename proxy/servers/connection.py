"""One live MCP session with a server, raw dictionaries in and out, in whichever protocol era the server speaks.

Above: supervisor.py, which owns its lifetime. Below: transports.py. Raw, because typed models drop unknown fields and
one invalid schema would fail a whole listing; the SDK's dispatcher and session do framing, ids and negotiation.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

import anyio
import mcp_types as types
from mcp.client._probe import negotiate_auto
from mcp.client.session import ClientSession, MessageHandlerFnT
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from proxy import __version__
from proxy.catalog.text import one_line
from proxy.errors import CallTimeout, GatewayError, ProtocolFault, ServerDown
from proxy.servers.config import ServerConfig
from proxy.servers.transports import Channel, OpenTransport

CLIENT_INFO = types.Implementation(name="toolatlas", version=__version__)
CLIENT_INFO_ON_THE_WIRE = {"name": CLIENT_INFO.name, "version": CLIENT_INFO.version}
RESERVED_META = "io.modelcontextprotocol/"

OnToolsChanged = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a server, with what it needs from the agent that caused it."""

    method: str
    params: Mapping[str, Any]
    timeout_s: float
    """Seconds without an answer or progress before the call is given up."""
    on_progress: ProgressFnT | None = None
    agent_capabilities: Mapping[str, Any] | None = None
    """What the agent can be asked, for servers of the 2026-07-28 era; None promises nothing."""
    input_schema: Mapping[str, Any] | None = None
    """Of the called tool: 2026-07-28 servers may want some arguments repeated as headers."""


class ServerConnection:
    """An initialised session. Made by `connect`; usable until `channel.closed`."""

    def __init__(
        self, config: ServerConfig, channel: Channel, session: ClientSession, dispatcher: JSONRPCDispatcher
    ) -> None:
        self.config = config
        self.channel = channel
        self._session = session
        self._dispatcher = dispatcher

    @property
    def protocol_version(self) -> str:
        return self._session.protocol_version or ""

    @property
    def modern(self) -> bool:
        return self.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def capabilities(self) -> dict[str, Any]:
        return _dump(self._session.server_capabilities)

    @property
    def server_info(self) -> dict[str, Any]:
        return _dump(self._session.server_info)

    @property
    def instructions(self) -> str | None:
        return self._session.instructions

    async def request(self, call: Call) -> dict[str, Any]:
        """Send and await the raw result. Cancelling the caller cancels the call at the server.

        Raises:
            CallTimeout: Neither an answer nor progress for `call.timeout_s`.
            ProtocolFault: The server answered with a JSON-RPC error.
            ServerDown: The connection ended before an answer came.
        """
        options: CallOptions = {}
        params = self._params(call, options)
        with anyio.move_on_after(call.timeout_s) as limit:
            if call.on_progress is not None:
                options["on_progress"] = _extending(call.on_progress, limit, call.timeout_s)
            try:
                return await self._dispatcher.send_raw_request(call.method, params, options)
            except MCPError as error:
                if error.code == types.CONNECTION_CLOSED:
                    raise ServerDown(self.config.name, f"the connection to '{self.config.name}' ended") from error
                raise ProtocolFault(self.config.name, error.message, code=error.code, data=error.error.data) from error
        raise CallTimeout(
            self.config.name,
            f"'{self.config.name}' gave no answer to {call.method} within {call.timeout_s:g} s "
            f"and the call was cancelled; its limit is timeout_s in its configuration entry",
        )

    async def ping(self, timeout_s: float) -> None:
        """Raise as `request` does when the server no longer answers. An error is an answer: not all know `ping`."""
        method = "server/discover" if self.modern else "ping"
        with suppress(ProtocolFault):
            await self.request(Call(method, {}, timeout_s))

    def _params(self, call: Call, options: CallOptions) -> dict[str, Any]:
        params = dict(call.params)
        sent_meta = params.get("_meta")
        meta: dict[str, Any] = (
            {k: v for k, v in cast(dict[str, Any], sent_meta).items() if k != "progressToken"}
            if isinstance(sent_meta, dict)
            else {}
        )
        log_level = meta.get(types.LOG_LEVEL_META_KEY)
        meta = {k: v for k, v in meta.items() if not k.startswith(RESERVED_META)}
        headers = {MCP_PROTOCOL_VERSION_HEADER: self.protocol_version}
        if self.modern:
            meta[types.PROTOCOL_VERSION_META_KEY] = self.protocol_version
            meta[types.CLIENT_INFO_META_KEY] = CLIENT_INFO_ON_THE_WIRE
            meta[types.CLIENT_CAPABILITIES_META_KEY] = dict(call.agent_capabilities or {})
            if log_level is not None:
                meta[types.LOG_LEVEL_META_KEY] = log_level
            headers[MCP_METHOD_HEADER] = call.method
            name = params.get(NAME_BEARING_METHODS.get(call.method, ""))
            if isinstance(name, str):
                headers[MCP_NAME_HEADER] = encode_header_value(name)
            if call.input_schema is not None and (wanted := x_mcp_header_map(dict(call.input_schema))):
                headers |= mcp_param_headers(wanted, params.get("arguments") or {})
        else:
            for key in ("inputResponses", "requestState"):
                params.pop(key, None)
        options["headers"] = headers
        params["_meta"] = meta
        return params


@asynccontextmanager
async def connect(
    config: ServerConfig, open_transport: OpenTransport, on_tools_changed: OnToolsChanged
) -> AsyncGenerator[ServerConnection]:
    """Open the transport, negotiate the protocol era, and yield the session.

    Raises:
        ServerDown: The server did not start, did not answer in `start_timeout_s`, or does not speak MCP.
    """

    async def notice(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            await on_tools_changed()

    channel: Channel | None = None
    try:
        # The limit lies around the transport, since opening one can already wait for the server.
        with anyio.fail_after(config.start_timeout_s) as start:
            async with (
                open_transport(config) as channel,
                _session(channel, notice) as (session, dispatcher),
            ):
                await negotiate_auto(session)
                start.deadline = math.inf
                connection = ServerConnection(config, channel, session, dispatcher)
                async with anyio.create_task_group() as tasks:
                    if connection.modern and _announces_changes(connection.capabilities):
                        tasks.start_soon(_listen, session, on_tools_changed)
                    yield connection
                    tasks.cancel_scope.cancel()
    except TimeoutError as error:
        reason = f"it did not answer the first request within {config.start_timeout_s:g} s (start_timeout_s)"
        raise ServerDown(config.name, _down(config, reason, channel)) from error
    except Exception as error:
        raise ServerDown(config.name, _down(config, _reason(error), channel)) from error


@asynccontextmanager
async def _session(
    channel: Channel, notice: MessageHandlerFnT
) -> AsyncGenerator[tuple[ClientSession, JSONRPCDispatcher]]:
    dispatcher: JSONRPCDispatcher = JSONRPCDispatcher(channel.read, channel.write)
    async with ClientSession(dispatcher=dispatcher, message_handler=notice, client_info=CLIENT_INFO) as session:
        yield session, dispatcher


async def _listen(session: ClientSession, on_tools_changed: OnToolsChanged) -> None:
    """A 2026-07-28 server tells of changes only on a stream that was asked for."""
    with suppress(MCPError, SubscriptionLost, ListenNotSupportedError, TimeoutError):
        async with listen(session, tools_list_changed=True) as events:
            async for _ in events:
                await on_tools_changed()


def _announces_changes(capabilities: Mapping[str, Any]) -> bool:
    tools = capabilities.get("tools")
    return isinstance(tools, Mapping) and bool(cast(Mapping[str, Any], tools).get("listChanged"))


def _extending(on_progress: ProgressFnT, limit: anyio.CancelScope, timeout_s: float) -> ProgressFnT:
    """Progress proves that the server is alive, so it moves the limit on."""

    async def relay(progress: float, total: float | None, message: str | None) -> None:
        limit.deadline = anyio.current_time() + timeout_s
        await on_progress(progress, total, message)

    return relay


def innermost(error: BaseException) -> BaseException:
    """The first cause inside the groups that task groups wrap around it."""
    while isinstance(error, BaseExceptionGroup):
        error = cast(BaseExceptionGroup[BaseException], error).exceptions[0]
    return error


def _down(config: ServerConfig, reason: str, channel: Channel | None) -> str:
    where = f"command {config.command!r}" if config.command else "its url"
    words = channel.last_words.describe() if channel is not None else ""
    return f"server '{config.name}' could not be connected ({where}): {reason}" + (f"; {words}" if words else "")


def _reason(error: BaseException) -> str:
    """The innermost cause in words; task groups wrap it, and URLs with credentials must not leak."""
    error = innermost(error)
    if isinstance(error, GatewayError):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return "there is no such command, or no such folder in `cwd`; install it, or correct the configuration entry"
    if isinstance(error, MCPError):
        if error.code == types.CONNECTION_CLOSED:
            return "it ended before answering the first request"
        return f"it answered the first request with error {error.code}: {one_line(error.message, 300)}"
    if isinstance(error, OSError):
        return f"{error.strerror or type(error).__name__}"
    name = type(error).__name__
    if "HTTPStatus" in name:
        return f"its HTTP endpoint answered {getattr(getattr(error, 'response', None), 'status_code', 'an error')}"
    if "Connect" in name:
        return "nothing answers at that address; start the server or correct `url`"
    if name == "ValidationError":
        return "its answer to the first request is not MCP"
    return f"{name}"


def _dump(model: types.ServerCapabilities | types.Implementation | None) -> dict[str, Any]:
    return {} if model is None else model.model_dump(by_alias=True, mode="json", exclude_none=True)
