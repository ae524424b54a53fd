"""Sees to it that no server outlives the gateway, even one killed with SIGKILL: every group is known to a reaper.

Above: process.py, and proxy/hosting for the servers of other processes. Below: launcher.py and reaper.py, two small
programs. The reaper runs only while there are servers, in a session of its own, and reads a pipe whose other end nobody
but the gateway, or the host, holds (docs/decisions/0013).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import Process

HERE = Path(__file__).parent
# Neither the environment nor site-packages can change what these two do, and they start in 10 ms.
PYTHON = (sys.executable, "-I", "-S")
REAPER_END_S = 5.0
Stdio = tuple[int, int, int]
PIPES: Stdio = (subprocess.PIPE, subprocess.PIPE, subprocess.PIPE)


class Orphans:
    """The process groups of one gateway. `graces_s`: seconds after the end of stdin, SIGTERM and SIGKILL."""

    def __init__(self, graces_s: tuple[float, float, float]) -> None:
        self._graces_s = graces_s
        self._groups: set[int] = set()
        self._starting = 0
        self._reaper: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    @property
    def reaper_pid(self) -> int | None:
        """While there are servers."""
        return self._reaper.pid if self._reaper is not None else None

    async def start(
        self, command: str, args: tuple[str, ...], env: Mapping[str, str], cwd: str | None, stdio: Stdio = PIPES
    ) -> Process:
        """Start a server as the leader of a process group that is registered before the server runs. `stdio` are
        descriptors for its standard streams, which stay the caller's to close.

        Not to be cancelled: shield it.

        Raises:
            OSError: The command cannot be started.
        """
        self._starting += 1
        try:
            self._need_reaper()
            process = await self._launch([command, *args], env, cwd, stdio)
            self._groups.add(process.pid)
            return process
        finally:
            self._starting -= 1
            await self._part_with_reaper()

    async def ended(self, process: Process) -> None:
        """Nothing of this server's group is left."""
        self._groups.discard(process.pid)
        self._tell(f"-{process.pid}\n")
        await self._part_with_reaper()

    async def _launch(self, command: list[str], env: Mapping[str, str], cwd: str | None, stdio: Stdio) -> Process:
        stdin, stdout, stderr = stdio
        status, status_of_child = os.pipe()
        try:
            launcher = [*PYTHON, str(HERE / "launcher.py"), str(self._pipe), str(status_of_child)]
            try:
                process = await anyio.open_process(
                    [*launcher, "1" if "LC_CTYPE" in env else "0", *command],
                    env=env,
                    cwd=cwd,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    start_new_session=True,
                    pass_fds=(self._pipe, status_of_child),
                )
            finally:
                os.close(status_of_child)
            await anyio.wait_readable(status)
            problem = os.read(status, 16)
        finally:
            os.close(status)
        if problem:
            await process.aclose()
            self._tell(f"-{process.pid}\n")
            raise OSError(int(problem), os.strerror(int(problem)), command[0])
        return process

    def _need_reaper(self) -> None:
        if self._reaper is not None and self._reaper.poll() is None:
            return
        read, write = os.pipe()
        try:
            reaper = subprocess.Popen(
                [*PYTHON, str(HERE / "reaper.py"), *map(str, self._graces_s)],
                stdin=read,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            os.close(write)
            raise
        finally:
            os.close(read)
        if self._reaper is not None:
            # Somebody killed it; the next one has to know all that it knew.
            os.close(self._pipe)
        self._reaper, self._pipe = reaper, write
        self._tell("".join(f"+{group}\n" for group in self._groups))

    async def _part_with_reaper(self) -> None:
        if self._groups or self._starting or self._reaper is None:
            return
        reaper, self._reaper = self._reaper, None
        os.close(self._pipe)
        with anyio.move_on_after(REAPER_END_S, shield=True):
            while reaper.poll() is None:
                await anyio.sleep(0.01)

    def _tell(self, lines: str) -> None:
        with suppress(BrokenPipeError):
            os.write(self._pipe, lines.encode())
