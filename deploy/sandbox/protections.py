"""What the supervisor does about itself before any code of the agent exists."""

import ctypes
import os
import signal

import syscalls

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36


def take_channel() -> tuple[int, int]:
    """Standard input and output become nothing; what they were is known to this process alone."""
    channel = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return channel


def ignore_signals() -> None:
    """PID 1 gets none of those it does not handle from inside; this is for the rest of the world."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)


def hide_from_children(libc: ctypes.CDLL) -> None:
    """Nobody reads or traces this process, though code runs as the same user."""
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def filter_system_calls(libc: ctypes.CDLL) -> None:
    """For this process and all others. See syscalls.py."""
    syscalls.install(libc)


def adopt_orphans(libc: ctypes.CDLL) -> None:
    """They become children of this process even where it is not PID 1."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
