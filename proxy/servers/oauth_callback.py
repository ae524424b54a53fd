"""Waits for the browser to come back from a login: one loopback address that takes one answer with the right state.

Above: oauth_login.py. Below: anyio. Everything else that arrives there, a favicon or a page that guesses, is answered
and changes nothing.
"""

from __future__ import annotations

import html
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from secrets import compare_digest
from urllib.parse import parse_qsl, urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream

from proxy.errors import ConfigurationError

PATH = "/callback"
HOST = "127.0.0.1"
MAX_HEAD_BYTES = 16 * 1024
READ_S = 10.0


class Callback:
    """Where the browser comes back to. Made by `listening`."""

    def __init__(self, port: int, state: str) -> None:
        self.url = f"http://{HOST}:{port}{PATH}"
        self._state = state
        self._answer: Mapping[str, str] = {}
        self._answered = anyio.Event()

    async def answer(self) -> Mapping[str, str]:
        """The parameters that the authorization server sent along, once they have come."""
        await self._answered.wait()
        return self._answer

    async def serve(self, stream: SocketStream) -> None:
        """Answer one connection."""
        async with stream:
            try:
                with anyio.fail_after(READ_S):
                    status, text = self._respond(await _request_line(stream))
                    await stream.send(_page(status, text))
            except (TimeoutError, ValueError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
                return

    def _respond(self, line: str) -> tuple[str, str]:
        method, _, rest = line.partition(" ")
        address = urlsplit(rest.partition(" ")[0])
        if method != "GET" or address.path != PATH:
            return "404 Not Found", "There is nothing here."
        given = dict(parse_qsl(address.query))
        # Without this a page could log the gateway in to an account of its own choice.
        if not compare_digest(given.get("state", "").encode(), self._state.encode()) or self._answered.is_set():
            return "400 Bad Request", "This is not the answer to the login that is under way."
        self._answer = given
        self._answered.set()
        if "code" in given:
            return "200 OK", "You are logged in. You can close this page and go back to the terminal."
        return "200 OK", "The login was refused. The terminal says more."


@asynccontextmanager
async def listening(port: int, state: str) -> AsyncGenerator[Callback]:
    """Listen on a loopback port, 0 for a free one, until the block is left.

    Raises:
        ConfigurationError: The port is taken.
    """
    try:
        listener = await anyio.create_tcp_listener(local_host=HOST, local_port=port)
    except OSError as error:
        raise ConfigurationError(
            f"Port {port} cannot be listened on ({error.strerror}). End what uses it, or change 'oauth.redirect_port'."
        ) from None
    # Raised once the task group is left, which would wrap it into a group.
    failure: Exception | None = None
    async with listener, anyio.create_task_group() as tasks:
        callback = Callback(listener.extra(SocketAttribute.local_port), state)
        tasks.start_soon(listener.serve, callback.serve)
        try:
            yield callback
        except Exception as error:
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _request_line(stream: SocketStream) -> str:
    head = b""
    while b"\r\n\r\n" not in head:
        head += await stream.receive()
        if len(head) > MAX_HEAD_BYTES:
            raise ValueError("a longer head than any browser sends")
    return head.partition(b"\r\n")[0].decode("ascii")


def _page(status: str, text: str) -> bytes:
    body = f"<!doctype html><title>toolatlas</title><p>{html.escape(text)}</p>".encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
