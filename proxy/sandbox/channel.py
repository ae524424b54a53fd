"""The line to a supervisor in a container: JSON lines over the socket of `docker attach`.

Above: exchange.py, which knows what the frames say. Below: a connected socket whose incoming bytes the engine wraps in
8-byte headers (stream, three zeroes, length), because stdout and stderr share it. Nothing that comes in is trusted:
broken headers, overlong lines and lines that are not a JSON object close the channel.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, cast

import anyio
import anyio.lowlevel

from proxy.catalog.text import one_line
from proxy.sandbox.frames import MAX_FRAME

CHUNK = 64 * 1024
LAST_WORDS = 4_096
"""Bytes of stderr that are kept: what a crash of the supervisor said last."""
STDOUT, STDERR, ENGINE = 1, 2, 3
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class ChannelClosed(Exception):
    """The other side is gone, or has sent what it must not; `str(error)` says which."""


class BrokenFrame(ChannelClosed):
    """It has sent what no supervisor sends."""


def encode(frame: Mapping[str, Any]) -> bytes:
    """One line.

    Raises:
        ValueError, TypeError, RecursionError: A value that JSON has no form for.
    """
    try:
        return json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:
        # Half of a surrogate pair has no UTF-8, but an escape.
        return json.dumps(frame, separators=(",", ":")).encode() + b"\n"


class Channel:
    """Frames in both directions. `receive` is for one task at a time, `send` for any number.

    `close` also ends what the socket belongs to: the engine's client gives it, and that keeps more than a descriptor.
    """

    def __init__(self, connected: socket.socket, close: Callable[[], None]) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._close = close
        self._closed = False
        self._ended: str | None = None
        self._sending = anyio.Lock(fast_acquire=True)
        self._unsent = bytearray()
        self._wrapped = bytearray()
        """What came in and is still in the engine's wrapping."""
        self._line = bytearray()
        self._lines: deque[bytes] = deque()
        self._errors = bytearray()

    @property
    def last_words(self) -> str:
        """The end of what the supervisor wrote on stderr, as one line."""
        return one_line(self._errors.decode("utf-8", "replace"), 300)

    async def send(self, line: bytes) -> None:
        """Send an encoded frame. Cancelled half-way, its rest goes out before the next one, so that no frame is torn.

        Raises:
            ChannelClosed: The other side is gone.
        """
        self._unsent += line
        async with self._sending:
            while self._unsent:
                try:
                    with memoryview(self._unsent) as whole, whole[:CHUNK] as piece:
                        sent = self._socket.send(piece)
                except ssl.SSLWantReadError:
                    await self._until(anyio.wait_readable)
                except WOULD_BLOCK:
                    await self._until(anyio.wait_writable)
                except OSError as error:
                    raise self._gone() from error
                else:
                    del self._unsent[:sent]

    async def receive(self) -> tuple[dict[str, Any], int]:
        """The next frame, and its bytes as a line.

        Raises:
            BrokenFrame: What came is no frame.
            ChannelClosed: The other side is gone.
        """
        while not self._lines:
            if self._read():
                # A flood must leave the others their turn.
                await anyio.lowlevel.checkpoint()
            else:
                await self._until(anyio.wait_readable)
        line = self._lines.popleft()
        try:
            frame = json.loads(line.decode())
        except (ValueError, RecursionError) as error:
            raise self.broken("a line that is not JSON") from error
        if not isinstance(frame, dict):
            raise self.broken("a line that is not a JSON object")
        return cast("dict[str, Any]", frame), len(line)

    def alive(self) -> bool:
        """Whether the other side is there, as far as can be known without waiting."""
        try:
            self._read()
        except ChannelClosed:
            return False
        return not self._closed

    def broken(self, what: str) -> BrokenFrame:
        """The error to raise for something that no supervisor sends; nothing is read from now on."""
        self._ended = f"it sent {what}"
        return BrokenFrame(self._ended)

    def close(self) -> None:
        """The supervisor reads the end of its input and ends; whoever waits here gets ChannelClosed. Safe to repeat."""
        if self._closed:
            return
        self._closed = True
        anyio.notify_closing(self._socket)
        self._close()

    def _read(self) -> bool:
        """Take in what has arrived. False when nothing has.

        Raises:
            ChannelClosed: The other side is gone, or broke the wrapping.
        """
        if self._ended is not None or self._closed:
            raise self._gone()
        try:
            data = self._socket.recv(CHUNK)
        except WOULD_BLOCK:
            return False
        except OSError as error:
            raise self._gone() from error
        if not data:
            raise self._gone()
        self._wrapped += data
        self._unwrap()
        return True

    def _unwrap(self) -> None:
        at = 0
        while len(self._wrapped) - at >= 8:
            stream, zeroes, length = struct.unpack_from(">B3sI", self._wrapped, at)
            if stream not in (STDOUT, STDERR, ENGINE) or any(zeroes) or length > MAX_FRAME:
                raise self.broken("a stream without the engine's headers")
            if len(self._wrapped) - at - 8 < length:
                break
            payload = self._wrapped[at + 8 : at + 8 + length]
            at += 8 + length
            if stream == STDOUT:
                self._split(payload)
            else:
                self._errors = (self._errors + payload)[-LAST_WORDS:]
        del self._wrapped[:at]

    def _split(self, payload: bytearray) -> None:
        *complete, rest = payload.split(b"\n")
        for part in complete:
            self._grow(part)
            self._lines.append(bytes(self._line))
            self._line = bytearray()
        self._grow(rest)

    def _grow(self, part: bytearray) -> None:
        if len(self._line) + len(part) > MAX_FRAME:
            raise self.broken(f"a line of more than {MAX_FRAME} bytes")
        self._line += part

    async def _until(self, ready: Callable[[socket.socket], Any]) -> None:
        if self._closed:
            raise self._gone()
        try:
            await ready(self._socket)
        except (anyio.ClosedResourceError, OSError) as error:
            raise self._gone() from error

    def _gone(self) -> ChannelClosed:
        self._ended = self._ended or "its connection ended"
        return ChannelClosed(self._ended)
