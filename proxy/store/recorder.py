"""The seam between serving and logging: every tool call of an agent ends as one `Step` handed to a `Recorder`.

Above: endpoint/ and metatools/ make the steps. Below: what keeps them. A recorder returns at once and never raises.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from proxy.errors import Outcome as Outcome

logger = logging.getLogger("toolatlas.steps")
# json.dumps would make a new encoder for every line.
_ENCODER = json.JSONEncoder(ensure_ascii=False)


def new_step_id() -> str:
    """Random, so that replicas need not agree."""
    return f"s_{secrets.token_hex(8)}"


class Level(StrEnum):
    """How much is written of a step: nothing, everything but contents, everything."""

    OFF = "off"
    METADATA = "metadata"
    FULL = "full"

    @classmethod
    def least(cls, levels: Iterable[Level]) -> Level:
        """The one that lets least be written; `FULL` of none."""
        return min(levels, key=_LEVELS.index, default=cls.FULL)


_LEVELS = list(Level)
"""The least first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One task of one agent, as the log knows it."""

    id: str
    """`e_` and 24 hexadecimal digits; made from the task's id, which is a secret, and not leading back to it."""
    agent: str
    """Label of the credential, `local` without one."""
    mode: str
    """Where it began: `search`, `direct` or `server`."""
    client: str | None = None
    """Name and version that the agent's program gave."""
    protocol: str | None = None
    """Version of MCP that it spoke."""
    began_at: datetime
    parent_step: str | None = None
    """The step of another episode that delegated it, which ends after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What one step sent to a server and got from it."""

    server: str
    """Configured name."""
    tool: str
    """The server's own name of the tool."""
    written: str
    """`server.tool`, as agents write it and the catalogue knows it."""
    arguments: Any
    """As the server was sent them."""
    result: Any = None
    """As the server sent it; the step's own `result` object where the agent received it unchanged; None without one."""
    started_at: datetime
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Revealed:
    """A tool that a step showed to the agent."""

    tool: str
    """`server.tool`."""
    how: str
    """`name`, `signature` or `definition`: how much of it the agent saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One ranking of the router, as needed to learn from it and to estimate others from it."""

    policy: str
    """`lexical`, or the name of what ranked."""
    adapter: str | None = None
    """Hash of the adapter in use."""
    query: str
    task: str | None = None
    servers: tuple[str, ...] | None = None
    """Where the agent asked to stay within; None means all."""
    candidates: tuple[tuple[str, float], ...]
    """What was ranked highest with its scores, best first; reaches below what was shown."""
    shown: tuple[str, ...]
    """What the agent saw, in that order."""
    propensities: tuple[float, ...] | None = None
    """Probability of what stands at each place of `shown`, given the places above; None where nothing was left to
    chance."""
    degraded: str | None = None
    """Why a lesser policy answered than the one configured."""
    asked: int | None = None
    """At most how many the agent wanted; None where it left that to the router."""
    entropy: float | None = None
    """Of the softmax over the candidates, in nats; None without candidates."""
    sure: bool = False
    """Whether that was low enough to show only the first one or two."""
    explored: bool = False
    """Whether two neighbours were swapped."""
    duration_ms: float

    @property
    def cut(self) -> int:
        """How many were shown. It follows from the scores: as an action, its propensity is 1."""
        return len(self.shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowDecision:
    """What the shadow adapter ranked for the query of a decision, after that was answered."""

    step_id: str
    """Of the decision; it is recorded before, at level `full`."""
    episode: Episode
    policy: str
    adapter: str | None
    """Hash of the adapter."""
    candidates: tuple[tuple[str, float], ...]
    """As in `Decision`: what its agent may see, with what the task did before applied."""
    decided_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One finished `tools/call` of an agent, or one call of its code, as it was asked and as it was answered."""

    id: str = field(default_factory=new_step_id)
    parent: str | None = None
    """Of a call from code: the step of the run that made it, which ends after it."""
    episode: Episode
    mode: str
    """`search`, `direct` or `server`; `code` for a call that code made."""
    name: str
    """The name the agent called: a meta-tool, or in the pass-through modes and in code a tool."""
    arguments: Any
    """As the agent sent them, before any repair."""
    outcome: Outcome
    started_at: datetime
    duration_ms: float
    result: Any = None
    """The result as the agent received it; from code, as the server sent it."""
    error: str | None = None
    call: Call | None = None
    """The tool of a server that was called, if one was."""
    revealed: tuple[Revealed, ...] = ()
    decision: Decision | None = None
    catalog: str
    """Hash of the catalogue at that time."""
    level: Level = Level.FULL
    """How much of it is written. What is not to be written is still here: a recorder has to leave it out."""

    @property
    def server(self) -> str | None:
        """Configured name of the server that was called, or was to be called, if any."""
        return self.call.server if self.call is not None else None

    @property
    def tool(self) -> str | None:
        """That server's own name of the tool."""
        return self.call.tool if self.call is not None else None


class EndReason(StrEnum):
    """Why an episode is over."""

    FINISHED = "finished"
    """`finish_task`."""
    SESSION = "session"
    """The agent left."""
    IDLE = "idle"
    CROWDED_OUT = "crowded_out"
    """There were too many tasks."""
    LONG = "long"
    """No session and no id says where a task ends, and so many calls are not one."""
    SHUTDOWN = "shutdown"
    """The gateway ended in the usual way."""
    LOST = "lost"
    """The gateway ended in another way; the episode was closed at the next start."""
    DELETED = "deleted"
    """Somebody had its log deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of an episode."""

    episode: Episode
    reason: EndReason
    ended_at: datetime
    outcome: str | None = None
    """`done`, `failed` or `abandoned`, as the agent said with `finish_task`."""
    answer: str | None = None
    """What the agent told its user, if it passed it on."""
    level: Level = Level.FULL
    """At less than `full`, no answer is written."""


class Recorder(Protocol):
    """Takes finished steps, and the ends of episodes."""

    def record(self, step: Step) -> None: ...

    def end(self, ending: Ending) -> None: ...


class LogRecorder:
    """Writes one JSON line a step to the `toolatlas.steps` logger: names and outcome, never arguments or results.

    Args:
        redact: Given an episode's id and a text, the text without what looks like a secret.
    """

    def __init__(self, redact: Callable[[str, str], str]) -> None:
        self._redact = redact

    def record(self, step: Step) -> None:
        if not logger.isEnabledFor(logging.INFO):
            return
        failed = step.outcome is not Outcome.OK
        line = {
            "event": "step",
            "id": step.id,
            "parent": step.parent,
            "at": step.started_at.isoformat(timespec="milliseconds"),
            "episode": step.episode.id,
            "agent": step.episode.agent,
            "mode": step.mode,
            # A name that means nothing may be anything that an agent said.
            "name": self._redact(step.episode.id, step.name) if failed else step.name,
            "server": step.server,
            "tool": step.tool,
            "outcome": step.outcome.value,
            "ms": round(step.duration_ms, 2),
            "error": self._error(step),
        }
        logger.info(_visible(_ENCODER.encode(line)))

    def _error(self, step: Step) -> str | None:
        """An error may quote what was sent and what came back."""
        if step.error is None or step.level is not Level.FULL:
            return None
        return self._redact(step.episode.id, step.error)

    def end(self, ending: Ending) -> None:
        logger.debug("episode %s ended: %s", ending.episode.id, ending.reason)


def _visible(line: str) -> str:
    """The same JSON; an error may hold a server's words, and they characters that nobody sees or a terminal obeys."""
    if line.isprintable():
        return line
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in line)
