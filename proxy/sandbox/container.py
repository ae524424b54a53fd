"""One started container: whether its interpreter is ready, one run after the other, and why it ended.

Above: docker.py and warm.py. Below: engine.py in worker threads, and exchange.py on the event loop.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

import anyio
import anyio.to_thread

from proxy.catalog.text import one_line
from proxy.errors import SandboxError
from proxy.sandbox.base import Limits
from proxy.sandbox.channel import BrokenFrame, Channel, ChannelClosed, encode
from proxy.sandbox.engine import Engine, Started, State
from proxy.sandbox.incoming import Ready, read

READY_S = 60.0
"""From the start of a container to its interpreter. A crowd of containers on two cores takes its time."""
RESET_S = 10.0
ENDED_S = 3.0
"""For the engine to know why a container ended, after its streams did."""
THREADS = 8
"""Requests to the engine at a time."""

T = TypeVar("T")

logger = logging.getLogger("toolatlas.sandbox")


class Engines:
    """The engine's blocking calls, awaited. Cancelled, one that has begun is waited for unless it may be abandoned."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._threads = anyio.CapacityLimiter(THREADS)

    async def do(self, call: Callable[[], T], *, abandon: bool = False) -> T:
        """
        Raises:
            SandboxError: The engine failed, or its library did.
        """
        try:
            return await anyio.to_thread.run_sync(call, limiter=self._threads, abandon_on_cancel=abandon)
        except SandboxError:
            raise
        except Exception as error:
            logger.exception("run_python: the Docker library failed")
            raise SandboxError(f"the Docker library failed: {one_line(repr(error), 200)}") from error


class Container:
    """Attached and running. `close` it, and remove it by its id."""

    def __init__(self, started: Started, engines: Engines, limits: Limits) -> None:
        self.id = started.id
        self.channel = Channel(started.socket, started.close)
        self.runs = itertools.count(1)
        self.ready = False
        """Whether an interpreter is there that has not been lost since."""
        self.broken: str | None = None
        """What it did that no supervisor does."""
        self._engines = engines
        self._limits = limits

    @classmethod
    async def start(cls, engines: Engines, image: str, limits: Limits, labels: Mapping[str, str]) -> Container:
        """A container whose interpreter may still be starting. Cancelled, it waits for what has begun.

        Raises:
            SandboxError: The engine cannot start one now.
        """
        return cls(await engines.do(lambda: engines.engine.start(image, limits, labels)), engines, limits)

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
        """For the agent: what became of the container, as far as the engine knows. Never raises."""
        if isinstance(error, BrokenFrame):
            self.broken = str(error)
        if self.broken is not None:
            return f"its container was ended, for {self.broken}"
        said = f" ({self.channel.last_words})" if self.channel.last_words else ""
        try:
            return f"{await self._fate()}{said}"
        except SandboxError:
            return "the Docker engine is gone"

    async def _fate(self) -> str:
        with anyio.move_on_after(ENDED_S):
            # The engine learns of the end a moment after the streams have ended, and forgets a little later.
            while (state := await self._state()) is not None:
                if not state.running and state.out_of_memory:
                    return f"its container ran out of memory ({self._limits.memory_bytes // 2**20} MiB)"
                if not state.running and state.exit_code == 137:
                    return "its container was killed"
                if not state.running:
                    return f"its container ended with exit code {state.exit_code}"
                await anyio.sleep(0.02)
            return "its container is gone"
        return "the connection to its container ended"

    async def _state(self) -> State | None:
        return await self._engines.do(lambda: self._engines.engine.state(self.id), abandon=True)
