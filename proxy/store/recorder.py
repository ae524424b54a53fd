"""The seam between serving and logging: every tool call of an agent ends as one `Step` handed to a `Recorder`.

Above: endpoint/ makes the steps. Below: whatever keeps them. A recorder must return at once and never raise.
"""

from __future__ import annotations

import json
import logging
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

logger = logging.getLogger("toolatlas.steps")
# json.dumps would make a new encoder for every line.
_ENCODER = json.JSONEncoder(ensure_ascii=False)


class Outcome(StrEnum):
    """How a call ended. A tool's own failure (`TOOL_ERROR`) is never counted as `OK`."""

    OK = "ok"
    TOOL_ERROR = "tool_error"
    INVALID_ARGUMENTS = "invalid_arguments"
    DENIED = "denied"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    SERVER_DOWN = "server_down"
    PROTOCOL_ERROR = "protocol_error"


def new_step_id() -> str:
    """Random, so that replicas need not agree."""
    return f"s_{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One finished `tools/call` of an agent, or one call of its code, as it was asked and as it was answered."""

    id: str = field(default_factory=new_step_id)
    parent: str | None = None
    """Of a call from code: the step of the run that made it, which ends after it."""
    task_id: str
    agent: str
    """Label of the credential, `local` without one."""
    mode: str
    """`search`, `direct` or `server`; `code` for a call that code made."""
    name: str
    """The name the agent called: a meta-tool, or in the pass-through modes and in code a tool."""
    arguments: Any
    """As the agent sent them, before any repair."""
    outcome: Outcome
    started_at: datetime
    duration_ms: float
    server: str | None = None
    """Configured name of the server that was called, if one was."""
    tool: str | None = None
    """The server's own name of the tool that was called, if one was."""
    result: Any = None
    """The result as the agent received it; from code, as the server sent it."""
    error: str | None = None


class Recorder(Protocol):
    """Takes finished steps."""

    def record(self, step: Step) -> None: ...


class LogRecorder:
    """Writes one JSON line a step to the `toolatlas.steps` logger: names and outcome, never arguments or results."""

    def record(self, step: Step) -> None:
        if not logger.isEnabledFor(logging.INFO):
            return
        line = {
            "event": "step",
            "id": step.id,
            "parent": step.parent,
            "at": step.started_at.isoformat(timespec="milliseconds"),
            "task": step.task_id,
            "agent": step.agent,
            "mode": step.mode,
            "name": step.name,
            "server": step.server,
            "tool": step.tool,
            "outcome": step.outcome.value,
            "ms": round(step.duration_ms, 2),
            "error": step.error,
        }
        logger.info(_visible(_ENCODER.encode(line)))


def _visible(line: str) -> str:
    """The same JSON; an error may hold a server's words, and they characters that nobody sees or a terminal obeys."""
    if line.isprintable():
        return line
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in line)
