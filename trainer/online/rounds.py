"""Rounds of sampling: rollouts run side by side, and those that go on all get their next answer in one batch.

Above: playing.py. Below: nothing. A round is handed over when every rollout that still runs waits for an answer; so a
model is never asked for one alone, and the same seeds give the same batches however fast servers were. Of one event
loop: what is handed over may be computed elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio


@dataclass(frozen=True, slots=True)
class Sampled:
    """One answer."""

    tokens: tuple[int, ...]
    """With the token that ends it, unless it was cut off."""
    logprobs: tuple[float, ...] | None
    """Of each of them as it was sampled; None where nobody tells."""


@dataclass(slots=True)
class _Wish:
    tokens: list[int]
    done: anyio.Event
    made: Sampled | None = None


class Rounds:
    """Of some rollouts, by their places from 0."""

    def __init__(self, rollouts: int, hand_over: Callable[[list[list[int]]], None]) -> None:
        """`hand_over` is told all that a round has to go on from; `answer` brings what came of it."""
        self._running = set(range(rollouts))
        self._waiting: dict[int, _Wish] = {}
        self._given: list[_Wish] = []
        self._hand_over = hand_over

    async def ask(self, place: int, tokens: list[int]) -> Sampled:
        """What the model writes after `tokens`."""
        wish = self._waiting[place] = _Wish(tokens, anyio.Event())
        self._begin()
        await wish.done.wait()
        assert wish.made is not None
        return wish.made

    def leave(self, place: int) -> None:
        """That rollout asks no more, whether it ended or was broken off."""
        self._running.discard(place)
        self._waiting.pop(place, None)
        self._begin()

    def answer(self, made: Sequence[Sampled]) -> None:
        """One for each that was handed over, in that order; nobody waits any more for those that were broken off."""
        given, self._given = self._given, []
        for wish, each in zip(given, made, strict=True):
            wish.made = each
            wish.done.set()
        # Somebody may have left meanwhile for whom the others had waited.
        self._begin()

    def _begin(self) -> None:
        if self._given or not self._running or self._waiting.keys() != self._running:
            return
        waiting, self._waiting = self._waiting, {}
        self._given = [waiting[place] for place in sorted(waiting)]
        self._hand_over([wish.tokens for wish in self._given])
