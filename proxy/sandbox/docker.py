"""The backend that runs code in hardened containers: one for each task, out of a reserve, never given to another.

Above: whoever holds a `Backend`. Below: warm.py and container.py, and a source of containers: an engine that this
process reaches itself, or a broker. Whichever it is leaves no container behind when the gateway is gone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from proxy.errors import SandboxBusy, SandboxError
from proxy.sandbox.base import Limits
from proxy.sandbox.container import Container
from proxy.sandbox.engine import Engine
from proxy.sandbox.engine_source import EngineSource
from proxy.sandbox.interpreter import DockerInterpreter
from proxy.sandbox.source import Source
from proxy.sandbox.warm import WarmPool

ROOM_AFTER_S = 60.0
"""An interpreter that has run nothing for so long gives way when all are in use."""
LOOK_S = 5.0
"""Between two looks at what is idle, too old, or dead."""


class ContainerBackend:
    """Hardened containers out of a source. Use inside `async with backend.running()`."""

    name = "docker"
    language = ""

    def __init__(self, limits: Limits, source: Source) -> None:
        self._limits = limits
        self._source = source
        self._tasks: TaskGroup | None = None
        self._containers: set[Container] = set()
        self._interpreters: set[DockerInterpreter] = set()
        self._in_use = 0
        self.pool = WarmPool(self._start, self._discard, limits.warm)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """
        Raises:
            SandboxError: The source cannot begin.
        """
        async with self._source.running():
            try:
                async with anyio.create_task_group() as self._tasks:
                    self._tasks.start_soon(self._look_after)
                    self.pool.open(self._tasks)
                    try:
                        yield
                    finally:
                        self._tasks.cancel_scope.cancel()
            finally:
                self._tasks = None
                for container in self._containers:
                    container.close()
                self._containers.clear()

    async def open(self, task_id: str) -> DockerInterpreter:
        """An interpreter with a container of its own.

        Raises:
            SandboxError: Too many are in use, or the source cannot start one.
        """
        interpreter = DockerInterpreter(self._limits, self.acquire, self.release, self._interpreters.discard)
        await interpreter.need_container()
        self._interpreters.add(interpreter)
        return interpreter

    async def acquire(self) -> Container:
        """A container nobody has used; `release` it.

        Raises:
            SandboxError: As of `open`.
        """
        if self._tasks is None:
            raise SandboxError("the sandbox is not running")
        if self._in_use >= self._limits.interpreters and not self._make_room():
            raise SandboxBusy(
                f"all {self._limits.interpreters} interpreters are in use; try again later: one is free when its task "
                f"ends or has run nothing for {self._limits.idle_s:g} s"
            )
        self._in_use += 1
        try:
            return await self.pool.take()
        except BaseException:
            self._in_use -= 1
            raise

    def _make_room(self) -> bool:
        """Tasks of agents without sessions are seldom ended; the one that has run nothing for longest gives way."""
        longest = max(self._interpreters, key=lambda each: each.idle_s, default=None)
        if longest is None or longest.idle_s < ROOM_AFTER_S:
            return False
        longest.make_room()
        return True

    def release(self, container: Container) -> None:
        """End a container that was acquired, and remove it in the background."""
        self._in_use -= 1
        self._discard(container)

    async def _start(self) -> Container:
        container = await Container.start(self._source, self._limits)
        self._containers.add(container)
        try:
            await container.until_ready()
        except SandboxError:
            self._discard(container)
            raise
        return container

    def _discard(self, container: Container) -> None:
        container.close()
        if self._tasks is not None:
            self._tasks.start_soon(self._remove, container)

    async def _remove(self, container: Container) -> None:
        # With its streams closed it ends by itself, and is then removed by the engine: this is for one that does not.
        with suppress(SandboxError):
            await self._source.remove(container.id)
            self._containers.discard(container)

    async def _look_after(self) -> None:
        while True:
            await anyio.sleep(min(LOOK_S, self._limits.idle_s / 4, self._limits.lifetime_s / 4))
            for interpreter in tuple(self._interpreters):
                interpreter.expire()
            self.pool.look_after()


class DockerBackend(ContainerBackend):
    """Containers of an engine that this process reaches itself; parameters as of `EngineSource`."""

    def __init__(self, limits: Limits, *, engine: Engine, image: str, folder: Path) -> None:
        super().__init__(limits, EngineSource(engine, image, limits, folder))
