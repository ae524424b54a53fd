"""The interpreters of running tasks: one each, made at its first run, ended with the task.

Above: running.py. Below: the backend, which decides how many there may be and how long an idle one is kept.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from proxy.errors import SandboxBusy, SandboxError
from proxy.sandbox.base import Backend, Calls, Interpreter, RunResult

MAX_WAITING = 4
"""Runs of one task that wait for the one before: an agent may send several at once, which then run in order."""
CLOSE_S = 10.0
"""How long the end of the gateway waits for interpreters to end."""


@dataclass(slots=True)
class _Slot:
    """What a task has of it."""

    turn: anyio.Lock = field(default_factory=anyio.Lock)
    """Fair: runs wait in the order in which they came."""
    waiting: int = 0
    interpreter: Interpreter | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """Around the run under way."""
    ended: bool = False


class Interpreters:
    """Use inside `async with interpreters.running()`."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._slots: dict[str, _Slot] = {}
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with self.backend.running(), anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                for task_id in list(self._slots):
                    self.drop(task_id)
                self._tasks = None
                tasks.cancel_scope.deadline = anyio.current_time() + CLOSE_S

    async def run(self, task_id: str, code: str, timeout_s: float, calls: Calls, *, reset: bool = False) -> RunResult:
        """Run code with the variables of the task, or without any after a `reset`, once the runs before it are over.
        Cancelling the caller interrupts the code.

        Raises:
            SandboxError: No interpreter can be had, it failed, or the task ended meanwhile.
        """
        if self._tasks is None:
            raise SandboxError("Python cannot be run: the gateway is starting or stopping; try again")
        slot = self._slots.setdefault(task_id, _Slot())
        if slot.waiting >= MAX_WAITING:
            raise SandboxError(f"{MAX_WAITING} runs of this task wait already; run this code when one is answered")
        slot.waiting += 1
        try:
            await slot.turn.acquire()
        finally:
            slot.waiting -= 1
        try:
            with anyio.CancelScope() as slot.scope:
                if not slot.ended:
                    return await self._run(slot, task_id, code, timeout_s, calls, reset)
        finally:
            slot.turn.release()
        raise SandboxError("the task ended before the code was done; the variables are gone")

    def drop(self, task_id: str) -> None:
        """End what the task has, and what it runs."""
        slot = self._slots.pop(task_id, None)
        if slot is not None and self._tasks is not None:
            slot.ended = True
            slot.scope.cancel()
            self._tasks.start_soon(self._end, slot)

    async def _run(
        self, slot: _Slot, task_id: str, code: str, timeout_s: float, calls: Calls, reset: bool
    ) -> RunResult:
        try:
            if slot.interpreter is None:
                slot.interpreter = await self.backend.open(task_id)
            elif reset:
                await slot.interpreter.reset()
            result = await slot.interpreter.run(code, timeout_s, calls)
            # A result that comes just when nobody wants it any more is nobody's.
            await anyio.lowlevel.checkpoint_if_cancelled()
            return result
        except SandboxBusy:
            raise
        except Exception as error:
            if slot.interpreter is None:
                raise
            # It may be broken for good; the next run begins with a new one.
            await self._close(slot)
            if isinstance(error, SandboxError):
                raise SandboxError(f"{error}. The variables of the task are gone") from error
            raise

    async def _end(self, slot: _Slot) -> None:
        async with slot.turn:
            await self._close(slot)

    async def _close(self, slot: _Slot) -> None:
        if slot.interpreter is not None:
            interpreter, slot.interpreter = slot.interpreter, None
            await interpreter.close()
