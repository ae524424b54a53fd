"""The contract between the meta-tool run_python and the backends that run its code.

Above: metatools/running.py and sandbox/calls.py, which turn a run into tool calls and a report. Below: docker.py and
embedded.py. A backend knows nothing of servers or permissions: whatever code wants from outside goes through `Calls`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a sandbox may use. Enforced where code cannot reach, and by a second deadline in the gateway."""

    run_s: float = 30.0
    """Wall time of a run when the agent asks for none."""
    max_run_s: float = 300.0
    grace_s: float = 1.0
    """What interrupted code gets to end, before its interpreter is ended and its variables are lost."""
    memory_bytes: int = 256 * 1024 * 1024
    cpus: float = 1.0
    processes: int = 64
    disk_bytes: int = 64 * 1024 * 1024
    files: int = 10_000
    calls: int = 100
    """Tool calls of one run."""
    parallel: int = 8
    """Tool calls at a time."""
    code_bytes: int = 100_000
    argument_bytes: int = 1_000_000
    """Of one call, as JSON."""
    value_bytes: int = 4_000_000
    """Of one tool's result that enters the interpreter, as JSON."""
    output_head: int = 2_000
    """Characters shown of the start of a long output."""
    output_tail: int = 6_000
    """And of its end, which holds the answer more often."""
    output_kept: int = 1_000_000
    """Characters of a long output that can be read with read_result."""
    shown_value: int = 4_000
    """Characters of the value of the last expression."""
    idle_s: float = 600.0
    """Without a run, until an interpreter is given up."""
    lifetime_s: float = 7_200.0
    interpreters: int = 50
    """At a time, over all agents."""
    warm: int = 1
    """Interpreters kept ready for the next task."""


class Status(StrEnum):
    """How a run ended."""

    OK = "ok"
    ERROR = "error"
    """The code raised."""
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    """The agent did not want it any more."""
    DIED = "died"
    """The interpreter ended: out of memory, killed, or broken by the code."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What the code raised."""

    kind: str
    """Name of the exception's class."""
    message: str
    traceback: str = ""
    """The agent's own frames with their source lines, innermost last, without the backend's."""


@dataclass(frozen=True, slots=True)
class Output:
    """What was printed."""

    text: str = ""
    """All of it up to `Limits.output_kept` characters: where it was more, the start and the end, with the gap in
    `left_out` after `gap_at` characters."""
    gap_at: int = 0
    left_out: int = 0
    """Characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """One run, as the report is written from it."""

    status: Status
    output: Output = field(default_factory=Output)
    value: str | None = None
    """The last expression: JSON when it is plain data, else its repr; None for None and for statements. Cut at
    `Limits.output_kept`."""
    failure: Failure | None = None
    calls: int = 0
    """Tool calls made."""
    seconds: float = 0.0
    kept: bool = True
    """Whether variables are there in the next run."""
    lost_because: str | None = None
    """Why not; also set when a run began without the variables of the one before."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a call from code gets."""

    ok: bool
    value: Any = None
    """Plain JSON data, or the text of the error that is raised in the code as ToolError."""
    tool: str | None = None
    """Of an error: the tool that failed, as the code wrote it."""


class Calls(Protocol):
    """What the code of one run may do outside its interpreter. Every method is safe against hostile arguments: the
    backend hands on what came out of the sandbox. None of them raises; a failure is a Reply that is not `ok`."""

    on_extend: Callable[[float], None]
    """Set by the backend for the time of a run, and called with seconds by which the run's time limit moves: on when a
    person is asked something in the middle of it, back when the answer took less."""

    @property
    def servers(self) -> tuple[str, ...]:
        """Written names of the servers: the names that are bound to objects in the code."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        """Call `server.tool`. Checks permission, limits and arguments; may be awaited many times at once."""
        ...

    async def look_up(self, what: str, name: str) -> Reply:
        """`what` is "servers" (name ignored: list of dicts name, purpose, tools), "help" (the tools of a server with
        their signatures, text) or "describe" (the stub of `server.tool`, text)."""
        ...


class Interpreter(Protocol):
    """Keeps the variables of one task from run to run. Used by one run at a time; never given to another task."""

    async def run(self, code: str, timeout_s: float, calls: Calls) -> RunResult:
        """Run code. Cancelling the caller interrupts it; variables stay where that is possible.

        Raises:
            SandboxError: The backend failed, not the code.
        """
        ...

    async def reset(self) -> None:
        """Forget all variables. Raises SandboxError."""
        ...

    async def close(self) -> None:
        """End it for good. Never raises."""
        ...


class Backend(Protocol):
    """One way to run code. Use inside `async with backend.running()`."""

    @property
    def name(self) -> str:
        """`docker` or `embedded`."""
        ...

    @property
    def language(self) -> str:
        """What the agent has to know of the language, for the tool's description: empty for full Python."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]: ...

    async def open(self, task_id: str) -> Interpreter:
        """An interpreter for a task.

        Raises:
            SandboxError: None can be had now; says why and what to do.
        """
        ...
