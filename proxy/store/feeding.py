"""The writer as the gateway sees it: a process that is fed from the outbox, and started again when it ends.

Above: recording.py. Below: outbox.py, and writer.py as a program.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

from proxy.store.outbox import Outbox
from proxy.store.records import END
from proxy.store.streams import StreamFolder

logger = logging.getLogger("toolatlas.log")

BYTES_AT_ONCE = 256 << 10
PIPE_BYTES = 1 << 20
"""What the system keeps of it while the writer starts."""
GATHER_S = 0.01
"""What comes within it goes to the writer together."""
RESTART_S = (0.1, 10.0)
"""Pause before the writer is started again: at first, and at most."""
LINE_BYTES = 1 << 20


@dataclass(slots=True)
class Progress:
    """What the writer said last."""

    shipped: int = 0
    """Lines of the outbox that are in the tables, or known not to belong there."""
    shipped_seq: int = 0
    waiting_bytes: int = 0
    """Of the journal."""
    problem: str | None = None


class Feeder:
    """Runs writers for one stream, one after the other.

    Args:
        settings: What a writer is told first; holds secrets.
        end_s: How long a writer may take to end once nothing more comes.
    """

    def __init__(self, outbox: Outbox, folder: StreamFolder, settings: dict[str, Any], *, end_s: float) -> None:
        self._outbox = outbox
        self._folder = folder
        self._settings = settings
        self._end_s = end_s
        self._wake = anyio.Event()
        self._changed = anyio.Event()
        self._closing = False
        self._base = 0
        self.progress = Progress()
        self.pid: int | None = None
        """Of the writer that runs now."""
        self.ended = anyio.Event()
        """The last writer is gone."""

    def wake(self) -> None:
        """Something was put into the outbox."""
        self._wake.set()

    def close(self) -> None:
        """Nothing more comes."""
        self._closing = True
        self._wake.set()

    async def changed(self) -> None:
        """Wait until the writer says something, or `announce` is called."""
        await self._changed.wait()

    def announce(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def run(self) -> None:
        """Until `close` was called and what was in the outbox is with the writer, or cannot be."""
        pause_s = RESTART_S[0]
        tries_at_end = 2
        try:
            while tries_at_end:
                before = self._outbox.acknowledged_total
                told_end = await self._one_writer()
                if told_end and self._outbox.all_acknowledged:
                    return
                self._outbox.rewind()
                tries_at_end -= self._closing
                moved = self._outbox.acknowledged_total > before
                pause_s = RESTART_S[0] if moved else min(2 * pause_s, RESTART_S[1])
                self._say(f"the process that writes the log ended; it is started again in {pause_s:.1f} s")
                with anyio.move_on_after(pause_s):
                    while not self._closing:
                        await self._woken()
        finally:
            self.ended.set()
            self.announce()

    async def _one_writer(self) -> bool:
        """Whether it got everything and was told that this is the end."""
        reading, writing = _pipe()
        try:
            process = await anyio.open_process(
                # -P: what lies in the current folder is not imported.
                [sys.executable, "-P", "-m", "proxy.store.writer", self._folder.id],
                stdin=reading,
                # A traceback comes as lines that are no JSON.
                stderr=subprocess.STDOUT,
                # Neither Ctrl-C in the terminal nor the end of the gateway's process group is for it.
                start_new_session=True,
                pass_fds=(self._folder.lock,),
            )
        except OSError as error:
            self._say(f"the process that writes the log cannot be started: {error.strerror}")
            os.close(writing)
            return False
        finally:
            os.close(reading)
        self.pid = process.pid
        self._base = self._outbox.acknowledged_total
        told_end = False
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen, process, tasks.cancel_scope)
                told_end = await self._feed(writing)
                if told_end:
                    os.close(writing)
                    writing = -1
                    with anyio.move_on_after(self._end_s):
                        await process.wait()
                else:
                    await anyio.sleep_forever()
                tasks.cancel_scope.cancel()
        finally:
            self.pid = None
            if writing >= 0:
                os.close(writing)
            with anyio.CancelScope(shield=True):
                await _end(process)
        return told_end

    async def _feed(self, writing: int) -> bool:
        """Whether all went; False when the writer does not take any more."""
        try:
            await _write(writing, json.dumps(self._settings).encode() + b"\n")
            while True:
                if content := self._outbox.take(BYTES_AT_ONCE):
                    await _write(writing, content)
                elif self._closing and self._outbox.all_sent:
                    await _write(writing, END)
                    return True
                else:
                    await self._woken()
                    if not self._closing:
                        # Waking the writer costs as much as all else that is done here for a step.
                        await anyio.sleep(GATHER_S)
        except OSError:
            return False

    async def _woken(self) -> None:
        await self._wake.wait()
        self._wake = anyio.Event()

    async def _listen(self, process: Process, scope: anyio.CancelScope) -> None:
        assert process.stdout is not None
        async for line in _lines(process.stdout):
            try:
                said = json.loads(line)
            except ValueError:
                logger.error("the process that writes the log says: %s", line.decode(errors="replace"))
                continue
            if (text := said.get("warning")) is not None:
                logger.warning("%s", text)
            else:
                self._heard(said)
        await process.wait()
        scope.cancel()

    def _heard(self, said: dict[str, Any]) -> None:
        # The line that says that nothing more comes is none of the outbox.
        self._outbox.acknowledge(min(self._base + said["taken"], self._outbox.sent_total))
        progress = self.progress
        if said["shipped"] is not None:
            progress.shipped = max(progress.shipped, self._base + said["shipped"])
        progress.shipped_seq = max(progress.shipped_seq, said["shipped_seq"])
        progress.waiting_bytes = said["waiting_bytes"]
        self._say(said["problem"])
        self._wake.set()

    def _say(self, problem: str | None) -> None:
        if problem is not None and problem != self.progress.problem:
            logger.warning("log: %s", problem)
        elif problem is None and self.progress.problem is not None:
            logger.warning("log: all is well again")
        self.progress.problem = problem
        self.announce()


def _pipe() -> tuple[int, int]:
    """Ends to read and to write. What was written survives the gateway: no library keeps some of it in its memory."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(OSError):
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return reading, writing


async def _write(writing: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        try:
            left = left[os.write(writing, left) :]
        except BlockingIOError:
            await anyio.wait_writable(writing)


async def _lines(stream: ByteReceiveStream) -> AsyncIterator[bytes]:
    buffered = BufferedByteReceiveStream(stream)
    with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound, anyio.BrokenResourceError):
        while True:
            yield await buffered.receive_until(b"\n", LINE_BYTES)


async def _end(process: Process) -> None:
    """What a writer had taken is in the journal, so that nothing is lost by a kill."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    await process.wait()
    await process.aclose()
