"""One run of an agent's code in Monty: its calls, its deadlines, and how it ended.

Above: monty_interpreter.py. Below: monty_worker.py runs the code a turn at a time; between two turns the code waits for
what monty_calls.py answers. Monty's own clock stands still then, so the deadline is kept here: what is under way is
cancelled and `KeyboardInterrupt` raised in the code, and code that does not end then is ended with its process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import anyio
from pydantic_monty import (
    FunctionSnapshot,
    FutureSnapshot,
    MontyComplete,
    MontyCrashedError,
    MontyRuntimeError,
    MontySession,
    MontySyntaxError,
    NameLookupSnapshot,
)

from proxy.sandbox.base import Calls, Failure, Limits, RunResult, Status
from proxy.sandbox.capture import Capture
from proxy.sandbox.monty_calls import INTERRUPT, Outside, Snapshot
from proxy.sandbox.monty_tracebacks import Cells, failure_of
from proxy.sandbox.monty_values import server_object
from proxy.sandbox.monty_worker import Gone, Worker
from proxy.sandbox.rewriting import Rewritten

LOOK_S = 0.25
"""Between two looks at whether the process is alive while the code waits."""
INTERRUPTS = 20
"""Of code that is taken up again only to be ended."""
CHECKPOINT_BYTES = 256 * 1024
"""A run whose variables take more makes no further one: each costs a millisecond by then."""
PROCESS_BYTES = 32 * 1024 * 1024
"""Nor does a process that takes more: to write its variables down could be too much for its memory limit."""
MARGIN_S = 0.25
"""Beyond the grace, for code that Monty stops at the same deadline by itself."""
ROOM = 16
"""After a MemoryError variables are kept if a part of the memory as large as this says can still be had."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Variables as another worker takes them, from before a run or, with `within`, from where its code waits."""

    state: bytes
    within: bool = False

    def load(self, session: MontySession) -> None:
        """Blocking. Code that waits is interrupted there.

        Raises:
            MontyError: It cannot be taken up, or the code does not end.
        """
        if not self.within:
            session.load_session(self.state)
            return
        snapshot = session.load_snapshot(self.state)
        for _ in range(INTERRUPTS):
            try:
                match snapshot:
                    case MontyComplete():
                        return
                    case FutureSnapshot():
                        snapshot = snapshot.resume(dict.fromkeys(snapshot.pending_call_ids, INTERRUPT))
                    case NameLookupSnapshot():
                        snapshot = snapshot.resume()
                    case FunctionSnapshot():
                        snapshot = snapshot.resume(INTERRUPT)
            except MontyRuntimeError:
                return
        raise RuntimeError("the code does not end")


@dataclass(frozen=True, slots=True)
class _End:
    status: Status
    value: str | None = None
    failure: Failure | None = None
    lost: str | None = None
    """Why the variables are."""


def may_dump(worker: Worker) -> bool:
    """Whether a checkpoint is cheap, and does not run into the memory limit."""
    memory = worker.memory_bytes()
    return memory is not None and memory <= PROCESS_BYTES


