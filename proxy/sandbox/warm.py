"""Containers that are ready before anybody needs one: no task's data is in them, and none comes back.

Above: docker.py. Below: container.py. A start takes about a second, taking one from here none.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from proxy.errors import SandboxError
from proxy.sandbox.container import Container

STARTS = 4
"""At a time; more would only slow each other down."""
RETRY_S = 15.0
"""Until another container is started in reserve, after one could not be."""

logger = logging.getLogger("toolatlas.sandbox")


@dataclass(eq=False, slots=True)
class _Waiting:
    decided: anyio.Event = field(default_factory=anyio.Event)
    container: Container | None = None
    error: SandboxError | None = None


class WarmPool:
    """`size` containers in reserve. `start` makes a ready one or raises SandboxError; `discard` ends one at once."""

    def __init__(
        self, start: Callable[[], Awaitable[Container]], discard: Callable[[Container], None], size: int
    ) -> None:
        self._start = start
        self._discard = discard
        self._size = size
        self._tasks: TaskGroup | None = None
        self._reserve: deque[Container] = deque()
        self._waiting: deque[_Waiting] = deque()
        self._starting = 0
        self._resting = False
        self.hits = 0
        """Taken without waiting."""
        self.misses = 0

    @property
    def reserve(self) -> int:
        """Containers that are ready now."""
        return len(self._reserve)

    def open(self, tasks: TaskGroup) -> None:
        """Begin to keep a reserve; starts run in `tasks`."""
        self._tasks = tasks
        self._refill()

    async def take(self) -> Container:
        """A container nobody has used.

        Raises:
            SandboxError: One had to be started, and that failed.
        """
        while self._reserve:
            container = self._reserve.popleft()
            if container.alive():
                self.hits += 1
                self._refill()
                return container
            self._discard(container)
        self.misses += 1
        mine = _Waiting()
        self._waiting.append(mine)
        self._refill()
        try:
            await mine.decided.wait()
        except anyio.get_cancelled_exc_class():
            if mine.container is not None:
                self._hand_out(mine.container)
            elif mine in self._waiting:
                self._waiting.remove(mine)
            raise
        if mine.container is None:
            assert mine.error is not None
            raise SandboxError(str(mine.error)) from mine.error
        return mine.container

    def look_after(self) -> None:
        """Replace those of the reserve that ended, as all do when the engine is restarted."""
        for container in [each for each in self._reserve if not each.alive()]:
            self._reserve.remove(container)
            self._discard(container)
        self._refill()

    def _refill(self) -> None:
        if self._tasks is None:
            return
        reserve = 0 if self._resting else self._size
        wanted = len(self._waiting) + max(0, reserve - len(self._reserve))
        while self._starting < min(wanted, STARTS):
            self._starting += 1
            self._tasks.start_soon(self._start_one)

    async def _start_one(self) -> None:
        try:
            container = await self._start()
        except SandboxError as error:
            self._starting -= 1
            await self._failed(error)
            return
        self._starting -= 1
        self._resting = False
        self._hand_out(container)
        self._refill()

    def _hand_out(self, container: Container) -> None:
        if self._waiting:
            first = self._waiting.popleft()
            first.container = container
            first.decided.set()
        else:
            self._reserve.append(container)

    async def _failed(self, error: SandboxError) -> None:
        if self._waiting:
            first = self._waiting.popleft()
            first.error = error
            first.decided.set()
            self._refill()
        elif not self._resting:
            logger.warning("run_python: no interpreter in reserve: %s", error)
            self._resting = True
            await anyio.sleep(RETRY_S)
            self._resting = False
            self._refill()
