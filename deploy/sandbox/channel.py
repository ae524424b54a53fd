"""The interpreter's end of the socket to the supervisor: calls that wait for their replies, in any thread."""

import _thread
import itertools
import json
import os
import signal
import socket
import threading

from frames import MAX_CALL, MAX_NAME

CHUNK = 256 * 1024

NOT_RUNNING = (
    "Tools can only be called while code is running. This call came from a thread that an earlier run left behind."
)
FORKED = (
    "Tools can only be called from the interpreter's own process, not from one that the code has started. "
    "Use threads: parallel(fn, items)."
)
STOPPED = {
    "timeout": "The time of this run is up: no more tools are called.",
    "cancelled": "This run was cancelled: no more tools are called.",
}
ENDED = "The run ended before this call was answered."


class ToolError(Exception):
    """A tool has failed or was refused. `tool` is its name as the code wrote it, such as "git.log"."""

    __module__ = "builtins"  # Tracebacks name it as the code does.

    def __init__(self, message: str = "", tool: str | None = None) -> None:
        super().__init__(message)
        self.tool = tool


class Interrupts:
    """Whether SIGINT raises KeyboardInterrupt in the main thread: while code runs, but not inside a line being sent."""

    def __init__(self) -> None:
        self._main = threading.get_ident()
        self._allowed = False
        self._held = False
        self._due = False
        self._set_handler, self._set_mask = signal.signal, signal.pthread_sigmask

    def allow(self) -> None:
        """Also undoes what code has done to the signal."""
        self._due = self._held = False
        self._set_handler(signal.SIGINT, self._handle)
        self._set_mask(signal.SIG_SETMASK, ())
        self._allowed = True

    def forbid(self) -> None:
        self._allowed = False

    def in_main_thread(self, current=threading.get_ident) -> bool:
        return current() == self._main

    def __enter__(self) -> None:
        """Hold it back, in the main thread."""
        if self.in_main_thread():
            self._held = True

    def __exit__(self, *_: object) -> None:
        if self.in_main_thread():
            self._held = False
            if self._due:
                self._due = False
                raise KeyboardInterrupt

    def _handle(self, *_: object) -> None:
        if not self._allowed:
            return
        if self._held:
            self._due = True
            return
        raise KeyboardInterrupt


class Channel:
    """Sends frames, and hands replies to the threads that wait for them."""

    def __init__(self, sock: socket.socket, interrupts: Interrupts) -> None:
        self._sock = sock
        self._interrupts = interrupts
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, list] = {}
        """Call -> its lock and its reply."""
        self._slots = threading.Semaphore()
        self._run: int | None = None
        self._stopped: tuple[int, str] = (0, "")
        """Run -> why."""
        # Bound here: code may change the modules they come from.
        self._encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
        self._decode = json.JSONDecoder().decode
        self._pid, self._getpid, self._exit, self._lock = os.getpid(), os.getpid, os._exit, _thread.allocate_lock

    def listen(self, take_run) -> None:
        """Read in a thread of its own, which no list of threads shows: code that joins all threads does not hang."""
        _thread.start_new_thread(self._listen, (take_run,))

    def begin_run(self, number: int, parallel: int) -> None:
        self._slots = threading.Semaphore(parallel)
        self._run = number

    def stopped(self) -> str | None:
        """Why the run may not go on; this may be so before its code has begun."""
        run, why = self._stopped
        return why if run == self._run else None

    def end_run(self) -> None:
        """Threads that still wait for a reply get an error."""
        self._run = None
        self._release(ENDED)

    def send(self, frame: object) -> None:
        """A frame of ours. Raises ValueError or TypeError if it is no JSON."""
        self._send(self._line(frame))

    def call(self, tool: str, arguments: dict) -> object:
        """The result of a tool. Raises ToolError; TypeError and ValueError for arguments that are no JSON."""
        return self._request({"op": "call", "tool": tool, "arguments": arguments}, tool)

    def look_up(self, what: str, name: str) -> object:
        """See proxy/sandbox/base.py. Raises ToolError."""
        return self._request({"op": "look_up", "what": what, "name": name}, name or None)

    def _request(self, frame: dict, tool: str | None) -> object:
        if self._getpid() != self._pid:
            raise ToolError(FORKED, tool)
        run = self._check(tool)
        if tool is not None and len(tool) > MAX_NAME:
            raise ToolError(f"No server or tool has a name of {len(tool):,} characters.")
        number = next(self._numbers)
        try:
            line = self._line({**frame, "run": run, "call": number})
        except (TypeError, ValueError, RecursionError) as error:
            raise self._unfit(frame, error) from None
        if len(line) > MAX_CALL:
            raise ToolError(f"The arguments are {len(line):,} bytes as JSON, at most {MAX_CALL:,} can be sent.", tool)
        with self._slots:
            self._check(tool)
            reply = self._exchange(number, line)
        if not reply["ok"]:
            raise ToolError(str(reply["value"]), reply.get("tool") or tool)
        return reply["value"]

    def _check(self, tool: str | None) -> int:
        run = self._run
        if run is None:
            raise ToolError(NOT_RUNNING, tool)
        if (why := self.stopped()) is not None:
            raise ToolError(STOPPED[why], tool)
        return run

    def _exchange(self, number: int, line: bytes) -> dict:
        answered = self._lock()
        answered.acquire()
        box = [answered, None, self._interrupts.in_main_thread()]
        self._waiting[number] = box
        try:
            self._send(line)
            answered.acquire()
        finally:
            self._waiting.pop(number, None)
        return box[1]

    def _unfit(self, frame: dict, error: Exception) -> Exception:
        """Names the argument that cannot be sent."""
        where = f"the arguments of {frame['tool']}" if "tool" in frame else "a name"
        for name, value in frame.get("arguments", {}).items():
            try:
                self._line(value)
            except (TypeError, ValueError, RecursionError) as reason:
                where, error = f"{frame['tool']}: {name}", reason
                break
        kind = TypeError if isinstance(error, TypeError) else ValueError
        return kind(f"{where} cannot be sent as JSON: {error}")

    def _line(self, frame: object) -> bytes:
        return self._encode(frame).encode() + b"\n"

    def _send(self, line: bytes) -> None:
        with self._interrupts, self._sending:
            self._sock.sendall(line)

    def _listen(self, take_run) -> None:
        try:
            unread = bytearray()
            while data := self._sock.recv(CHUNK):
                seen = len(unread)
                unread += data
                end = unread.rfind(b"\n", seen)
                if end < 0:
                    continue
                lines = bytes(unread[:end]).split(b"\n")
                del unread[: end + 1]
                for line in lines:
                    self._take(self._decode(line.decode()), take_run)
        finally:
            # Without this thread nothing can be answered any more.
            self._exit(1)

    def _take(self, frame: dict, take_run) -> None:
        if frame["op"] == "reply":
            if box := self._waiting.pop(frame["call"], None):
                box[1] = frame
                box[0].release()
        elif frame["op"] == "stop":
            self._stopped = frame["run"], frame["why"]
            # The main thread has been interrupted, which is to be what it notices.
            self._release(STOPPED[frame["why"]], main=False)
        else:
            take_run(frame)

    def _release(self, why: str, main: bool = True) -> None:
        for number, box in list(self._waiting.items()):
            if (main or not box[2]) and self._waiting.pop(number, None):
                box[1] = {"ok": False, "value": why}
                box[0].release()