class MontyRun:
    """Performed once. `result` is there when it is over, also if the caller was cancelled."""

    def __init__(
        self,
        worker: Worker,
        cells: Cells,
        code: Rewritten,
        timeout_s: float,
        calls: Calls,
        limits: Limits,
        checkpoint: Checkpoint | None,
    ) -> None:
        """`checkpoint`: the variables before the run, where they were taken."""
        self.result: RunResult | None = None
        self._worker = worker
        self._cells = cells
        self._code = code
        self._timeout_s = timeout_s
        self._calls = calls
        self._limits = limits
        self._capture = Capture(limits.output_kept)
        self._outside: Outside | None = None
        self._limit = anyio.CancelScope()
        self._stopped: Status | None = None
        self._stopping = anyio.Event()
        self.checkpoint: Checkpoint | None = checkpoint
        """How to go back to when the code last waited, if it had to be ended with its process."""

    async def perform(self) -> RunResult:
        """Cancelling the caller stops the code; this returns when it has ended."""
        over = anyio.Event()
        failures: list[Exception] = []

        async def drive() -> None:
            with anyio.CancelScope(shield=True):
                try:
                    self.result = await self._drive()
                except Exception as error:
                    failures.append(error)
                finally:
                    over.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drive)
            try:
                await over.wait()
            except anyio.get_cancelled_exc_class():
                self.stop(Status.CANCELLED)
                raise
        if self.result is None:
            raise failures[0]
        return self.result

    def stop(self, status: Status) -> None:
        """Cancel what the code waits for, and interrupt it; the first reason counts."""
        if self._stopped is None:
            self._stopped = status
            self._stopping.set()
            if self._outside is not None:
                self._outside.interrupt()

    async def _drive(self) -> RunResult:
        started = time.monotonic()
        self._limit.deadline = anyio.current_time() + self._timeout_s
        self._calls.on_extend = self._extend
        tasks = anyio.create_task_group()
        self._outside = outside = Outside(self._calls, self._cells, self._limits, tasks, self._capture.add)
        if self._stopped is not None:
            outside.interrupt()
        ended: _End | Exception = _End(Status.DIED)
        async with tasks:
            tasks.start_soon(self._watch)
            try:
                ended = await self._ended(outside)
            except Exception as error:  # Out of the task group, which would wrap it.
                ended = error
            tasks.cancel_scope.cancel()
        if isinstance(ended, Exception):
            raise ended
        return RunResult(
            status=ended.status,
            output=self._capture.output(),
            value=ended.value,
            failure=ended.failure,
            calls=outside.allowance.made,
            seconds=time.monotonic() - started,
            kept=ended.lost is None,
            lost_because=ended.lost,
        )

    def _extend(self, seconds: float) -> None:
        self._limit.deadline += seconds

    async def _watch(self) -> None:
        with self._limit:
            while not self._stopping.is_set() and self._worker.alive():
                with anyio.move_on_after(LOOK_S):
                    await self._stopping.wait()
            if not self._worker.alive():
                # The code cannot go on; what it waits for is of no use.
                self.stop(Status.DIED)
        self.stop(Status.TIMEOUT)
        await anyio.sleep(self._limits.grace_s + MARGIN_S)
        self._worker.kill()

    async def _ended(self, outside: Outside) -> _End:
        try:
            value = await self._turns(outside)
        except Gone:
            if (checkpoint := self.checkpoint) is not None:
                since = "at its last tool call" if checkpoint.within else "before this run"
                text = f"the code did not stop when it was interrupted; the variables are as they were {since}"
                return _End(self._stopped or Status.DIED, failure=Failure("KeyboardInterrupt", text))
            lost = f"the code did not stop within {self._limits.grace_s:g} s of being interrupted"
            return _End(self._stopped or Status.DIED, lost=lost)
        except MontyCrashedError as error:
            if error.timed_out:
                return _End(Status.TIMEOUT, lost="the code did not stop at its time limit")
            return _End(self._stopped or Status.DIED, lost=f"its process died: {error}")
        except MontySyntaxError as error:
            return _End(Status.ERROR, failure=failure_of(error, self._cells, outside.errors))
        except MontyRuntimeError as error:
            return await self._raised(error, failure_of(error, self._cells, outside.errors))
        return _End(self._stopped or Status.OK, value)

    async def _raised(self, error: MontyRuntimeError, failure: Failure) -> _End:
        match error.exception():
            case SystemExit() as end if str(end) in ("", "0", "None"):
                return _End(self._stopped or Status.OK)
            case TimeoutError() if "time limit exceeded" in failure.message:
                failure = replace(failure, message=f"stopped after {self._timeout_s:g} s")
                return _End(self._stopped or Status.TIMEOUT, failure=failure)
            case MemoryError() if not await self._has_room():
                return _End(Status.DIED, failure=failure, lost="the memory was full")
            case _:
                return _End(self._stopped or Status.ERROR, failure=failure)

    async def _has_room(self) -> bool:
        probe = f"len('x' * {self._limits.memory_bytes // ROOM})"
        self._cells.skip()
        try:
            await self._worker.turn(lambda: self._worker.session.feed_run(probe))
        except (MontyRuntimeError, MontyCrashedError, Gone):
            return False
        return True

    async def _turns(self, outside: Outside) -> str | None:
        session = self._worker.session
        self._cells.add(self._code)

        # Where Monty cannot suspend, in the key function of a sort for instance, it takes a name that it has to ask for
        # as one that is not there.
        servers = {name: server_object(name) for name in self._code.servers}

        def begin() -> Snapshot:
            return session.feed_start(
                self._code.source, inputs=servers, print_callback=lambda _, text: self._capture.add(text)
            )

        snapshot = await self._worker.turn(begin)
        while not isinstance(snapshot, MontyComplete):
            if not isinstance(snapshot, NameLookupSnapshot):
                await self._take_checkpoint(snapshot.dump)
            snapshot = await self._worker.turn(await outside.answer(snapshot))
        complete = snapshot
        value = await self._worker.turn(lambda: self._value(complete.output))
        return value if value is None else outside.texts.get(value, value)

    async def _take_checkpoint(self, dump: Callable[[], bytes]) -> None:
        before, self.checkpoint = self.checkpoint, None
        cheap = before is not None and len(before.state) <= CHECKPOINT_BYTES
        if cheap and self._stopped is None and may_dump(self._worker):
            self.checkpoint = Checkpoint(await self._worker.turn(dump), within=True)

    def _value(self, output: Any) -> str | None:
        match output:
            case None:
                return None
            case [int(), str(text)]:
                return text[: self._limits.output_kept]
            case str() | int() | float():
                return str(output)[: self._limits.output_kept]
            case _:
                # Only where the code has replaced what shows values. Its repr may be larger than any memory.
                return f"<{type(output).__name__}>"
