"""Opens the message streams of one server: a process, streamable HTTP, or the older SSE pair.

Above: connection.py, which speaks MCP over them. Every transport yields the same pair, and `Channel.closed` fires when
the server's side has ended.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

import anyio
import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage

from proxy.servers.authorized import ServerClient
from proxy.servers.config import ServerConfig, TransportKind
from proxy.servers.messages import ExactWriter, checked
from proxy.servers.oauth_tokens import Keyring, Tokens
from proxy.servers.orphans import Orphans
from proxy.servers.process import LastWords, Running, child_environment, message_streams, stdio_process

Streams = tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]


class Channel:
    """The two streams of an open transport."""

    def __init__(
        self,
        read: ReadStream[SessionMessage | Exception],
        write: WriteStream[SessionMessage],
        last_words: LastWords,
        *,
        exact: bool = False,
    ) -> None:
        """`exact` says that what is read was found to be exact as it was parsed."""
        self.closed = anyio.Event()
        self.read = _Watched(read, self.closed, _as_it_is if exact else checked)
        self.write = ExactWriter(write)
        self.last_words = last_words


class OpenTransport(Protocol):
    """How a connection gets its channel; tests put an in-memory one here."""

    def __call__(self, config: ServerConfig) -> AbstractAsyncContextManager[Channel]: ...


class StartsServers(Protocol):
    """Whoever starts stdio servers instead of this process, such as the client of a host (proxy/hosting)."""

    async def start(self, config: ServerConfig) -> Running:
        """Start a server. When it is cancelled, nothing is left.

        Raises:
            ServerDown: It cannot be started; the text says why.
        """
        ...


@asynccontextmanager
async def open_transport(
    config: ServerConfig,
    orphans: Orphans | None = None,
    keyring: Keyring | None = None,
    host: StartsServers | None = None,
) -> AsyncGenerator[Channel]:
    """Open the transport that the configuration names. `orphans` sees to a server's processes if this one is killed;
    `keyring` has the logins to servers, without it there are none; `host` starts stdio servers, without it they are
    children of this process.

    Raises:
        OSError: The command cannot be started.
        ServerDown: The host cannot start the command, or the server refuses us (SSE only; streamable HTTP connects
            with its first request).
        httpx2.HTTPError: The URL cannot be reached (SSE only; streamable HTTP connects with its first request).
    """
    last_words = LastWords()
    tokens = keyring.tokens(config) if keyring is not None and config.url else None
    if config.transport is TransportKind.STDIO:
        if host is not None:
            streams = message_streams(partial(host.start, config), last_words)
        else:
            env = child_environment(config.env, os.environ)
            streams = stdio_process(
                config.command, config.args, env=env, cwd=config.cwd, last_words=last_words, orphans=orphans
            )
        async with streams as (read, write):
            yield Channel(read, write, last_words, exact=True)
    elif config.transport is TransportKind.SSE:
        async with _sse(config, tokens) as (read, write):
            yield Channel(read, write, last_words)
    else:
        async with (
            ServerClient(config, tokens) as client,
            streamable_http_client(config.url, http_client=client, max_sse_event_size=None) as (read, write),
        ):
            yield Channel(read, write, last_words)


@asynccontextmanager
async def _sse(config: ServerConfig, tokens: Tokens | None) -> AsyncGenerator[Streams]:
    """The SDK's transport, ended when the server refuses a message: the SDK drops such errors, and the call would wait
    for its whole time."""
    client = ServerClient(config, tokens, always_raise=True)

    def make(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        return client

    async def end_when_refused() -> None:
        await client.refused.wait()
        assert client.failure is not None
        raise client.failure

    try:
        async with anyio.create_task_group() as tasks:
            async with sse_client(config.url, httpx_client_factory=make) as streams:
                tasks.start_soon(end_when_refused)
                yield streams
                tasks.cancel_scope.cancel()
    except* anyio.BrokenResourceError:
        # A message that arrived while our side was closing; the SDK's reader fails over it.
        pass


def _as_it_is(item: SessionMessage | Exception) -> SessionMessage | Exception:
    return item


class _Watched:
    """A read stream that fires `closed` when it ends, which the SDK's dispatcher tells nobody."""

    def __init__(
        self,
        inner: ReadStream[SessionMessage | Exception],
        closed: anyio.Event,
        check: Callable[[SessionMessage | Exception], SessionMessage | Exception],
    ) -> None:
        self._inner = inner
        self._closed = closed
        self._check = check

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            return self._check(await self._inner.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._closed.set()
            raise

    async def aclose(self) -> None:
        self._closed.set()
        await self._inner.aclose()

    def __aiter__(self) -> ReadStream[SessionMessage | Exception]:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()
