"""Processes of the container, as PID 1 sees them. Outside a container, in tests, only the child can be reached."""

import contextlib
import os
import signal
import time

FORK_S = 10.0
OOM_COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""Of cgroup v2 and v1; both have a line `oom_kill N`."""


def fork() -> int:
    """As os.fork, but waits for room: processes that were just killed may still count against the limit.

    Raises:
        OSError: Even after a while there is none.
    """
    until = time.monotonic() + FORK_S
    while True:
        try:
            return os.fork()
        except OSError:
            if time.monotonic() > until:
                raise
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)
            time.sleep(0.01)


def end(pid: int) -> None:
    """End the child and all that it started. As PID 1 this reaches every process there is, and none can fork away."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpid() == 1:
            os.kill(-1, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
            os.killpg(pid, signal.SIGKILL)


def running() -> list[int]:
    """All but this one, and without zombies: those are gone when their parent asks for them."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb", buffering=0) as stat:
                if stat.read(4096).rpartition(b") ")[2][:1] not in (b"Z", b"X"):
                    found.append(int(name))
    return found


def how_it_ended(status: int) -> str:
    """A clause about a status of waitpid."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"it ended itself with exit code {code}"
    names = {int(number): number.name for number in signal.Signals}
    return f"it was ended by signal {-code} ({names.get(-code, 'unknown')})"


def out_of_memory_kills() -> int:
    """How often the kernel has ended a process of this container for its memory."""
    for path in OOM_COUNTERS:
        with contextlib.suppress(OSError), open(path) as counters:
            for line in counters:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0


def volunteer() -> None:
    """The caller is what the kernel ends first when memory is short, and what waits when the processor is busy."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    with contextlib.suppress(OSError):
        os.nice(10)
