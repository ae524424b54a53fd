"""Between the trainer, which computes on its own thread, and the rollouts, which live on an event loop of another.

Above: running.py, tests and the bench. Below: playing.py, rewarding.py. Sampling is done by whoever calls `play`: what
belongs to a GPU stays on one thread, and the gateway, where it runs on this loop too, is not kept waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Protocol

from anyio.from_thread import BlockingPortal

from judge.judging import Judge
from proxy.store.database import Database
from trainer.data.tokens import Reader
from trainer.online.playing import OpenWorld, Rollout, play
from trainer.online.rewarding import rewarded
from trainer.online.rounds import Rounds, Sampled
from trainer.online.settings import OnlineSettings

Sample = Callable[[Sequence[Sequence[int]]], Sequence[Sampled]]
"""What a model writes after each of some sequences."""


class Play(Protocol):
    """Works tasks with the policy as it is now."""

    def __call__(self, tasks: Sequence[str], sample: Sample) -> list[Rollout]:
        """One rollout for each of `tasks`, in their order, with its reward or with why it has none.

        Raises:
            ConfigurationError: The gateway or its log cannot be used.
            Refused: The judge cannot be trusted.
        """
        ...


class LivePlay:
    """Implements `Play`.

    Args:
        portal: The loop on which rollouts, the log's connections and the judge live.
        decode: Tokens to text, without special ones.
    """

    def __init__(
        self,
        portal: BlockingPortal,
        open_world: OpenWorld,
        database: Database,
        judge: Judge,
        reader: Reader,
        decode: Callable[[Sequence[int]], str],
        settings: OnlineSettings,
    ) -> None:
        self._portal = portal
        self._open_world = open_world
        self._database = database
        self._judge = judge
        self._reader = reader
        self._decode = decode
        self._settings = settings

    def __call__(self, tasks: Sequence[str], sample: Sample) -> list[Rollout]:
        """See `Play`."""
        handed: SimpleQueue[list[list[int]] | None] = SimpleQueue()
        rounds = Rounds(len(tasks), handed.put)
        done = self._portal.start_task_soon(self._play, tuple(tasks), rounds)
        done.add_done_callback(lambda _: handed.put(None))
        try:
            while (asked := handed.get()) is not None:
                self._portal.call(rounds.answer, sample(asked))
        except BaseException:
            done.cancel()
            raise
        return done.result()

    async def _play(self, tasks: Sequence[str], rounds: Rounds) -> list[Rollout]:
        rollouts = await play(tasks, self._open_world, rounds, self._reader, self._decode, self._settings)
        return await rewarded(self._database, self._judge, rollouts)
