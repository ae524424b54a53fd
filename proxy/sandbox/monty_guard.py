"""Sees to it that no worker outlives the gateway, even one that is killed while code computes.

Above: embedded.py. Below: monty_reaper.py, a small program that reads a pipe whose other end nobody but the gateway
holds. An idle worker ends by itself: its input ends with the gateway.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread

from proxy.sandbox.monty_reaper import began

END_S = 5.0


class Guard:
    """Of one backend. Does nothing where there are no POSIX signals."""

    def __init__(self) -> None:
        self._reaper: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """
        Raises:
            OSError: The program cannot be started.
        """
        if os.name == "posix":
            self._reaper = await anyio.to_thread.run_sync(_start)

    def add(self, worker: int) -> None:
        self._tell(f"+{worker} {began(worker)}\n")

    def remove(self, worker: int) -> None:
        self._tell(f"-{worker}\n")

    async def end(self) -> None:
        """The workers still known are ended with it. Never raises."""
        reaper, self._reaper = self._reaper, None
        if reaper is None:
            return
        assert reaper.stdin is not None
        with suppress(OSError):
            reaper.stdin.close()
        with anyio.move_on_after(END_S, shield=True):
            while reaper.poll() is None:
                await anyio.sleep(0.01)

    def _tell(self, line: str) -> None:
        if self._reaper is not None and self._reaper.stdin is not None:
            with suppress(OSError, ValueError):
                self._reaper.stdin.write(line.encode())


def _start() -> subprocess.Popen[bytes]:
    # Neither the environment nor site-packages can change what it does, and it starts in 10 ms.
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("monty_reaper.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
        bufsize=0,
    )
