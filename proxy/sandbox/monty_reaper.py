"""Waits for the end of the gateway and then ends the workers that are left; without it, those that compute would go on
to the end of their time.

A program of its own (standard library only; see monty_guard.py). On its standard input it reads `+PID BEGAN` and
`-PID` lines; the end of that input is the end of the gateway, whatever ended it.
"""

import os
import signal
import sys
from contextlib import suppress


def began(pid: int) -> str:
    """When a process began, which tells it from a later one of the same number; empty where that cannot be known."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def main() -> None:
    # Signals to everything of a service or a terminal come before its end; what is left can be known only after it.
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)
    workers: dict[int, str] = {}
    for line in sys.stdin:
        pid, _, beginning = line[1:].strip().partition(" ")
        if line.startswith("+"):
            workers[int(pid)] = beginning
        else:
            workers.pop(int(pid), None)
    for worker, beginning in workers.items():
        if began(worker) == beginning:
            with suppress(OSError):
                os.kill(worker, signal.SIGKILL)


if __name__ == "__main__":
    main()
