"""One started container: whether its interpreter is ready, one run after the other, and why it ended.

Above: docker.py and warm.py. Below: whoever starts containers (source.py), and channel.py.
"""

from __future__ import annotations

import itertools

import anyio

from proxy.errors import SandboxError
from proxy.sandbox.base import Limits
from proxy.sandbox.channel import BrokenFrame, Channel, ChannelClosed, encode
from proxy.sandbox.incoming import Ready, read
from proxy.sandbox.source import Source, Started

READY_S = 60.0
"""From the start of a container to its interpreter. A crowd of containers on two cores takes its time."""
RESET_S = 10.0


class Container:
    """Attached and running. `close` it, and remove it by its id."""

    def __init__(self, started: Started, source: Source, limits: Limits) -> None:
        self.id = started.id
        self.channel = Channel(started.socket, started.close)
        self.runs = itertools.count(1)
        self.ready = False
        """Whether an interpreter is there that has not been lost since."""
        self.broken: str | None = None
        """What it did that no supervisor does."""
        self._source = source
        self._limits = limits

    @classmethod
    async def start(cls, source: Source, limits: Limits) -> Container:
        """A container whose interpreter may still be starting. Cancelled, it waits for what has begun.

        Raises:
            SandboxError: The source cannot start one now.
        """
        return cls(await source.start(), source, limits)

    def alive(self) -> bool:
        return self.broken is None and self.channel.alive()

    def close(self) -> None:
        self.channel.close()

    async def until_ready(self, limit_s: float = READY_S) -> None:
        """Wait for the interpreter.

        Raises:
            SandboxError: It does not come up; says why.
        """
        if self.ready:
            return
        try:
            with anyio.fail_after(limit_s):
                while not self.ready:
                    frame, _ = await self.channel.receive()
                    self.ready = isinstance(read(frame, 0, self._limits, self.channel.broken), Ready)
        except TimeoutError:
            raise SandboxError(f"a container's interpreter did not start within {limit_s:g} s") from None
        except ChannelClosed as error:
            raise SandboxError(f"a container's interpreter did not start: {await self.why_it_ended(error)}") from error

    async def reset(self) -> None:
        """A new interpreter without variables.

        Raises:
            SandboxError: There is none; the container is of no further use.
        """
        await self.until_ready()
        self.ready = False
        try:
            with anyio.move_on_after(RESET_S):
                await self.channel.send(encode({"op": "reset"}))
        except ChannelClosed as error:
            raise SandboxError(f"the interpreter could not be reset: {await self.why_it_ended(error)}") from error
        await self.until_ready(RESET_S)

    async def why_it_ended(self, error: ChannelClosed | None = None) -> str:
        """For the agent: what became of the container, as far as is known. Never raises."""
        if isinstance(error, BrokenFrame):
            self.broken = str(error)
        if self.broken is not None:
            return f"its container was ended, for {self.broken}"
        said = f" ({self.channel.last_words})" if self.channel.last_words else ""
        try:
            return f"{await self._fate()}{said}"
        except SandboxError:
            return f"{self._source.name} is gone"

    async def _fate(self) -> str:
        state = await self._source.fate(self.id)
        if state is None:
            return "its container is gone"
        if state.running:
            return "the connection to its container ended"
        if state.out_of_memory:
            return f"its container ran out of memory ({self._limits.memory_bytes // 2**20} MiB)"
        if state.exit_code == 137:
            return "its container was killed"
        return f"its container ended with exit code {state.exit_code}"
