"""What an attack is: code, how its success would show, what stops it, and what happens without that.

Above: cases/ and arena.py. Attack code prints a line that begins with WON when it got what it wanted, and one that
begins with HELD, with what it met instead, when not. What shows outside of the container only is part of an `Outcome`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from proxy.sandbox.base import RunResult, Status
from tests.attacks.protection import Protection

PRELUDE = """
import os, sys, time, signal, socket, threading, subprocess, json
def attempt(what, action):
    try: got = action()
    except Exception as error: print(f"HELD {what}: {type(error).__name__}: {error}"[:300], flush=True)
    else: print(f"WON {what}: {got!r}"[:300], flush=True)
"""
"""Before the code of every attack."""

SYSTEM_CALLS = """
import ctypes, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
def system_call(what, numbers, *arguments):
    ctypes.set_errno(0)
    got = libc.syscall(ctypes.c_long(numbers[column]), *arguments)
    name = errno.errorcode.get(ctypes.get_errno(), "?")
    refused = got == -1 and name in ("EPERM", "EACCES", "ENOSYS")
    print(f"HELD {what}: {name}" if refused else f"WON {what}: {got} {name}", flush=True)
"""
"""`system_call(words, (number on x86_64, on aarch64), ...)`: WON when the kernel looked at the arguments at all."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attack led to."""

    result: RunResult
    then: RunResult
    """Of the next run of the same task, which every attack has to leave possible."""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Calls that reached the gateway, in order."""
    outside: str = ""
    """What was seen on the host."""

    @property
    def said(self) -> str:
        """All that success and failure can be seen by, one text."""
        calls = f"calls={len(self.calls)} {[(tool, dict(arguments)) for tool, arguments in self.calls[:5]]!r:.1000}"
        return "\n".join([_said(self.result), calls, f"outside: {self.outside}", "then:", _said(self.then)])


def _said(result: RunResult) -> str:
    failure = result.failure
    text = result.output.text
    parts = [f"status={result.status} kept={result.kept} printed={len(text)} left_out={result.output.left_out}"]
    parts.append(text if len(text) <= 6_000 else f"{text[:4_000]}\n[...]\n{text[-2_000:]}")
    parts += [f"value={result.value[:2_000]}"] if result.value is not None else []
    parts += [f"failure={failure.kind[:200]}: {failure.message[:1_000]}"] if failure else []
    parts += [f"lost: {result.lost_because}"] if result.lost_because else []
    return "\n".join(parts)


def prints_won(outcome: Outcome) -> bool:
    """The code says so itself."""
    return re.search(r"^WON", outcome.said, re.MULTILINE) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One case of the table."""

    name: str
    tries: str
    """What it is after, for the table."""
    code: str
    """`@PORT@` is a port that listens on the host, `@ABSTRACT@` a socket there, `@HOST@` a folder of the host."""
    stopped_by: Protection
    shows: str
    """Pattern found in `Outcome.said` when it was stopped by what should stop it."""
    without: tuple[Protection, ...] | str = ()
    """With these taken away together the attack succeeds; empty: `stopped_by` alone. Text: why that cannot be tried."""
    won: Callable[[Outcome], bool] = prints_won
    timeout_s: float = 5.0
    other: str = ""
    """Run before it by another task, which must not notice anything."""
    then: str = "1 + 1"
    """The next run of the same task."""
    spoils: bool = False
    """It breaks its own interpreter, whose variables are then of no use: the next run comes after a reset."""

    @property
    def removed(self) -> tuple[Protection, ...]:
        """What its ablation takes away; empty where it has none."""
        return () if isinstance(self.without, str) else self.without or (self.stopped_by,)

    @property
    def reason(self) -> str:
        """Why it has no ablation; empty where it has one."""
        return self.without if isinstance(self.without, str) else ""

    def stopped(self, outcome: Outcome) -> bool:
        """It did not get what it wanted, by what should stop it, and its task goes on."""
        held = not self.won(outcome) and re.search(self.shows, outcome.said, re.MULTILINE) is not None
        return held and outcome.then.status is Status.OK
