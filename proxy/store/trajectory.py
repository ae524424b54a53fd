"""What is known of one episode, as values: the trajectory that judge, trainer and pages read.

Above: trajectories.py makes them from the tables, importing.py from a file. Below: nothing. Nothing here is guessed:
where a value is None, the property beside it (`…_missing`) says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from proxy.store.recorder import EndReason, Level, Outcome, Revealed


class Missing(StrEnum):
    """Why a value is not there."""

    NOT_LOGGED = "not_logged"
    """It was not to be written: the level was less than `full`."""
    NOTHING = "nothing"
    """There was none: a call that was cancelled has no result."""
    RUNNING = "running"
    """The episode had not ended when it was read."""
    UNTOLD = "untold"
    """The agent never said it, and the gateway cannot see it."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of a result is here."""

    whole_bytes: int
    """Of the whole result as JSON, before redaction and cut."""
    kept_bytes: int
    hash: str | None
    """Keyed hash of the whole result before redaction: equal results have equal ones."""

    @property
    def left_out_bytes(self) -> int:
        return max(0, self.whole_bytes - self.kept_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryCall:
    """What a step sent to a server and got from it."""

    server: str
    """Configured name."""
    tool: str
    """The server's own name of the tool."""
    written: str
    """`server.tool`, as the catalogue of that time has it."""
    arguments: Any
    """As the server was sent them; the step's own where they were the same."""
    result: Any
    """As the server sent it, cut where it was long; the step's observation where the agent received it unchanged."""
    result_size: Size | None
    outcome: Outcome
    started_at: datetime
    duration_ms: float
    level: Level

    @property
    def result_missing(self) -> Missing | None:
        return _missing(self.result, self.level)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryShadow:
    """What another adapter ranked for the same query, after the answer: nobody saw it."""

    policy: str
    adapter: str | None
    """Its hash."""
    candidates: tuple[tuple[str, float], ...]
    """Tools with their scores, best first; those of the decision itself can be compared with them, place by place."""
    decided_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryDecision:
    """One ranking of the router, as needed to learn from it and to estimate others from it.

    `query`, `task`, `servers`, `candidates`, `shown` and `propensities` are None where the level was less than `full`.
    """

    policy: str
    adapter: str | None
    """Hash of the adapter in use."""
    query: str | None
    task: str | None
    servers: tuple[str, ...] | None
    """Where the agent asked to stay within; None means all."""
    candidates: tuple[tuple[str, float], ...] | None
    """Tools with their scores, best first; reaches below what was shown."""
    shown: tuple[str, ...] | None
    propensities: tuple[float, ...] | None
    """Probability of what stands at each place of `shown`, given the places above; None where nothing was left to
    chance."""
    degraded: str | None
    """Why a lesser policy answered than the one configured."""
    catalog: str
    decided_at: datetime
    duration_ms: float
    asked: int | None
    """At most how many the agent wanted; None where it left that to the router. This and what follows are None, too,
    where it was logged before they were noted."""
    cut: int | None
    """How many were shown: an action of its own, which follows from the scores, so that its propensity is 1."""
    entropy: float | None
    """Of the softmax over the candidates, in nats."""
    sure: bool | None
    """Whether that was low enough to show only the first one or two."""
    explored: bool | None
    """Whether two neighbours of `shown` are swapped."""
    shadow: TrajectoryShadow | None = None
    """None where there was no shadow adapter, it was late, or the level was less than `full`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryStep:
    """One action of the agent, or one call that its code made, with what came of it."""

    id: str
    parent_id: str | None
    """Of a call from code: the step of the run that made it."""
    stream: str
    seq: int
    mode: str
    """`search`, `direct` or `server`; `code` for a call that code made."""
    name: str
    """What the agent called: a meta-tool, or in the pass-through modes and in code a tool."""
    arguments: Any
    """As the agent sent them, before any repair."""
    outcome: Outcome
    error: str | None
    observation: Any
    """The result as the agent saw it, cut where it was long."""
    observation_size: Size | None
    action_tokens: int | None
    observation_tokens: int | None
    """Tokens that the agent read: of the whole result, not of what was kept. A call of code has them too, though only
    the code read it."""
    revealed: tuple[Revealed, ...]
    catalog: str
    level: Level
    started_at: datetime
    duration_ms: float
    call: TrajectoryCall | None
    decision: TrajectoryDecision | None
    code_calls: tuple[TrajectoryStep, ...] = ()
    """The calls that the code of this step made, in the order in which they began."""
    delegated: tuple[str, ...] = ()
    """Ids of the episodes that this step delegated, in the order in which they began."""

    @property
    def arguments_missing(self) -> Missing | None:
        return _missing(self.arguments, self.level)

    @property
    def observation_missing(self) -> Missing | None:
        return _missing(self.observation, self.level)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryEnding:
    """How an episode ended, with its sums."""

    reason: EndReason
    ended_at: datetime
    outcome: str | None
    """`done`, `failed` or `abandoned`, as the agent claimed with `finish_task`."""
    answer: str | None
    task: str | None
    task_source: str | None
    """`task`: the user's words, as the agent passed them on; `queries`: only what it searched for."""
    level: Level
    """The least that any of its steps was written at."""
    steps: int
    calls: int
    failures: int
    tokens_seen: int
    tokens_eager: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeHead:
    """An episode without its steps, as lists show it."""

    id: str
    stream: str
    agent: str
    mode: str
    client: str | None
    protocol: str | None
    rendering: int
    """Revision of rendering.py that it was logged under; a trainer never mixes two."""
    catalog: str
    """Hash of the catalogue at its first step; `catalogue()` of catalogues.py gives its definitions."""
    began_at: datetime
    parent_step: str | None = None
    """Id of the step that delegated it, of another episode."""
    ending: TrajectoryEnding | None
    """None while it is running."""

    @property
    def task(self) -> str | None:
        return None if self.ending is None else self.ending.task

    @property
    def task_missing(self) -> Missing | None:
        return self._untold(self.task)

    @property
    def answer(self) -> str | None:
        return None if self.ending is None else self.ending.answer

    @property
    def answer_missing(self) -> Missing | None:
        return self._untold(self.answer)

    def _untold(self, told: str | None) -> Missing | None:
        if told is not None:
            return None
        if self.ending is None:
            return Missing.RUNNING
        return Missing.UNTOLD if self.ending.level is Level.FULL else Missing.NOT_LOGGED


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory(EpisodeHead):
    """One episode: what it was about, every step in order, and how it ended."""

    steps: tuple[TrajectoryStep, ...]
    """The agent's own actions in the order in which they began. Calls of code are in their run's `code_calls`; where
    the run itself was never written, since the gateway died during it, they stand here with their `parent_id`."""
    lost: int
    """Steps that its gateway never got to disk in that time (killed, overloaded). Each may have belonged here, or to
    another episode: more than 0 means that this one may be incomplete."""
    parent_episode: str | None = None
    """Id of the episode of `parent_step`; None where that is not in the log (yet, or any more)."""

    def every_step(self) -> Iterator[TrajectoryStep]:
        """All steps, each run of code before the calls that it made."""
        for step in self.steps:
            yield step
            yield from step.code_calls


def _missing(value: Any, level: Level) -> Missing | None:
    if value is not None:
        return None
    return Missing.NOTHING if level is Level.FULL else Missing.NOT_LOGGED
