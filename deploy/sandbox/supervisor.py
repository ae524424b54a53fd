"""PID 1 of a sandbox: owns the channel to the gateway, and never runs the agent's code.

The gateway's side is proxy/sandbox/frames.py, which describes the frames on stdin and stdout. Code runs in a child
(interpreter.py) that holds one socket, for frames of its own, and one pipe, for all that is printed. The child and
whatever it starts is hostile: its frames are checked here, its time is measured here, and it is ended from here.
"""

import contextlib
import ctypes
import gc
import json
import os
import re
import select
import signal
import socket
import time

import interpreter
from child import CHUNK, PIPE, Child
from frames import MAX_FRAME, MAX_TEXT, Broken, Lines, encoded, for_child, from_child, value_of
from output import Output
from processes import end, fork, how_it_ended, out_of_memory_kills, running, volunteer
from protections import adopt_orphans, filter_system_calls, hide_from_children, ignore_signals, take_channel

MOST_KEPT = 1_000_000
"""Characters of output, and of a value: both fit into one line however they have to be written in JSON."""
BACKLOG = 1024 * 1024
"""Bytes waiting for the gateway, or for the child, above which nothing more is read from the child."""
UNREAD = 48 * 1024 * 1024
"""Bytes of results waiting for a child that does not read, above which it is ended."""
FALSE_STARTS = 3
"""Children in a row that end before they are ready, after which this gives up."""
SWEEPS = 200
BETWEEN_RUNS = (
    "Tools can only be called while code is running. This call came from something an earlier run left behind."
)
BROKEN = "the code wrote to the interpreter's own channel"
REPLY = re.compile(rb'\{"op": ?"reply", ?"run": ?(\d{1,18}), ?"call": ?(\d{1,18}),')
"""Start of a reply, of which no more has to be read here: values are large."""
KEPT_IN_CHILD = {signal.SIGKILL, signal.SIGSTOP, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ}
"""Signals that stay as they are in the child. Python ignores the last two, so that they become errors of the code."""
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4


class Run:
    """The code that is running."""

    def __init__(self, frame: dict) -> None:
        self.number = frame["run"]
        self.began = time.monotonic()
        self.deadline = self.began + frame["timeout"]
        self.grace_s = frame["limits"]["grace_s"]
        self.stopped: str | None = None
        """`timeout` or `cancelled` once it has been interrupted."""
        self.again: float | None = None
        """When to interrupt it a second time."""
        self.waiting: set[int] = set()
        """Calls without a reply."""
        self.killed = out_of_memory_kills()

    def stop(self, why: str) -> None:
        now = time.monotonic()
        self.stopped, self.deadline, self.again = why, now + self.grace_s, now + self.grace_s / 2


