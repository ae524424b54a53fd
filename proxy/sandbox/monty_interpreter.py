"""The interpreter of one task in Monty: which worker it has now, and what became of the variables.

Above: embedded.py, which starts workers. Below: monty_run.py. Variables are put aside to give a process up, and to give
a run another time limit: Monty takes its limits when a worker begins.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import IO

import anyio
import anyio.to_thread
from pydantic_monty import MontyError, MontySession

from proxy.errors import SandboxError
from proxy.sandbox.base import Calls, Failure, Limits, RunResult, Status
from proxy.sandbox.monty_run import Checkpoint, MontyRun, may_dump
from proxy.sandbox.monty_tracebacks import Cells
from proxy.sandbox.monty_worker import Worker
from proxy.sandbox.rewriting import rewrite

IN_MEMORY = 1024 * 1024
"""Bytes of variables put aside that stay in memory; larger ones go to a file without a name."""


class MontyInterpreter:
    """Made by `EmbeddedBackend.open`; `start`, `end` and `forget` are the backend's. Its process is there from its
    first run on, with gaps while it is idle."""

    def __init__(
        self,
        limits: Limits,
        start: Callable[[float, Callable[[MontySession], None] | None], Awaitable[Worker]],
        end: Callable[[Worker], Awaitable[None]],
        forget: Callable[[MontyInterpreter], None],
    ) -> None:
        self._start = start
        self._end = end
        self._forget = forget
        self._limits = limits
        self._turn = anyio.Lock(fast_acquire=True)
        self._worker: Worker | None = None
        self._aside: IO[bytes] | None = None
        """The variables while there is no process. Nobody else has the file, so that it can be trusted."""
        self.aside_bytes = 0
        self._cells = Cells()
        self._bound: frozenset[str] = frozenset()
        self._run: MontyRun | None = None
        self._closed = False
        self._used = False
        self._lost: str | None = None
        """Why variables are gone, until a run has said so."""
        self._born = self._last_used = time.monotonic()

    @property
    def process_id(self) -> int | None:
        """None while it has no process."""
        return None if self._worker is None else self._worker.process_id

    @property
    def idle_since(self) -> float | None:
        """On the monotonic clock; None while it runs, and while it has no process."""
        return None if self._worker is None or self._turn.locked() else self._last_used

    async def run(self, code: str, timeout_s: float, calls: Calls) -> RunResult:
        """Run code for at most `timeout_s`, and no longer than the limits allow. See `Interpreter`.

        Raises:
            SandboxError: No process can be had now, or Monty failed.
        """
        if (size := len(code.encode("utf-8", "replace"))) > self._limits.code_bytes:
            text = f"the code has {size:,} bytes; {self._limits.code_bytes:,} are the most"
            return RunResult(status=Status.ERROR, failure=Failure("ValueError", text))
        async with self._turn:
            if self._closed:
                raise SandboxError("the interpreter is closed")
            timeout_s = min(timeout_s, self._limits.max_run_s)
            code = code.encode("utf-8", "replace").decode()
            worker, before = await self._sound_worker(timeout_s)
            servers = frozenset(calls.servers) - self._bound
            rewritten = await anyio.to_thread.run_sync(lambda: rewrite(code, servers))
            self._bound |= rewritten.bound
            timeout_s = min(timeout_s, worker.limit_s)
            self._run = run = MontyRun(worker, self._cells, rewritten, timeout_s, calls, self._limits, before)
            try:
                await run.perform()
            except (MontyError, RuntimeError, ValueError) as error:
                raise SandboxError(f"the embedded interpreter failed: {error}") from error
            finally:
                with anyio.CancelScope(shield=True):
                    self._run = None
                    self._last_used = time.monotonic()
                    await self._settle(run, timeout_s)
            assert run.result is not None
            return self._with_losses(run.result)

    async def reset(self) -> None:
        """Forget all variables.

        Raises:
            SandboxError: The interpreter is closed.
        """
        async with self._turn:
            if self._closed:
                raise SandboxError("the interpreter is closed")
            await self._let_go()
            self._used, self._lost = False, None

    async def close(self) -> None:
        """End it for good; a run in progress ends with it. Never raises."""
        self._closed = True
        self._forget(self)
        with anyio.CancelScope(shield=True):
            if self._run is not None and self._worker is not None:
                self._run.stop(Status.CANCELLED)
                self._worker.kill()
            async with self._turn:
                await self._let_go()

    async def put_aside(self) -> None:
        """Keep the variables, but not the process; they are lost where they take most of the memory limit."""
        async with self._turn:
            await self._put_aside()

    @property
    def last_used(self) -> float:
        """On the monotonic clock."""
        return self._last_used

    async def drop_aside(self, reason: str) -> None:
        """Forget variables that were put aside, unless they are being taken up."""
        if self._aside is not None and not self._turn.locked():
            await self._lose(reason)

    async def _settle(self, run: MontyRun, limit_s: float) -> None:
        """See to what a run has left of the process."""
        result, worker = run.result, self._worker
        if result is None or not result.kept:
            await self._lose("" if result is None else result.lost_because or "")
        elif worker is not None and worker.killed and run.checkpoint is not None and not self._closed:
            await self._let_go()
            if not run.checkpoint.within:
                self._cells.take_back()
            try:
                self._worker = await self._start(limit_s, run.checkpoint.load)
            except (SandboxError, MontyError, RuntimeError):
                lost = f"the code did not stop within {self._limits.grace_s:g} s of being interrupted"
                run.result = replace(result, kept=False, lost_because=lost)
                await self._lose(lost)

    async def _put_aside(self) -> None:
        worker = self._worker
        if worker is None:
            return
        try:
            variables = await worker.dump()
        except SandboxError as error:
            await self._lose(str(error))
            return
        self._worker = None
        await self._end(worker)
        try:
            self._aside = await anyio.to_thread.run_sync(_written, variables)
            self.aside_bytes = len(variables)
        except OSError as error:
            await self._lose(f"they could not be put aside ({error})")

    async def _sound_worker(self, limit_s: float) -> tuple[Worker, Checkpoint | None]:
        """A worker that lives, and the variables in it where they are small."""
        worker = await self._ready_worker(limit_s)
        try:
            before = Checkpoint(await worker.turn(worker.session.dump)) if may_dump(worker) else None
        except (MontyError, RuntimeError):
            await self._lose("its process died between two runs")
            worker, before = await self._ready_worker(limit_s), None
        return worker, before

    async def _ready_worker(self, limit_s: float) -> Worker:
        """The worker; another one with the same variables when its limit is not this run's, or it is too old."""
        worker = self._worker
        if worker is not None and not worker.alive():
            await self._lose("its process died between two runs")
        elif worker is not None and self._may_move(worker):
            too_old = time.monotonic() - self._born > self._limits.lifetime_s
            if worker.limit_s != limit_s or too_old:
                await self._put_aside()
        if self._worker is None:
            variables, self._aside = self._aside, None
            self.aside_bytes = 0
            try:
                self._worker = await self._taken_up(limit_s, variables)
            except MontyError as error:
                raise SandboxError(f"the embedded interpreter cannot be started: {error}") from error
            self._born = time.monotonic()
        return self._worker

    def _may_move(self, worker: Worker) -> bool:
        """Whether there is room to write the variables down: else they stay in their process, and the run gets the time
        limit of the ones before it."""
        memory = worker.memory_bytes()
        return memory is None or memory <= self._limits.memory_bytes / 3

    async def _taken_up(self, limit_s: float, variables: IO[bytes] | None) -> Worker:
        if variables is not None:
            content = b""
            try:
                content = await anyio.to_thread.run_sync(_read, variables)
                worker = await self._start(limit_s, lambda session: session.load_session(content))
                variables.close()
                return worker
            except SandboxError:
                self._aside, self.aside_bytes = variables, len(content)
                raise
            except (MontyError, RuntimeError, OSError) as error:
                variables.close()
                self._lost = f"they could not be taken up again ({error})"
        self._cells, self._bound = Cells(), frozenset()
        return await self._start(limit_s, None)

    def _with_losses(self, result: RunResult) -> RunResult:
        """Add what this run has to say of the variables before it."""
        before, used = self._lost, self._used
        self._used = True
        if not result.kept:
            return result
        self._lost = None
        return replace(result, lost_because=before if used else None)

    async def _lose(self, reason: str) -> None:
        self._lost, self._used = reason or "a run was broken off", True
        await self._let_go()

    async def _let_go(self) -> None:
        """Of the process and of what was put aside. The next run begins with new ones."""
        with anyio.CancelScope(shield=True):
            worker, self._worker = self._worker, None
            aside, self._aside = self._aside, None
            self.aside_bytes = 0
            if aside is not None:
                aside.close()
            if worker is not None:
                await self._end(worker)


def _written(variables: bytes) -> IO[bytes]:
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed by the interpreter
    try:
        file.write(variables)
    except OSError:
        file.close()
        raise
    return file


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()
