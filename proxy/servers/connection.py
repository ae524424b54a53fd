"""One live MCP session with a server, raw dictionaries in and out, in whichever protocol era the server speaks.

Above: supervisor.py, which owns its lifetime. Below: peer.py, which speaks with the server, and transports.py.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.client._probe import negotiate_auto
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from proxy.catalog.text import one_line
from proxy.errors import CallTimeout, GatewayError, ProtocolFault, ServerDown
from proxy.servers.config import ServerConfig
from proxy.servers.flights import Call, Flights
from proxy.servers.listening import announced, keep_listening
from proxy.servers.origin import LEVELS, Origin
from proxy.servers.peer import PeerSession, addressed
from proxy.servers.transports import Channel, OpenTransport

OnNotice = Callable[[str, Mapping[str, Any]], Awaitable[None]]
"""Told of `notifications/*/list_changed` and `notifications/resources/updated` with their parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On which terms a connection is opened: what the server is told that it can ask, and who hears of it."""

    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Declared to a server of the initialize era, for all calls on this connection."""
    owner: Origin | None = None
    """The agent whose own connection this is, so that whatever the server asks is for that agent."""
    on_notice: OnNotice
    on_asked: Callable[[], None] = lambda: None
    """The server has put a question."""


class SessionLost(ProtocolFault):
    """The server has forgotten the session and refused the request unseen."""


class ServerConnection:
    """An initialised session. Made by `connect`; usable until `channel.closed`."""

    def __init__(
        self,
        config: ServerConfig,
        channel: Channel,
        session: PeerSession,
        dispatcher: JSONRPCDispatcher,
        flights: Flights,
        tasks: TaskGroup,
        terms: Terms,
    ) -> None:
        self.config = config
        self.channel = channel
        self._session = session
        self._dispatcher = dispatcher
        self._flights = flights
        self._tasks = tasks
        self._on_notice = terms.on_notice
        self._log_level: str | None = None
        self._subscriptions: dict[str, anyio.CancelScope] = {}

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
            CallTimeout: Neither an answer nor progress for `call.timeout_s`, open questions to the agent aside.
            ProtocolFault: The server answered with a JSON-RPC error; SessionLost when it was refused unseen.
            ServerDown: The connection ended before an answer came.
        """
        if call.origin is not None and call.origin.log_level is not None:
            await self._set_log_level(call.origin.log_level, call.timeout_s)
        options: CallOptions = {}
        params = addressed(call, self.protocol_version, options)
        with self._flights.started(call) as flight, flight.limit:
            if call.on_progress is not None:
                options["on_progress"] = flight.progress
            try:
                result = await self._dispatcher.send_raw_request(call.method, params, options)
            except MCPError as error:
                if error.code == types.CONNECTION_CLOSED:
                    raise ServerDown(self.config.name, f"the connection to '{self.config.name}' ended") from error
                kind = SessionLost if flight.session_lost else ProtocolFault
                raise kind(self.config.name, error.message, code=error.code, data=error.error.data) from error
            await flight.told()
            return result
        raise CallTimeout(
            self.config.name,
            f"'{self.config.name}' gave no answer to {call.method} within {call.timeout_s:g} s "
            f"and the call was cancelled; its limit is timeout_s in its configuration entry",
        )

    async def ping(self, timeout_s: float) -> bool:
        """Whether the server still knows this session. An error is an answer too: not all know `ping`.

        Raises:
            CallTimeout, ServerDown: As `request` does, when it no longer answers.
        """
        method = "server/discover" if self.modern else "ping"
        try:
            await self.request(Call(method, {}, timeout_s))
        except ProtocolFault as fault:
            return not isinstance(fault, SessionLost)
        return True

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification; one that cannot be delivered is dropped."""
        await self._dispatcher.notify(method, params)

    async def subscribe(self, uri: str, timeout_s: float) -> None:
        """Have the server tell of changes of a resource through `Terms.on_notice`.

        Raises:
            ServerError: As `request` does.
        """
        if not self.modern:
            await self.request(Call("resources/subscribe", {"uri": uri}, timeout_s))
        elif uri not in self._subscriptions:
            ready = anyio.Event()
            scope = self._subscriptions[uri] = anyio.CancelScope()
            self._tasks.start_soon(self._follow, uri, scope, ready)
            with anyio.move_on_after(timeout_s):
                await ready.wait()

    async def unsubscribe(self, uri: str, timeout_s: float) -> None:
        """Undo `subscribe`. Raises as it does."""
        if not self.modern:
            await self.request(Call("resources/unsubscribe", {"uri": uri}, timeout_s))
        elif (scope := self._subscriptions.pop(uri, None)) is not None:
            scope.cancel()

    async def _set_log_level(self, level: str, timeout_s: float) -> None:
        """A server of the initialize era has one level for the connection: that of its agent, or where agents share it
        the least severe that any of them asked for."""
        if level == self._log_level or self.modern or "logging" not in self.capabilities:
            return
        shared = not self._flights.private
        if shared and self._log_level is not None and LEVELS.index(level) > LEVELS.index(self._log_level):
            return
        self._log_level = level
        with suppress(ProtocolFault):
            await self.request(Call("logging/setLevel", {"level": level}, timeout_s))

    async def _follow(self, uri: str, scope: anyio.CancelScope, ready: anyio.Event) -> None:
        async def missed() -> None:
            await self._on_notice("notifications/resources/updated", {"uri": uri})

        with scope:
            try:
                await keep_listening(self._session, {"resource_subscriptions": [uri]}, ready.set, missed)
                del self._subscriptions[uri]
            finally:
                ready.set()

    async def listen_for_lists(self) -> None:
        """A 2026-07-28 server tells of changes of its lists only on a stream that was asked for."""

        async def missed() -> None:
            # Enough for the server to be listed anew, with all that it has.
            await self._on_notice("notifications/tools/list_changed", {})

        if self.modern and (kinds := announced(self.capabilities)):
            wanted = {f"{kind}_list_changed": True for kind in kinds}
            await keep_listening(self._session, wanted, lambda: None, missed)


@asynccontextmanager
async def connect(
    config: ServerConfig, open_transport: OpenTransport, terms: Terms
) -> AsyncGenerator[ServerConnection]:
    """Open the transport, negotiate the protocol era, and yield the session.

    Raises:
        ServerDown: The server did not start, did not answer in `start_timeout_s`, or does not speak MCP.
    """
    flights = Flights(terms.owner)
    # What the server sends outside of any call must not look like part of the call that happened to open it.
    flights.enter_none()
    channel: Channel | None = None
    try:
        # The limit lies around the transport, since opening one can already wait for the server.
        with anyio.fail_after(config.start_timeout_s) as start:
            async with open_transport(config) as channel:
                dispatcher: JSONRPCDispatcher = JSONRPCDispatcher(channel.read, channel.write)
                session = PeerSession(dispatcher, flights, terms.capabilities, terms.on_notice, terms.on_asked)
                async with session:
                    await negotiate_auto(session)
                    start.deadline = math.inf
                    async with anyio.create_task_group() as tasks:
                        connection = ServerConnection(config, channel, session, dispatcher, flights, tasks, terms)
                        tasks.start_soon(connection.listen_for_lists)
                        yield connection
                        tasks.cancel_scope.cancel()
    except TimeoutError as error:
        reason = f"it did not answer the first request within {config.start_timeout_s:g} s (start_timeout_s)"
        raise ServerDown(config.name, _down(config, reason, channel)) from error
    except Exception as error:
        raise ServerDown(config.name, _down(config, _reason(error), channel)) from error


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
