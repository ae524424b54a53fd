"""Containers of an engine that this process reaches itself, and how none of them is left behind.

Above: docker.py in a gateway, broker/server.py in a broker. Below: engine.py in worker threads, and owner.py.
Containers end by themselves when the process that holds their streams is gone, are removed when it ends in order, and
what a crash in the wrong instant left is removed at the next start.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from proxy.catalog.text import one_line
from proxy.errors import SandboxError
from proxy.sandbox.base import Limits
from proxy.sandbox.engine import GATEWAY, OWNER, Engine
from proxy.sandbox.owner import Owner, owning
from proxy.sandbox.source import Started, State

ENDED_S = 3.0
"""For the engine to know why a container ended, after its streams did."""
SHUTDOWN_S = 15.0
THREADS = 8
"""Requests to the engine at a time."""

T = TypeVar("T")

logger = logging.getLogger("toolatlas.sandbox")


class EngineSource:
    """A `Source`. `image` is an id or a name that the engine has; `folder` lies in the state of this process."""

    name = "the Docker engine"

    def __init__(self, engine: Engine, image: str, limits: Limits, folder: Path) -> None:
        self._engine = engine
        self._image = image
        self._limits = limits
        self._folder = folder
        self._owner: Owner | None = None
        self._started: set[str] = set()
        """And not removed."""
        self._threads = anyio.CapacityLimiter(THREADS)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Containers of processes that died are removed at the beginning, all of this one at the end.

        Raises:
            SandboxError: The state folder cannot be written.
        """
        with owning(self._folder) as owner:
            self._owner = owner
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._remove_orphans, owner)
                    yield
                    tasks.cancel_scope.cancel()
            finally:
                with anyio.CancelScope(shield=True):
                    await self._remove_all(owner)
                self._owner = None
                self._engine.close()

    async def start(self) -> Started:
        """See `Source`."""
        owner = self._owner
        if owner is None:
            raise SandboxError("the sandbox is not running")
        labels = {OWNER: owner.id, GATEWAY: owner.gateway}
        # The thread cannot be stopped, so whatever it makes has to be taken note of.
        started = await self._do(lambda: self._engine.start(self._image, self._limits, labels))
        self._started.add(started.id)
        return started

    async def fate(self, container: str) -> State | None:
        """See `Source`."""
        with anyio.move_on_after(ENDED_S):
            # The engine learns of the end a moment after the streams have ended, and forgets a little later.
            while True:
                state = await self._do(lambda: self._engine.state(container), abandon=True)
                if state is None or not state.running:
                    return state
                await anyio.sleep(0.02)
        return State(running=True, out_of_memory=False, exit_code=0)

    async def remove(self, container: str) -> None:
        """See `Source`."""
        await self._do(lambda: self._engine.remove(container))
        self._started.discard(container)

    async def _remove_all(self, owner: Owner) -> None:
        """Also what was about to start at the end."""
        left, self._started = self._started, set()
        with anyio.move_on_after(SHUTDOWN_S) as limit, suppress(SandboxError):
            owned = await self._do(lambda: self._engine.owned(owner.id), abandon=True)
            left |= {id for id, started_by in owned.items() if started_by == owner.gateway}
            await self._remove_these(left)
        if limit.cancelled_caught:
            logger.warning("run_python: the Docker engine did not remove all containers in %g s", SHUTDOWN_S)

    async def _remove_orphans(self, owner: Owner) -> None:
        try:
            owned = await self._do(lambda: self._engine.owned(owner.id))
            await self._remove_these({id for id, started_by in owned.items() if owner.left_behind(started_by)})
        except (SandboxError, OSError) as error:
            logger.warning("run_python: containers of an earlier gateway may be left: %s", error)

    async def _remove_these(self, ids: set[str]) -> None:
        async def remove(id: str) -> None:
            with suppress(SandboxError):
                await self._do(lambda: self._engine.remove(id), abandon=True)

        async with anyio.create_task_group() as removing:
            for id in ids:
                removing.start_soon(remove, id)

    async def _do(self, call: Callable[[], T], *, abandon: bool = False) -> T:
        """One of the engine's blocking calls. Cancelled, one that has begun is waited for unless it may be abandoned.

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
