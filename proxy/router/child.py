"""One run of the router's program: its pipes, and what it has said so far.

Above: process.py, which starts it, asks it and starts it again. Below: worker.py, the program, and frames.py.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio

from proxy.router.base import Ranking
from proxy.router.frames import Unframed, frame
from proxy.router.unanswered import Why

logger = logging.getLogger("toolatlas.router")

END_S = 2.0
"""It is given to hear that its input was closed."""


class Child(asyncio.Protocol):
    """The protocol is that of its output; messages go to `heard`, each with this child."""

    def __init__(self, heard: Callable[[Child, dict[str, Any]], None]) -> None:
        self._heard = heard
        self._unframed = Unframed()
        self._process: subprocess.Popen[bytes] | None = None
        self._input: asyncio.WriteTransport | None = None
        self._output: asyncio.ReadTransport | None = None
        self._mute_since: float | None = None
        self.started = time.monotonic()
        self.ended = asyncio.Event()
        self.greeted = False
        self.waiting: dict[int, asyncio.Future[Ranking | Why]] = {}
        self.asked: dict[int, str | None] = {}
        """Number of a query -> hash of the adapter it is answered with."""
        self.servers: frozenset[str] = frozenset()
        """Keys of servers that it knows."""
        self.catalogs: list[str] = []
        """Hashes of those it was told, oldest first."""
        self.loaded: dict[str, str] = {}
        """Folder of an adapter -> its hash."""
        self.refused: dict[str, str] = {}
        """Folder of an adapter -> why it cannot be loaded."""
        self.ready: set[tuple[str, str | None]] = set()
        """Catalogue's hash and adapter's folder."""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode if self._process is not None else None

    async def attach(self, process: subprocess.Popen[bytes]) -> None:
        """Talk to this process from now on."""
        self._process = process
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._wait, args=(process, loop), name="router-process", daemon=True).start()
        self._input, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        self._output, _ = await loop.connect_read_pipe(lambda: self, process.stdout)

    def data_received(self, data: bytes) -> None:
        self._mute_since = None
        try:
            for message in self._unframed.take(data):
                self._heard(self, message)
        except (ValueError, KeyError, TypeError) as error:
            logger.error("the router's process says what cannot be understood, and is ended: %r", error)
            self.kill()

    def _wait(self, process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> None:
        """On a thread: the end of a process is nothing that its pipes tell, for others may hold them open."""
        process.wait()
        # The loop may be gone, and with it whoever wanted to know.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._exited)

    def _exited(self) -> None:
        self.ended.set()
        for future in self.waiting.values():
            if not future.done():
                future.set_result(Why.DOWN)

    def say(self, message: Mapping[str, Any] | bytes) -> None:
        if self._input is None or self._input.is_closing() or self.ended.is_set():
            return
        if self._mute_since is None:
            self._mute_since = time.monotonic()
        self._input.write(message if isinstance(message, bytes) else frame(message))

    @property
    def mute_s(self) -> float:
        """How long it has been silent although something was said to it."""
        return 0.0 if self._mute_since is None else time.monotonic() - self._mute_since

    @property
    def settled(self) -> bool:
        """Everything it was told of is ready."""
        pairs = {(hashed, adapter) for hashed in self.catalogs for adapter in (None, *self.loaded)}
        return self.greeted and pairs <= self.ready

    def kill(self) -> None:
        if (pid := self.pid) is not None and not self.ended.is_set():
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    async def end(self) -> None:
        """Tell it by closing its input, and kill it if it does not hear."""
        if self._process is None:
            return
        if self._input is not None and not self._input.is_closing():
            self._input.abort()
        with anyio.move_on_after(END_S):
            await self.ended.wait()
        self.kill()
        await self.ended.wait()
        if self._output is not None:
            self._output.close()