class Supervisor:
    """Reads from the gateway, the child's socket and its output in one loop that never waits for any of them alone."""

    def __init__(self, libc: ctypes.CDLL, channel_in: int, channel_out: int) -> None:
        self._libc = libc
        self._in = channel_in
        self._out = channel_out
        self._from_gateway = Lines(MAX_FRAME)
        self._unsent = bytearray()
        self._run: Run | None = None
        self._output = Output(MOST_KEPT)
        self._false_starts = 0
        self._wake, wake = os.pipe()
        for fd in (self._wake, wake, channel_in, channel_out):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._child = Child.start(fork, self._become_interpreter)

    def serve(self) -> None:
        """Until the gateway closes its side."""
        while True:
            child = self._child
            reading = [self._in, self._wake]
            if child.out is not None:
                reading.append(child.out)
            if len(self._unsent) < BACKLOG and len(child.unsent) < BACKLOG:
                reading.append(child.sock)
            writing = [*([self._out] if self._unsent else []), *([child.sock] if child.unsent else [])]
            readable, writable, _ = select.select(reading, writing, [], self._time_left())
            if self._out in writable:
                self._flush()
            if child.sock in writable:
                child.flush()
            if self._in in readable and not self._read_gateway():
                return
            if child.out in readable:
                child.read_output(self._output)
            if child is self._child and child.sock in readable:
                self._read_child(child)
            if self._wake in readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, CHUNK)
                self._reap()
            self._keep_time()

    def close(self) -> None:
        end(self._child.pid)

    # Time.

    def _time_left(self) -> float | None:
        if self._run is None:
            return None
        due = self._run.deadline if self._run.again is None else self._run.again
        return max(0.0, due - time.monotonic())

    def _keep_time(self) -> None:
        run, now = self._run, time.monotonic()
        if run is None:
            return
        if run.stopped is None:
            if now >= run.deadline:
                self._interrupt(run, "timeout")
        elif now >= run.deadline:
            when = "its time was up" if run.stopped == "timeout" else "it was cancelled"
            self._replace_child(f"it did not stop when {when}")
        elif run.again is not None and now >= run.again:
            # What waits for threads, or for a command in a shell, needs a second push, and the command to be gone.
            run.again = None
            self.sweep()
            self._child.interrupt()

    def _interrupt(self, run: Run, why: str) -> None:
        run.stop(why)
        self._child.interrupt()
        self._to_child(for_child({"op": "stop", "run": run.number, "why": why}))

    # The gateway.

    def _send(self, frame: dict) -> None:
        self._unsent += encoded(frame)
        self._flush()

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._out, self._unsent[:CHUNK])]
        except BlockingIOError:
            pass
        except OSError as error:
            raise SystemExit("the gateway does not read any more") from error

    def _read_gateway(self) -> bool:
        try:
            data = os.read(self._in, CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        for line in self._from_gateway.add(data):
            self._take_frame(line)
        return bool(data)

    def _take_frame(self, line: bytes) -> None:
        if reply := REPLY.match(line):
            self._pass_reply(int(reply[1]), int(reply[2]), line)
            return
        frame = json.loads(line)
        match frame["op"]:
            case "reply":
                self._pass_reply(frame["run"], frame["call"], line)
            case "run":
                self._begin(frame)
            case "extend":
                run = self._run
                if run is not None and run.number == frame["run"] and run.stopped is None:
                    run.deadline += frame["seconds"]
            case "interrupt":
                run = self._run
                if run is not None and run.number == frame["run"] and run.stopped is None:
                    self._interrupt(run, "cancelled")
            case "reset":
                self._replace_child("it was reset")

    def _pass_reply(self, run: int, call: int, line: bytes) -> None:
        """Late replies, to a run or a child that is no more, go nowhere."""
        if self._run is not None and self._run.number == run and call in self._run.waiting:
            self._run.waiting.discard(call)
            self._to_child(line + b"\n")

    def _begin(self, frame: dict) -> None:
        """What was printed between two runs, by a thread, is shown with the later one."""
        limits = frame["limits"]
        kept = min(limits["output_kept"], MOST_KEPT)
        earlier, _, _ = self._output.text()
        self._output = Output(kept)
        self._output.add(earlier.encode())
        self._child.value = None
        self._run = Run(frame)
        job = {name: frame[name] for name in ("op", "run", "code", "servers")}
        self._to_child(
            for_child({**job, "kept": kept, "parallel": limits["parallel"], "processes": limits["processes"]})
        )

    def _finish(
        self, status: str, *, value: str | None = None, failure: dict | None = None, lost: str | None = None
    ) -> None:
        run, self._run = self._run, None
        assert run is not None
        output, gap_at, left_out = self._output.text()
        self._output = Output(MOST_KEPT)
        self._send(
            {
                "op": "done",
                "run": run.number,
                "status": run.stopped or status,
                "output": output,
                "gap_at": gap_at,
                "left_out": left_out,
                "value": value,
                "failure": failure,
                "kept": lost is None,
                "lost_because": lost,
                "seconds": round(time.monotonic() - run.began, 4),
            }
        )

    # The child.

    def _become_interpreter(self, sock: socket.socket, printed: int) -> None:
        for fd in (self._in, self._out, self._wake, signal.set_wakeup_fd(-1)):
            os.close(fd)
        for number in signal.valid_signals() - KEPT_IN_CHILD:
            signal.signal(number, signal.SIG_DFL)
        self._libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        self._libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.setsid()
        volunteer()
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        os.close(printed)
        interpreter.main(sock)

    def _to_child(self, line: bytes) -> None:
        self._child.send(line)
        if len(self._child.unsent) > UNREAD:
            self._replace_child("it did not read the results of its calls")

    def _read_child(self, child: Child) -> None:
        data = child.receive()
        if data is None:
            return
        if not data:
            self._replace_child(None)
            return
        try:
            for line in child.lines.add(data):
                self._take_from_child(child, line)
                if child is not self._child:
                    return
        except (Broken, ValueError, KeyError, TypeError, RecursionError):
            self._replace_child(BROKEN)

    def _take_from_child(self, child: Child, line: bytes) -> None:
        """Raises Broken, or what comes of reading something that is no frame of ours."""
        if (value := value_of(line)) is not None:
            child.value = value
            return
        frame = from_child(line)
        match frame["op"]:
            case "ready" if not child.ready:
                child.ready = True
                self._false_starts = 0
                self._send({"op": "ready", "fresh": True})
            case "done" if self._run is not None and frame["run"] == self._run.number:
                self._take_done(child, frame)
            case "call" | "look_up":
                self._pass_call(frame)
            case _:
                raise Broken

    def _pass_call(self, frame: dict) -> None:
        run, call = self._run, frame["call"]
        if run is None or run.number != frame["run"]:
            refusal = {"op": "reply", "run": frame["run"], "call": call, "ok": False, "value": BETWEEN_RUNS}
            self._to_child(for_child(refusal))
            return
        if call in run.waiting:
            raise Broken
        run.waiting.add(call)
        self._send(frame)

    def _take_done(self, child: Child, frame: dict) -> None:
        # All that was printed before is in the pipe by now.
        child.read_output(self._output, 2 * PIPE)
        value, child.value = child.value, None
        self._finish(frame["status"], value=value, failure=frame["failure"])
        self.sweep()

    def _replace_child(self, reason: str | None) -> None:
        """End the child with all that it started, say how, and start another. Without a reason its end tells it."""
        child = self._child
        gone = reason is None and child.ended_by_itself()
        end(child.pid)
        how = how_it_ended(child.wait())
        if self._run is not None:
            child.read_output(self._output, 2 * PIPE)
            if reason is None and out_of_memory_kills() > self._run.killed:
                reason = "it ran out of memory"
            elif reason is None:
                reason = how if gone else "the code closed the interpreter's channel"
            self._finish("died", lost=reason)
        elif reason is None and not child.ready:
            self._false_starts += 1
            if self._false_starts == FALSE_STARTS:
                raise SystemExit(f"the interpreter does not start: {how}")
        child.close()
        self._output = Output(MOST_KEPT)
        self._child = Child.start(fork, self._become_interpreter)

    def _reap(self) -> None:
        """Also of what the child has left behind, which is PID 1's."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._child.pid:
                    self._child.status = ended[1]
                    self._bury()

    def _bury(self) -> None:
        """The child has ended, maybe after its run. Something it left may hold its socket open, so no end may come."""
        child = self._child
        for _ in range(MAX_TEXT // CHUNK):
            self._read_child(child)
            if child is not self._child or self._run is None:
                break
        if child is self._child:
            self._replace_child(None)

    def sweep(self) -> None:
        """End every process but this and the interpreter: what code starts does not outlive its run."""
        if os.getpid() != 1:
            return
        for _ in range(SWEEPS):
            left = [pid for pid in running() if pid != self._child.pid]
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._reap()
            if not left:
                return
            time.sleep(0.001)
        self._replace_child("it left processes behind faster than they could be ended")


def main() -> None:
    """Serve until the gateway is gone."""
    libc = ctypes.CDLL(None, use_errno=True)
    channel = take_channel()
    ignore_signals()
    hide_from_children(libc)
    filter_system_calls(libc)
    adopt_orphans(libc)
    # What is here now is shared with every child and stays so.
    gc.collect()
    gc.freeze()
    supervisor = Supervisor(libc, *channel)
    try:
        supervisor.serve()
    finally:
        supervisor.close()
