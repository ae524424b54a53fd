"""A connected socket on the event loop: bytes for a relay, short lines for requests, and who is at its other end.

Above: server.py and lease.py. Below: sockets, those of the engine's client among them, which may be encrypted.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel

from proxy.broker.protocol import MAX_REQUEST, Refused

CHUNK = 64 * 1024
"""Bytes on their way in one direction; more wait in the kernel, and then with whoever sends them."""
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group, as the kernel tells them of the other end of a Unix socket."""


class Gone(Exception):
    """The other end is gone, or this one is closed."""


class Stream:
    """`receive` and `send` are for one task each. `close` also ends what the socket belongs to."""

    def __init__(self, connected: socket.socket, close: Callable[[], None] | None = None) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._close = close or connected.close
        self._closed = False

    def user(self) -> int:
        """Who connected, over a Unix socket. Raises Gone."""
        try:
            credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError as error:
            raise Gone from error
        return _CREDENTIALS.unpack(credentials)[1]

    async def receive(self, most: int = CHUNK) -> bytes:
        """What has come, nothing at the end. Raises Gone."""
        while True:
            # The others' turn comes first, also where there is always something to read.
            await anyio.lowlevel.checkpoint()
            try:
                return self._open().recv(most)
            except ssl.SSLWantWriteError:
                await self._until(anyio.wait_writable)
            except WOULD_BLOCK:
                await self._until(anyio.wait_readable)
            except OSError as error:
                raise Gone from error

    async def send(self, data: bytes) -> None:
        """All of it; waits for a reader that is slow. Raises Gone."""
        with memoryview(data) as rest:
            at = 0
            while at < len(rest):
                try:
                    at += self._open().send(rest[at:])
                except ssl.SSLWantReadError:
                    await self._until(anyio.wait_readable)
                except WOULD_BLOCK:
                    await self._until(anyio.wait_writable)
                except OSError as error:
                    raise Gone from error

    async def line(self) -> bytes:
        """A request, without the end of its line.

        Raises:
            Refused: It is too long, or there is something behind it.
            Gone: The other end closed, also in the middle of it.
        """
        line = b""
        while b"\n" not in line:
            if len(line) >= MAX_REQUEST:
                raise Refused(f"a request has at most {MAX_REQUEST} bytes")
            if not (part := await self.receive(MAX_REQUEST + 1 - len(line))):
                raise Gone
            line += part
        request, _, behind = line.partition(b"\n")
        if behind:
            raise Refused("the next request may only be sent after the reply to this one")
        return request

    def close(self) -> None:
        """Whoever waits here gets Gone. Safe to repeat."""
        if not self._closed:
            self._closed = True
            anyio.notify_closing(self._socket)
            self._close()

    def _open(self) -> socket.socket:
        if self._closed:
            raise Gone
        return self._socket

    async def _until(self, ready: Callable[[socket.socket], Any]) -> None:
        try:
            await ready(self._open())
        except (anyio.ClosedResourceError, OSError) as error:
            raise Gone from error
