"""One container and the two connections it belongs to: the one that opened it, and the one that is its streams.

Above: server.py. Below: a source of containers, and stream.py. Bytes are passed on as they come and never looked at.
"""

from __future__ import annotations

from contextlib import suppress

import anyio

from proxy.broker.protocol import Refused, new_id
from proxy.broker.stream import Gone, Stream
from proxy.errors import SandboxError
from proxy.sandbox.source import Source, Started, State

ATTACH_S = 10.0
"""From the reply to `open` to `attach`."""
FATE_S = 5.0
"""For the source to say how a container ended, once its streams have."""


class Lease:
    """`container` is the engine's name of it and is told to nobody; `id` is told to who opened it, of user `user`."""

    def __init__(self, started: Started, source: Source, user: int) -> None:
        self.id = new_id()
        self.user = user
        self.container = started.id
        self.until_attached = anyio.CancelScope(deadline=anyio.current_time() + ATTACH_S)
        """Cancelled when nobody has attached in time."""
        self._streams = Stream(started.socket, started.close)
        self._source = source
        self._taken = False
        self._closed = False
        self._ended = False
        """By itself."""
        self._fate: State | SandboxError | None = None
        self._fate_known = anyio.Event()

    def take(self, user: int) -> bool:
        """Whether the caller is the one who may attach; true once."""
        if self._taken or user != self.user:
            return False
        self._taken = True
        self.until_attached.deadline = float("inf")
        return True

    async def relay(self, gateway: Stream) -> None:
        """Be the container's streams until either side ends; then both have ended."""
        try:
            async with anyio.create_task_group() as directions:

                async def inwards() -> None:
                    with suppress(Gone):
                        while data := await gateway.receive():
                            try:
                                await self._streams.send(data)
                            except Gone:
                                return  # What it has said before is still to be read.
                    directions.cancel_scope.cancel()

                async def outwards() -> None:
                    while data := await self._output():
                        try:
                            await gateway.send(data)
                        except Gone:
                            break
                    else:
                        self._ended = not self._closed
                    directions.cancel_scope.cancel()

                directions.start_soon(inwards)
                directions.start_soon(outwards)
        finally:
            gateway.close()
            self._streams.close()
        if self._ended:
            # At once: the engine soon forgets a container that has ended.
            await self._learn()

    async def fate(self) -> State | None:
        """How it ended, if it did by itself.

        Raises:
            Refused: The engine does not say.
        """
        if self._ended:
            with anyio.move_on_after(FATE_S):
                await self._fate_known.wait()
        if isinstance(self._fate, SandboxError):
            raise Refused(str(self._fate))
        return self._fate

    def close(self) -> None:
        """End its streams, and with them the container. Nobody can attach any more."""
        self._taken = self._closed = True
        self._streams.close()

    async def _output(self) -> bytes:
        try:
            return await self._streams.receive()
        except Gone:
            return b""

    async def _learn(self) -> None:
        try:
            self._fate = await self._source.fate(self.container)
        except SandboxError as error:
            self._fate = error
        finally:
            self._fate_known.set()
