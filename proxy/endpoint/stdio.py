"""Relays an agent's MCP over stdio to a gateway's streamable HTTP, in both protocol eras, message for message.

Above: commands/stdio.py owns the pipes. Below: the SDK's HTTP transport, over a connection that outlives one gateway.
Params, results, errors and ids pass as they came; HTTP headers are made from them, and of answers only what those need
is read.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import anyio
import httpx2
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp.types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from proxy.errors import GatewayError

logger = logging.getLogger(__name__)

Reconnect: TypeAlias = Callable[[], Awaitable[str]]
"""Finds or starts a gateway and returns the URL of its MCP endpoint."""

_STOPPED = (
    "The gateway stopped before it answered, so whether this took effect is unknown. The next message connects again:"
    " repeat this one where that does no harm."
)
_SESSION_LOST = "Session terminated; reconnect"
_PING_S = 60.0
_LEAVE_S = 5.0


async def bridge(
    url: str,
    *,
    read: ReadStream[SessionMessage | Exception],
    write: WriteStream[SessionMessage],
    token: str | None = None,
    reconnect: Reconnect | None = None,
) -> None:
    """Relay until the agent closes its side. Raises GatewayError when an initialize-era session is lost."""
    line = _Line(url, reconnect)
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    relay = _Relay(write)
    async with httpx2.AsyncClient(transport=line, headers=headers, timeout=httpx2.Timeout(30, read=None)) as http:
        with anyio.CancelScope() as leaving:
            async with streamable_http_client(url, http_client=http, max_sse_event_size=None) as (incoming, outgoing):
                async with anyio.create_task_group() as tasks:

                    async def end_with_session() -> None:
                        await line.session_lost.wait()
                        await relay.fail_all(_SESSION_LOST)
                        tasks.cancel_scope.cancel()

                    tasks.start_soon(_keep_awake, line, http)
                    tasks.start_soon(end_with_session)
                    tasks.start_soon(relay.from_gateway, incoming)
                    await relay.from_agent(read, outgoing)
                    tasks.cancel_scope.cancel()
                # The SDK ends the session on the way out; a gateway that hangs must not keep us.
                leaving.deadline = anyio.current_time() + _LEAVE_S
    if line.session_lost.is_set():
        raise GatewayError("The gateway stopped, and the agent's MCP session with it: the agent has to connect again.")


async def _keep_awake(line: _Line, http: httpx2.AsyncClient) -> None:
    """A gateway that `toolatlas stdio` started ends when nobody asks it anything for some minutes."""
    while True:
        try:
            await http.get(line.url.join("/healthz"), timeout=_LEAVE_S)
        except httpx2.HTTPError as error:
            logger.debug("the gateway does not answer: %s", error)
        await anyio.sleep(_PING_S)


class _Relay:
    """Both directions of the conversation, and what has to be remembered of it."""

    def __init__(self, write: WriteStream[SessionMessage]) -> None:
        self._write = write
        self._asked: dict[RequestId, str] = {}
        """Methods of the agent's requests that are not answered yet."""
        self._version: str | None = None
        """What `initialize` agreed on; stays None with agents that do not use it."""
        self._initialized = anyio.Event()
        self._parameter_headers: dict[str, dict[tuple[str, ...], str]] = {}
        """By tool: which arguments its schema wants repeated as HTTP headers."""
        self._closed = False

    async def from_agent(
        self, read: ReadStream[SessionMessage | Exception], outgoing: WriteStream[SessionMessage]
    ) -> None:
        async for item in read:
            if isinstance(item, Exception):
                await self._answer(None, PARSE_ERROR, "This line is not one JSON-RPC message.")
                continue
            message = item.message
            headers = self._headers(message)
            if isinstance(message, JSONRPCRequest):
                self._asked[message.id] = message.method
            elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
                # Nobody waits for that answer any more, and often none comes.
                cancelled = (message.params or {}).get("requestId")
                if isinstance(cancelled, str | int):
                    self._asked.pop(cancelled, None)
            await outgoing.send(SessionMessage(message, ClientMessageMetadata(headers=headers)))
            if isinstance(message, JSONRPCRequest) and message.method == "initialize":
                # Everything after it needs the session and version of its answer, even from an agent in a hurry.
                self._initialized = anyio.Event()
                await self._initialized.wait()

    async def from_gateway(self, incoming: ReadStream[SessionMessage | Exception]) -> None:
        async for item in incoming:
            if self._closed:
                continue
            if isinstance(item, Exception):
                logger.warning("a message of the gateway is not JSON-RPC and was left out: %s", item)
                continue
            message = item.message
            if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
                method = self._asked.pop(message.id, None)
                if isinstance(message, JSONRPCResponse):
                    self._learn(method, message.result)
                elif _is_cut_off(message.error):
                    message.error = ErrorData(code=INTERNAL_ERROR, message=_STOPPED)
                await self._write.send(SessionMessage(message))
                if method == "initialize":
                    self._initialized.set()
            else:
                await self._write.send(SessionMessage(message))

    async def fail_all(self, text: str) -> None:
        """Answer everything still asked, and let nothing more through."""
        self._closed = True
        for asked in tuple(self._asked):
            await self._answer(asked, INVALID_REQUEST, text)

    async def _answer(self, request: RequestId | None, code: int, text: str) -> None:
        error = JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=text))
        await self._write.send(SessionMessage(error))

    def _headers(self, message: object) -> dict[str, str] | None:
        """What the HTTP request of this message has to say of it, by the era that the message itself belongs to."""
        if not isinstance(message, JSONRPCRequest | JSONRPCNotification):
            return self._legacy_headers()
        params = message.params or {}
        version = _mapping(params.get("_meta")).get(PROTOCOL_VERSION_META_KEY)
        if not isinstance(version, str):
            return None if message.method == "initialize" else self._legacy_headers()
        headers = {
            MCP_PROTOCOL_VERSION_HEADER: encode_header_value(version),
            MCP_METHOD_HEADER: encode_header_value(message.method),
        }
        name = params.get(NAME_BEARING_METHODS.get(message.method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            if message.method == "tools/call" and name in self._parameter_headers:
                headers |= mcp_param_headers(self._parameter_headers[name], _mapping(params.get("arguments")))
        return headers

    def _legacy_headers(self) -> dict[str, str] | None:
        return None if self._version is None else {MCP_PROTOCOL_VERSION_HEADER: self._version}

    def _learn(self, method: str | None, result: Mapping[str, Any]) -> None:
        if method == "initialize":
            version = result.get("protocolVersion")
            self._version = version if isinstance(version, str) else None
        elif method == "tools/list" and isinstance(tools := result.get("tools"), list):
            for tool in map(_mapping, tools):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
                schema = tool.get("inputSchema")
                marked = {} if find_invalid_x_mcp_header(schema) else x_mcp_header_map(schema)
                if isinstance(name := tool.get("name"), str):
                    self._parameter_headers[name] = marked


class _Line(httpx2.AsyncBaseTransport):
    """HTTP to whichever gateway runs now. A message that cannot be delivered gets an answer instead of an exception:
    one exception would end the SDK's transport, and with it every other request under way.
    """

    def __init__(self, url: str, reconnect: Reconnect | None) -> None:
        self.url = httpx2.URL(url)
        self.session_lost = anyio.Event()
        self._called = self.url
        self._reconnect = reconnect
        self._reconnecting = anyio.Lock()
        # Listen streams stay open, so their number is not limited. Idle connections go before the gateway's own five
        # seconds are over: one that it closes just as we use it would look like a gateway that died.
        self._http = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=None, keepalive_expiry=2.0))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            return await self._send(request, self.url)
        try:
            response = await self._deliver(request)
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                # Read here, where a connection that breaks in the middle is still our matter.
                await response.aread()
        except GatewayError as error:
            return _refusal(502, INTERNAL_ERROR, str(error))
        except httpx2.TransportError as error:
            logger.debug("the gateway went away: %r", error)
            return _refusal(502, INTERNAL_ERROR, _STOPPED)
        if response.status_code == 404 and MCP_SESSION_ID in request.headers:
            self.session_lost.set()
            return _refusal(404, INVALID_REQUEST, _SESSION_LOST)
        return response

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _deliver(self, request: httpx2.Request) -> httpx2.Response:
        aim = self.url
        try:
            return await self._send(request, aim)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            # Nothing has arrived, so sending again is safe. A session, though, lived in the gateway that is gone.
            if MCP_SESSION_ID in request.headers:
                return _refusal(404, INVALID_REQUEST, _SESSION_LOST)
            return await self._send(request, await self._next(aim))

    async def _next(self, tried: httpx2.URL) -> httpx2.URL:
        """Where to send what could not be delivered to `tried`; many that fail together ask once."""
        async with self._reconnecting:
            if self.url == tried:
                if self._reconnect is None:
                    raise GatewayError(
                        f"There is no gateway at {tried.scheme}://{tried.netloc.decode()}: start it with"
                        " `toolatlas serve`, then send this again."
                    )
                self.url = httpx2.URL(await self._reconnect())
            return self.url

    async def _send(self, request: httpx2.Request, aim: httpx2.URL) -> httpx2.Response:
        if request.url == self._called and aim != self._called:
            request.url = aim
            request.headers["host"] = aim.netloc.decode()
        return await self._http.handle_async_request(request)


def _refusal(status: int, code: int, text: str) -> httpx2.Response:
    """An answer that the SDK hands to the agent under the id of the request it stands for."""
    return httpx2.Response(status, json={"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}})


def _is_cut_off(error: ErrorData) -> bool:
    """Whether the SDK made this up because a response stream ended without the response. The code alone does not tell:
    servers behind the gateway use it too.
    """
    return error.code == CONNECTION_CLOSED and error.message.startswith("SSE stream ended")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}  # pyright: ignore[reportUnknownVariableType]
