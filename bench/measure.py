"""What the benches share: facts of the machine, percentiles, started programs and their processor time.

Above: the benches. Below: the operating system; processor time of another process is read the way Linux offers it.
"""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
START_S = 60.0


class Missing(Exception):
    """Something that the bench needs is not here; the text says what, and how to get it."""


def machine() -> dict[str, object]:
    """What a figure has to be read with."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    git = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return {
        "cpus": os.cpu_count(),
        "cpu": model or platform.processor() or platform.machine(),
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "system": platform.platform(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git.stdout.strip(),
    }


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest-rank percentile; `share` between 0 and 1."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Program:
    """A started process that listens on a port of the loopback. Ends with its children at the end of `with`."""

    def __init__(self, command: Sequence[str], port: int, log: Path, environ: Mapping[str, str] | None = None) -> None:
        self.port = port
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **(environ or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        # Its whole group, because servers that it started may outlive it.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def wait(self) -> Program:
        """Until it accepts connections. Raises RuntimeError with the end of its output when it does not."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                time.sleep(0.05)
        tail = self._log.read_text("utf-8", "replace")[-2000:]
        raise RuntimeError(f"{self._process.args} does not listen on port {self.port}; its output ends with:\n{tail}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """At once, as a crash would."""
        self._process.kill()
        self._process.wait()

    def cpu_s(self) -> float:
        """Seconds of processor time, user and system, of all its threads and none of its children."""
        return cpu_s(self._process.pid)


def cpu_s(pid: int) -> float:
    """Processor time of another process so far.

    Linux' clock of a process counts nanoseconds where /proc/PID/stat counts ticks of 10 ms: clock_getcpuclockid(3).
    """
    return time.clock_gettime((~pid << 3) | 2)
