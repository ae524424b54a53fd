"""A worker process of Monty that keeps the variables of one interpreter, and its turns, which can be ended.

Above: monty_run.py and embedded.py. Below: pydantic-monty. Its blocking interface is used, in threads: a worker that
does not come back is ended by its process id. The asynchronous one was seen to abort Python at exit, in version 1.4.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
from pydantic_monty import MontyError, MontySession

from proxy.errors import SandboxError

T = TypeVar("T")
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


class Gone(Exception):
    """The worker was ended by `kill`."""


class Worker:
    """One session in a process of its own. Used by one turn at a time."""

    def __init__(self, session: MontySession, limit_s: float, threads: anyio.CapacityLimiter) -> None:
        self.session = session
        self.limit_s = limit_s
        """What a run may compute."""
        self.process_id = session.worker_pid
        self._threads = threads
        self._in_turn = False
        self.killed = False

    async def turn(self, work: Callable[[], T]) -> T:
        """Do `work` on the session, in a thread. Cannot be cancelled; `kill` ends it.

        Raises:
            Gone: It was killed.
        """
        if self.killed:
            raise Gone
        self._in_turn = True
        try:
            return await anyio.to_thread.run_sync(work, limiter=self._threads)
        except MontyError as error:
            if self.killed:
                raise Gone from error
            raise
        finally:
            self._in_turn = False

    def alive(self) -> bool:
        """Whether the process is; Monty finds out at the next turn only."""
        if self.process_id is None or not hasattr(os, "waitid"):
            return True
        try:
            return os.waitid(os.P_PID, self.process_id, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    def memory_bytes(self) -> int | None:
        """What the process takes; None where that cannot be known."""
        try:
            pages = Path(f"/proc/{self.process_id}/statm").read_text().split()[1]
        except OSError:
            return None
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        """End the process, whatever it does, and refuse further turns."""
        self.killed = True
        # Between two turns the pool may have found it dead, and its number may be another process's by now.
        if self._in_turn and self.process_id is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.process_id, _KILL)

    async def dump(self) -> bytes:
        """The variables, as another worker takes them.

        Raises:
            SandboxError: They cannot be written; this worker may be dead.
        """
        try:
            return await self.turn(self.session.dump)
        except (MontyError, RuntimeError, Gone) as error:
            raise SandboxError(f"they could not be put aside ({error})") from error

    async def end(self) -> None:
        """Give the process up. Never raises."""
        with anyio.CancelScope(shield=True), suppress(MontyError, RuntimeError, OSError):
            await anyio.to_thread.run_sync(lambda: self.session.__exit__(None, None, None), limiter=self._threads)
