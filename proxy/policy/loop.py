"""Works one task: asks the model for actions and does them, until it finishes or a limit ends it.

Above: the command `agent`, metatools/delegating.py, the capability probe and the bench. Below: a model, a surface over
a world, context.py, and store/rendering.py, in whose words the log and the trainer read the same.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import anyio

from proxy.policy.base import FINISH, Answer, Asked, Exchange, Model
from proxy.policy.context import Context, Folded
from proxy.policy.limits import WorkLimits
from proxy.policy.surface import Surface
from proxy.store.rendering import action, observation

MOST_AT_ONCE = 16
"""Actions of one turn that are done."""
MOST_SILENT = 2
"""Turns in a row without an action before the task is over."""
_NUDGE = f"That was no action. Call a tool, or {FINISH} with the outcome and the answer."


class Stop(StrEnum):
    """Why the work on a task ended."""

    FINISHED = "finished"
    """The model said so."""
    SILENT = "silent"
    """It asked for no action any more."""
    TURNS = "turns"
    TOKENS = "tokens"
    TIME = "time"
    CONTEXT = "context"
    """What it has to be told is longer than it may be, whatever is folded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Did:
    """One action and what came of it."""

    place: int
    """From 1."""
    turn: int
    """From 1."""
    name: str
    action: str
    """As the log writes it."""
    observed: str
    """As the model was told."""
    failed: bool
    understood: bool
    """Whether it was an action that exists, with arguments that could be read."""
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """What came of a task."""

    stop: Stop
    outcome: str | None
    """As the model claims: `done`, `failed` or `abandoned`; None if it did not finish."""
    answer: str | None
    """For the user; of a model that fell silent, its last words."""
    did: tuple[Did, ...]
    turns: int
    tokens_in: int
    tokens_out: int
    folded: tuple[Folded, ...]
    seconds: float


OnStep = Callable[[Did], Awaitable[None]]


async def work(task: str, model: Model, surface: Surface, limits: WorkLimits, on_step: OnStep | None = None) -> Worked:
    """Work a task to its end. `on_step` is told of each action once it is done.

    Raises:
        ModelError: The model cannot be asked.
    """
    began = time.perf_counter()
    worker = _Work(task, model, surface, limits, on_step)
    stop = Stop.TIME
    with anyio.move_on_after(limits.seconds):
        stop = await worker.run()
    return Worked(
        stop=stop,
        outcome=worker.outcome,
        answer=worker.answer,
        did=tuple(worker.did),
        turns=worker.turns,
        tokens_in=worker.tokens_in,
        tokens_out=worker.tokens_out,
        folded=tuple(worker.context.folded),
        seconds=time.perf_counter() - began,
    )


class _Work:
    """One task while it is worked."""

    def __init__(self, task: str, model: Model, surface: Surface, limits: WorkLimits, on_step: OnStep | None) -> None:
        self._model = model
        self._surface = surface
        self._limits = limits
        self._on_step = on_step
        self.context = Context(surface.system, task, surface.actions, limits)
        self.did: list[Did] = []
        self.turns = self.tokens_in = self.tokens_out = 0
        self.outcome: str | None = None
        self.answer: str | None = None

    async def run(self) -> Stop:
        silent = 0
        while self.turns < self._limits.turns:
            conversation = self.context.fitted()
            if conversation is None:
                return Stop.CONTEXT
            answer = await self._model.answer(conversation, self._surface.actions)
            self.turns += 1
            self.tokens_in += answer.tokens_in
            self.tokens_out += answer.tokens_out
            if not answer.asked:
                silent += 1
                if silent == MOST_SILENT:
                    self.answer = answer.said or None
                    return Stop.SILENT
                self.context.add(Exchange(said=answer.said, asked=(), observed=(_NUDGE,)))
            else:
                silent = 0
                if await self._do(answer):
                    return Stop.FINISHED
            if self.tokens_in + self.tokens_out >= self._limits.tokens:
                return Stop.TOKENS
        return Stop.TURNS

    async def _do(self, answer: Answer) -> bool:
        """All actions of a turn, in order. Whether one of them finished the task."""
        asked = answer.asked[:MOST_AT_ONCE]
        observed: list[str] = []
        for each in asked:
            did = await self._one(each)
            observed.append(did.observed)
            self.did.append(did)
            if self._on_step is not None:
                await self._on_step(did)
            if self.outcome is not None:
                return True
        self.context.add(Exchange(said=answer.said, asked=asked, observed=tuple(observed)))
        return False

    async def _one(self, asked: Asked) -> Did:
        began = time.perf_counter()
        problem = asked.problem
        if asked.name not in self._surface.names:
            names = ", ".join(sorted(self._surface.names)[:20])
            problem = f"there is no action {asked.name[:100]!r}; there are {names}"
        made = partial(
            Did,
            place=len(self.did) + 1,
            turn=self.turns,
            name=asked.name,
            action=action(asked.name, asked.arguments),
            understood=problem is None,
        )
        if problem is not None:
            text = observation({"isError": True, "content": [{"type": "text", "text": problem}]})
            return made(observed=text, failed=True, duration_ms=0.0)
        result = await self._surface.call(asked.name, asked.arguments)
        failed = result.get("isError") is True
        if asked.name == FINISH and not failed:
            said = asked.arguments.get("answer")
            self.outcome = str(asked.arguments.get("outcome"))
            self.answer = said if isinstance(said, str) else None
        return made(
            observed=observation(result, limit=self._limits.observation_chars),
            failed=failed,
            duration_ms=(time.perf_counter() - began) * 1000,
        )
