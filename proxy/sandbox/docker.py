"""The backend that runs code in hardened containers: one for each task, out of a reserve, never given to another.

Above: whoever holds a `Backend`. Below: warm.py and container.py. Containers end by themselves when the gateway is
gone, are removed when it ends in order, and what a crash in the wrong instant left is removed at the next start.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from proxy.errors import SandboxBusy, SandboxError
from proxy.sandbox.base import Limits
from proxy.sandbox.container import Container, Engines
from proxy.sandbox.engine import GATEWAY, OWNER, Engine
from proxy.sandbox.interpreter import DockerInterpreter
from proxy.sandbox.owner import Owner, owning
from proxy.sandbox.warm import WarmPool

SHUTDOWN_S = 15.0
ROOM_AFTER_S = 60.0
"""An interpreter that has run nothing for so long gives way when all are in use."""
LOOK_S = 5.0
"""Between two looks at what is idle, too old, or dead."""

logger = logging.getLogger("toolatlas.sandbox")


class DockerBackend:
    """Hardened containers of one engine. Use inside `async with backend.running()`.

    `image` is an id or a name that the engine has; `folder` lies in the gateway's state.
    """

    name = "docker"
    language = ""

    def __init__(self, limits: Limits, *, engine: Engine, image: str, folder: Path) -> None:
        self._limits = limits
        self._engines = Engines(engine)
        self._image = image
        self._folder = folder
        self._owner: Owner | None = None
        self._tasks: TaskGroup | None = None
        self._containers: set[Container] = set()
        self._interpreters: set[DockerInterpreter] = set()
        self._in_use = 0
        self.pool = WarmPool(self._start, self._discard, limits.warm)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Containers of gateways that died are removed at the beginning, all of this one at the end.

        Raises:
            SandboxError: The state folder cannot be written.
        """
        with owning(self._folder) as self._owner:
            try:
                async with anyio.create_task_group() as self._tasks:
                    self._tasks.start_soon(self._remove_orphans)
                    self._tasks.start_soon(self._look_after)
                    self.pool.open(self._tasks)
                    try:
                        yield
                    finally:
                        self._tasks.cancel_scope.cancel()
            finally:
                self._tasks = None
                with anyio.CancelScope(shield=True):
                    await self._remove_all()
                self._engines.engine.close()

    async def open(self, task_id: str) -> DockerInterpreter:
        """An interpreter with a container of its own.

        Raises:
            SandboxError: Too many are in use, or the engine cannot start one.
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
        assert self._owner is not None
        labels = {OWNER: self._owner.id, GATEWAY: self._owner.gateway}
        # The thread cannot be stopped, so whatever it makes has to be taken note of.
        container = await Container.start(self._engines, self._image, self._limits, labels)
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
            await self._engines.do(lambda: self._engines.engine.remove(container.id))
            self._containers.discard(container)

    async def _remove_all(self) -> None:
        """Also what was about to start when the gateway ended."""
        for container in self._containers:
            container.close()
        assert self._owner is not None
        left = {container.id for container in self._containers}
        with anyio.move_on_after(SHUTDOWN_S) as limit, suppress(SandboxError):
            left |= await self._ids(self._owner.gateway)
            await self._remove_these(left)
        if limit.cancelled_caught:
            logger.warning("run_python: the Docker engine did not remove all containers in %g s", SHUTDOWN_S)
        self._containers.clear()

    async def _remove_orphans(self) -> None:
        owner = self._owner
        assert owner is not None
        try:
            owned = await self._engines.do(lambda: self._engines.engine.owned(owner.id))
            orphans = {id for id, gateway in owned.items() if owner.left_behind(gateway)}
            await self._remove_these(orphans)
        except (SandboxError, OSError) as error:
            logger.warning("run_python: containers of an earlier gateway may be left: %s", error)

    async def _ids(self, gateway: str) -> set[str]:
        owner = self._owner
        assert owner is not None
        owned = await self._engines.do(lambda: self._engines.engine.owned(owner.id), abandon=True)
        return {id for id, started_by in owned.items() if started_by == gateway}

    async def _remove_these(self, ids: set[str]) -> None:
        async def remove(id: str) -> None:
            with suppress(SandboxError):
                await self._engines.do(lambda: self._engines.engine.remove(id), abandon=True)

        async with anyio.create_task_group() as removing:
            for id in ids:
                removing.start_soon(remove, id)

    async def _look_after(self) -> None:
        while True:
            await anyio.sleep(min(LOOK_S, self._limits.idle_s / 4, self._limits.lifetime_s / 4))
            for interpreter in tuple(self._interpreters):
                interpreter.expire()
            self.pool.look_after()
