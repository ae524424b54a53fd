"""The gateway's ends of a server's pipes as streams, and the server's ends to be handed to a host.

Above: client.py. The gateway makes the pipes and keeps its own ends to itself, so that nobody at the host can make
them block or have it read something that is no pipe.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream
from anyio.lowlevel import checkpoint


class PipeReader(ByteReceiveStream):
    """Owns the reading end of a pipe."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._end = _End(descriptor)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await checkpoint()
        while True:
            try:
                data = os.read(self._end.descriptor(), max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._end.descriptor())
                continue
            if not data:
                raise anyio.EndOfStream
            return data

    async def aclose(self) -> None:
        self._end.close()


class PipeWriter(ByteSendStream):
    """Owns the writing end of a pipe."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._end = _End(descriptor)

    async def send(self, item: bytes) -> None:
        await checkpoint()
        rest = memoryview(item)
        while rest:
            try:
                rest = rest[os.write(self._end.descriptor(), rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._end.descriptor())
            except BrokenPipeError:
                raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        self._end.close()


class _End:
    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def descriptor(self) -> int:
        if self._descriptor is None:
            raise anyio.ClosedResourceError
        return self._descriptor

    def close(self) -> None:
        if self._descriptor is not None:
            # Whoever waits for it must not wait for the next one of this number.
            anyio.notify_closing(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None


class Pipes:
    """Three pipes: our ends as streams, the server's as descriptors."""

    def __init__(self) -> None:
        """Raises OSError when this process has no descriptors left."""
        with ExitStack() as undo:
            ends: list[int] = []
            for _ in range(3):
                both = os.pipe()
                for end in both:
                    undo.callback(os.close, end)
                # A server under another user that opens /dev/stdout would otherwise be refused its own pipe.
                os.fchmod(both[0], 0o666)
                ends.extend(both)
            undo.pop_all()
        self.server_ends = (ends[0], ends[3], ends[5])
        self.stdin, self.stdout, self.stderr = PipeWriter(ends[1]), PipeReader(ends[2]), PipeReader(ends[4])

    @contextmanager
    def handed_over(self) -> Generator[tuple[int, int, int]]:
        """The server's ends; here they are closed after the block, and must be for an end to be seen."""
        try:
            yield self.server_ends
        finally:
            for end in self.server_ends:
                os.close(end)

    async def aclose(self) -> None:
        """Close our ends."""
        for stream in (self.stdin, self.stdout, self.stderr):
            await stream.aclose()
