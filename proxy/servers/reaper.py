"""Waits for the end of the gateway and then ends the process groups that are left: `reaper.py STDIN_S TERM_S KILL_S`.

A program of its own (standard library only; see orphans.py). On its standard input it reads `+GROUP` and `-GROUP`
lines; the end of that input is the end of the gateway, whatever ended it. It always ends itself.
"""

import os
import signal
import sys
import time
from contextlib import suppress


def known_groups(pipe: int) -> set[int]:
    """The groups registered and not taken back, once everybody has closed the other end of `pipe`."""
    groups: set[int] = set()
    rest = b""
    while chunk := os.read(pipe, 65536):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            (groups.add if line.startswith(b"+") else groups.discard)(int(line[1:]))
    return groups


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end(groups: set[int], graces_s: tuple[float, float, float]) -> None:
    """Wait for the end that a closed stdin brings, then SIGTERM, then SIGKILL; each wait is bounded."""
    for sign, grace_s in zip((0, signal.SIGTERM, signal.SIGKILL), graces_s, strict=True):
        for group in filter(alive, groups):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, sign)
        deadline = time.monotonic() + grace_s
        while any(map(alive, groups)) and time.monotonic() < deadline:
            time.sleep(0.02)


def main(stdin_s: str, term_s: str, kill_s: str) -> None:
    """The graces are seconds."""
    # Signals to everything of a service or a terminal come before its end; what is left can be known only after it.
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)
    end(known_groups(0), (float(stdin_s), float(term_s), float(kill_s)))


if __name__ == "__main__":
    main(*sys.argv[1:])
