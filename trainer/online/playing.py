"""Rollouts: the policy works tasks through the gateway, with the very loop by which it will serve.

Above: running.py. Below: proxy/policy, rounds.py, transcript.py. What is cut off, by the longest answer, the longest
sequence or the time, did not come to an end of its own: nothing is learned from it. One that has used up its turns, or
says nothing more, did: its user gets nothing, and so it is closed, for the judge to say what that is worth. Left out,
it would be a way to avoid every bad mark.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

import anyio

from proxy.policy.base import FINISH, Action, Answer, Conversation, World
from proxy.policy.limits import WorkLimits
from proxy.policy.loop import MOST_AT_ONCE, Stop, work
from proxy.policy.surface import Surface
from proxy.policy.text_calls import SAID_CHARS, asked_of, found, without_reasoning
from trainer.data.tokens import Reader
from trainer.online.rounds import Rounds
from trainer.online.settings import OnlineSettings
from trainer.online.transcript import Transcript

OpenWorld = Callable[[str], AbstractAsyncContextManager[World]]
"""A session with the gateway for one task; by the name that it is given, the log knows the episode's client."""
CLIENT = "toolatlas-online-"
_CUT = frozenset({Stop.TIME, Stop.CONTEXT, Stop.TOKENS})


class CutOff(Exception):
    """The rollout cannot go on; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One try at a task."""

    task: str
    client: str
    """Of its episode."""
    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    mask: tuple[int, ...]
    """Of each token of `completion`: 1 where the policy wrote it."""
    logprobs: tuple[float, ...] | None
    turns: int
    acted: bool
    """Whether it asked the gateway for anything, so that there is an episode."""
    left_out: str | None = None
    """Why nothing is learned from it."""
    reward: float | None = None
    """0 to 1; None where it is left out."""


class SamplingModel:
    """Implements `Model`, for one rollout: answers come in rounds, and are kept as they were sampled."""

    def __init__(
        self, place: int, rounds: Rounds, reader: Reader, decode: Callable[[Sequence[int]], str], s: OnlineSettings
    ) -> None:
        self._place = place
        self._rounds = rounds
        self._reader = reader
        self._decode = decode
        self._most = s.model_tokens - s.limits.output_tokens
        self.transcript = Transcript(reader)
        self.turns = 0

    @property
    def identity(self) -> str:
        return "the policy that is trained"

    async def close(self) -> None:
        """Nothing is held open."""

    async def answer(self, conversation: Conversation, actions: tuple[Action, ...]) -> Answer:
        """See `Model`.

        Raises:
            CutOff: The sequence is too long, or the answer was.
        """
        transcript = self.transcript
        read = transcript.following(conversation, actions)
        if (length := len(transcript.tokens) + len(read)) > self._most:
            raise CutOff("the sequence is too long")
        transcript.read(read, len(conversation.exchanges))
        made = await self._rounds.ask(self._place, transcript.tokens)
        transcript.wrote(made.tokens, made.logprobs)
        self.turns += 1
        if made.tokens[-1:] != (self._reader.end,):
            raise CutOff("an answer was too long")
        said = without_reasoning(self._decode(made.tokens[:-1]))
        meant = found(said, {each.name for each in actions})
        words = said[:SAID_CHARS] if meant is None else meant.said
        asked = () if meant is None else (asked_of(meant, f"call{self.turns:05d}"),)
        return Answer(said=words, asked=asked, tokens_in=length, tokens_out=len(made.tokens))


async def play(
    tasks: Sequence[str],
    open_world: OpenWorld,
    rounds: Rounds,
    reader: Reader,
    decode: Callable[[Sequence[int]], str],
    settings: OnlineSettings,
) -> list[Rollout]:
    """One rollout for each of `tasks`, side by side, in their order; without rewards.

    Raises:
        ConfigurationError: The gateway does not answer, or lacks what the variant is about.
    """
    limits = unfolded(settings.limits)
    done: dict[int, Rollout] = {}
    failure: Exception | None = None

    async def one(place: int) -> None:
        nonlocal failure
        try:
            model = SamplingModel(place, rounds, reader, decode, settings)
            done[place] = await _rollout(tasks[place], model, open_world, limits, settings)
        except Exception as error:
            # Raised outside, for the task group would wrap it.
            failure = failure or error
            group.cancel_scope.cancel()
        finally:
            rounds.leave(place)

    async with anyio.create_task_group() as group:
        for place in range(len(tasks)):
            group.start_soon(one, place)
    if failure is not None:
        raise failure
    return [done[place] for place in sorted(done)]


def unfolded(limits: WorkLimits) -> WorkLimits:
    """With these a context is never folded: one rollout is one sequence."""
    return replace(limits, keep=limits.turns * MOST_AT_ONCE)


async def _rollout(
    task: str, model: SamplingModel, open_world: OpenWorld, limits: WorkLimits, settings: OnlineSettings
) -> Rollout:
    client = f"{CLIENT}{secrets.token_hex(8)}"
    left_out: str | None = None
    async with open_world(client) as world:
        telling = _Telling(world, task)
        try:
            worked = await work(task, model, Surface(telling, settings.variant), limits)
        except CutOff as cut:
            left_out = str(cut)
        else:
            if worked.stop in _CUT:
                left_out = f"it was cut off: the limit of {worked.stop}"
            elif worked.stop is not Stop.FINISHED and telling.acted:
                await world.call(FINISH, {"outcome": "abandoned", "answer": ""})
    transcript = model.transcript
    if left_out is None and not telling.acted:
        left_out = "it did nothing that could be read"
    return Rollout(
        task=task,
        client=client,
        prompt=transcript.prompt,
        completion=tuple(transcript.completion),
        mask=tuple(transcript.mask),
        logprobs=tuple(transcript.logprobs) if transcript.logprobs else None,
        turns=model.turns,
        acted=telling.acted,
        left_out=left_out,
    )


class _Telling:
    """Implements `World`: with every search goes the task in the user's words, which here are known, so that the judge
    has them. What the policy wrote is not changed by it."""

    def __init__(self, world: World, task: str) -> None:
        self._world = world
        self._task = task
        self.acted = False

    @property
    def introduction(self) -> str:
        return self._world.introduction

    @property
    def actions(self) -> tuple[Action, ...]:
        return self._world.actions

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        self.acted = True
        if name == "search_tools":
            arguments = {**arguments, "task": self._task}
        return await self._world.call(name, arguments)
