"""One span for each request that an agent's request makes the gateway send to a server, from the messages themselves.

Above: app.py wraps how connections are opened. Below: proxy/servers/transports.py. Looking at messages shows each
request that was really sent, with its id: retries and rounds of questions are spans of their own. The server is told
the span in `_meta`, as the conventions say, in place of what the agent said there: so traces of servers that have any
hang together with ours. That is the one thing that tracing changes in what a server gets.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Tracer

from proxy.observing import spans
from proxy.servers.config import ServerConfig, TransportKind
from proxy.servers.messages import ExactWriter
from proxy.servers.transports import Channel, OpenTransport

METHODS = frozenset({"tools/call", "resources/read", "prompts/get", "completion/complete"})
"""What is sent only for agents. The rest belongs to the connection, which outlives the request that opened it."""
PORTS = {"https": 443, "http": 80}

MayBeNamed = Callable[[str, str], bool]
"""Whether spans may name this tool of this server."""


def traced(open_transport: OpenTransport, tracer: Tracer, may_be_named: MayBeNamed) -> OpenTransport:
    """Opens what `open_transport` opens, with a span for each request of an agent."""

    @asynccontextmanager
    async def opened(config: ServerConfig) -> AsyncGenerator[Channel]:
        # From here on, in this task and those it starts, nothing belongs to the request that made the server start.
        context.attach(Context())
        async with open_transport(config) as inner:
            requests = _Requests(tracer, config, may_be_named)
            channel = Channel(_Reader(inner.read, requests), inner.write, inner.last_words, exact=True)
            channel.write = _Writer(inner.write, requests)
            try:
                yield channel
            finally:
                requests.end_all()

    return opened


class _Requests:
    """The spans of the requests under way on one connection."""

    def __init__(self, tracer: Tracer, config: ServerConfig, may_be_named: MayBeNamed) -> None:
        self._tracer = tracer
        self._name = config.name
        self._attributes = _where(config) | {spans.SERVER: config.name}
        self._may_be_named = may_be_named
        self._open: dict[int | str, Span] = {}

    def sent(self, item: SessionMessage) -> SessionMessage:
        """A message is about to be sent; how it is to be sent."""
        message = item.message
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            if (cancelled := self._open.pop((message.params or {}).get("requestId", ""), None)) is not None:
                spans.fail(cancelled, spans.CANCELLED)
                cancelled.end()
        elif isinstance(message, JSONRPCRequest) and message.method in METHODS:
            return self._begun(item, message)
        return item

    def not_sent(self, item: SessionMessage, error: Exception) -> None:
        if isinstance(item.message, JSONRPCRequest) and (span := self._open.pop(item.message.id, None)) is not None:
            spans.fail(span, type(error).__qualname__)
            span.end()

    def received(self, item: SessionMessage | Exception) -> None:
        message = item.message if isinstance(item, SessionMessage) else None
        if not isinstance(message, JSONRPCResponse | JSONRPCError) or message.id is None:
            return
        if (span := self._open.pop(message.id, None)) is not None:
            if isinstance(message, JSONRPCError):
                spans.fail_with_code(span, message.error.code)
            elif message.result.get("isError") is True:
                spans.fail(span, spans.TOOL_ERROR)
            span.end()

    def end_all(self) -> None:
        """The connection is over."""
        for span in self._open.values():
            spans.fail(span, "connection_closed")
            span.end()
        self._open.clear()

    def _begun(self, item: SessionMessage, message: JSONRPCRequest) -> SessionMessage:
        params = dict(message.params or {})
        attributes = {**self._attributes, spans.METHOD: message.method, spans.REQUEST_ID: str(message.id)}
        name = message.method
        if message.method == spans.CALL:
            attributes[spans.OPERATION] = spans.EXECUTE_TOOL
            tool = str(params.get("name"))
            if self._may_be_named(self._name, tool):
                name = f"{name} {tool}"
                attributes[spans.TOOL] = tool
        if isinstance(item.metadata, ClientMessageMetadata):
            attributes[spans.PROTOCOL] = (item.metadata.headers or {}).get(MCP_PROTOCOL_VERSION_HEADER, "")
        span = self._open[message.id] = self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes)
        params["_meta"] = told = dict[str, Any](params.get("_meta") or {})
        propagate.inject(told, trace.set_span_in_context(span))
        return replace(item, message=message.model_copy(update={"params": params}))


class _Writer(ExactWriter):
    """Tells of what is sent."""

    def __init__(self, inner: WriteStream[SessionMessage], requests: _Requests) -> None:
        super().__init__(inner)
        self._to = inner
        self._requests = requests

    async def send(self, item: SessionMessage, /) -> None:
        # Whether it is exact, the inner writer finds out.
        item = self._requests.sent(item)
        try:
            await self._to.send(item)
        except Exception as error:
            self._requests.not_sent(item, error)
            raise


class _Reader:
    """Tells of what is received."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], requests: _Requests) -> None:
        self._inner = inner
        self._requests = requests

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        item = await self._inner.receive()
        self._requests.received(item)
        return item

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        item = await self._inner.__anext__()
        self._requests.received(item)
        return item

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


def _where(config: ServerConfig) -> dict[str, str | int]:
    """How the server is reached. Of its URL the host alone: the rest may hold keys."""
    if config.transport is TransportKind.STDIO:
        return {spans.TRANSPORT: "pipe"}
    url = urlsplit(config.url)
    found: dict[str, str | int] = {spans.TRANSPORT: "tcp", spans.APPLICATION_PROTOCOL: "http"}
    if url.hostname is not None:
        found[spans.ADDRESS] = url.hostname
        if (port := url.port or PORTS.get(url.scheme)) is not None:
            found[spans.PORT] = port
    return found
