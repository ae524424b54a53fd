"""The interpreter as the supervisor holds it: a process, its socket and its output, never waited for while it lives."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable

from frames import MAX_TEXT, Lines
from output import Output

CHUNK = 256 * 1024
PIPE = 1024 * 1024
"""Bytes that a pipe holds at most."""
ENDING_S = 0.05
"""From the end of a process's socket to its own."""


class Child:
    """One interpreter process."""

    def __init__(self, pid: int, sock: socket.socket, out: int) -> None:
        self.pid = pid
        self.sock = sock
        self.out: int | None = out
        self.ready = False
        self.status: int | None = None
        """Of waitpid, once it has ended."""
        self.value: str | None = None
        """Sent ahead of the frame that ends a run."""
        self.unsent = bytearray()
        self.lines = Lines(MAX_TEXT)
        os.set_blocking(out, False)
        sock.setblocking(False)

    @classmethod
    def start(cls, fork: Callable[[], int], become: Callable[[socket.socket, int], None]) -> "Child":
        """`become` is called in the new process, with its end of the socket and of the pipe for its output."""
        ours, theirs = socket.socketpair()
        out, printed = os.pipe()
        pid = fork()
        if pid == 0:
            try:
                ours.close()
                os.close(out)
                become(theirs, printed)
            finally:
                os._exit(1)
        theirs.close()
        os.close(printed)
        return cls(pid, ours, out)

    def send(self, line: bytes) -> None:
        self.unsent += line
        self.flush()

    def flush(self) -> None:
        try:
            while self.unsent:
                del self.unsent[: self.sock.send(self.unsent[:CHUNK])]
        except BlockingIOError:
            pass
        except OSError:
            # It is ending; whoever reads from it will notice.
            self.unsent.clear()

    def receive(self) -> bytes | None:
        """What has come, nothing at its end, None if there is nothing now."""
        try:
            return self.sock.recv(CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def read_output(self, output: Output, at_most: int = CHUNK) -> None:
        """Stops where nothing more has been printed by now."""
        while self.out is not None and at_most > 0:
            try:
                data = os.read(self.out, min(at_most, CHUNK))
            except BlockingIOError:
                return
            if not data:
                os.close(self.out)
                self.out = None
            output.add(data)
            at_most -= len(data)

    def interrupt(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)

    def ended_by_itself(self) -> bool:
        """Whether the process is gone; its socket may end a moment earlier."""
        until = time.monotonic() + ENDING_S
        while self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
            elif time.monotonic() > until:
                return False
            else:
                time.sleep(0.001)
        return True

    def wait(self) -> int:
        """Its status, once it has been ended."""
        if self.status is None:
            _, self.status = os.waitpid(self.pid, 0)
        return self.status

    def close(self) -> None:
        self.sock.close()
        if self.out is not None:
            os.close(self.out)
            self.out = None
