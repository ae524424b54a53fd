"""The backend that runs code in Monty, an interpreter without a way out, in worker processes: needs no engine.

Above: whoever holds a `Backend`. Below: monty_interpreter.py. The variables of an interpreter that is not used are put
aside, and its process given up; they are taken up again at its next run.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial

import anyio
import anyio.to_thread
from pydantic_monty import Monty, MontyError, MontySession

from proxy.errors import SandboxBusy, SandboxError
from proxy.sandbox.base import Limits
from proxy.sandbox.gaps import LANGUAGE
from proxy.sandbox.monty_guard import Guard
from proxy.sandbox.monty_interpreter import MontyInterpreter
from proxy.sandbox.monty_worker import Worker
from proxy.sandbox.rewriting import PRELUDE

CHECKOUT_S = 20.0
LOOK_S = 5.0
"""Between two looks at what is idle."""
MOST_ASIDE_BYTES, MOST_ASIDE = 1024**3, 200
"""Of variables that wait for their task's next run without a process, over all tasks."""
SUSPENSIONS = 2**31 - 1
"""Of Monty's own count, which runs over the whole life of a worker; `Limits.calls` counts those of a run."""


class EmbeddedBackend:
    """Monty in worker processes. Use inside `async with backend.running()`."""

    name = "embedded"
    language = LANGUAGE

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._interpreters: set[MontyInterpreter] = set()
        self._pool: Monty | None = None
        self._guard = Guard()
        self._threads = anyio.CapacityLimiter(limits.interpreters + 2)
        self.workers = 0
        """Processes that keep variables now."""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """
        Raises:
            SandboxError: Monty's program is missing or cannot be started.
        """
        try:
            await self._guard.start()
            pool = await anyio.to_thread.run_sync(self._open_pool)
        except (MontyError, OSError, RuntimeError) as error:
            raise SandboxError(f"the embedded interpreter cannot be started: {error}") from error
        try:
            async with anyio.create_task_group() as tasks:
                self._pool = pool
                tasks.start_soon(self._put_idle_aside)
                try:
                    yield
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            self._pool = None
            with anyio.CancelScope(shield=True):
                for interpreter in tuple(self._interpreters):
                    await interpreter.close()
                await anyio.to_thread.run_sync(lambda: pool.__exit__(None, None, None))
                await self._guard.end()

    async def open(self, task_id: str) -> MontyInterpreter:
        """
        Raises:
            SandboxError: All interpreters are busy.
        """
        interpreter = MontyInterpreter(self._limits, self.start, self.end, self._interpreters.discard)
        self._interpreters.add(interpreter)
        return interpreter

    async def start(self, limit_s: float, load: Callable[[MontySession], None] | None) -> Worker:
        """A worker with the variables that `load` takes up, or with none, whose runs compute for at most `limit_s`.
        `end` it.

        Raises:
            SandboxError: All are busy, or none can be started.
            MontyError: It does not take the variables.
        """
        while self.workers >= self._limits.interpreters:
            idle = [each for each in self._interpreters if each.idle_since is not None]
            if not idle:
                raise SandboxBusy(f"all {self._limits.interpreters} interpreters are busy; try again in a moment")
            await min(idle, key=lambda each: each.idle_since or 0.0).put_aside()
            await self._keep_within_bounds()
        if self._pool is None:
            raise SandboxError("the sandbox is not running")
        session = self._checkout(self._pool, limit_s)
        self.workers += 1
        worker = None
        try:
            await anyio.to_thread.run_sync(session.__enter__, limiter=self._threads)
            worker = Worker(session, limit_s, self._threads)
            if worker.process_id is not None:
                self._guard.add(worker.process_id)
            load = self._prepare if load is None else load
            await worker.turn(partial(load, session))
            return worker
        except BaseException as error:
            self.workers -= 1
            if worker is not None:
                await self._give_up(worker)
            if isinstance(error, TimeoutError | OSError):
                raise SandboxError(f"no interpreter can be started: {error}") from error
            raise

    async def end(self, worker: Worker) -> None:
        self.workers -= 1
        await self._give_up(worker)

    async def _give_up(self, worker: Worker) -> None:
        await worker.end()
        if worker.process_id is not None:
            self._guard.remove(worker.process_id)

    def _prepare(self, session: MontySession) -> None:
        session.feed_run(PRELUDE.replace("{kept}", str(self._limits.output_kept)))

    def _open_pool(self) -> Monty:
        limits = self._limits
        pool = Monty(
            min_processes=min(limits.warm, limits.interpreters),
            max_processes=limits.interpreters,
            checkout_timeout=CHECKOUT_S,
            # A process is never given to another task, although Monty would forget the variables.
            max_checkouts_per_worker=1,
            feed_duration_limit_grace=max(limits.grace_s, 0.1),
        )
        return pool.__enter__()

    def _checkout(self, pool: Monty, limit_s: float) -> MontySession:
        return pool.checkout(
            limits={
                "max_memory": self._limits.memory_bytes,
                "max_feed_duration_secs": limit_s,
                "max_suspensions": SUSPENSIONS,
            }
        )

    async def _put_idle_aside(self) -> None:
        while True:
            await anyio.sleep(min(LOOK_S, self._limits.idle_s / 4))
            before = time.monotonic() - self._limits.idle_s
            for interpreter in tuple(self._interpreters):
                if interpreter.idle_since is not None and interpreter.idle_since <= before:
                    await interpreter.put_aside()
            await self._keep_within_bounds()

    async def _keep_within_bounds(self) -> None:
        """Tasks of agents without sessions are seldom ended, and each may leave variables behind."""
        aside = sorted((each for each in self._interpreters if each.aside_bytes), key=lambda each: each.last_used)
        too_old = time.monotonic() - self._limits.lifetime_s
        size, count = sum(each.aside_bytes for each in aside), len(aside)
        for interpreter in aside:
            if interpreter.last_used < too_old:
                reason = f"no code was run for {self._limits.lifetime_s:g} s"
            elif size > MOST_ASIDE_BYTES or count > MOST_ASIDE:
                reason = "they made room for those of other tasks"
            else:
                continue
            size, count = size - interpreter.aside_bytes, count - 1
            await interpreter.drop_aside(reason)
