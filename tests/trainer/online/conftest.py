"""A gateway over three small servers, on the loop of a portal; the tokenizer of the tiny policy; rollouts that are
scripted in text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from sqlalchemy import select

from bench.targets.small_world import SmallWorld, small_world
from bench.targets.tiny_policy import system_of, tokenizer_of
from judge.checks.library import library
from judge.judging import Judge
from judge.settings import RewardSettings
from proxy.policy.base import Variant
from proxy.policy.client_world import connected, logged_as
from proxy.policy.limits import WorkLimits
from proxy.store.database import Database
from proxy.store.tables import EpisodeRow
from trainer.data.tokens import Reader
from trainer.online.live import LivePlay
from trainer.online.rounds import Sampled
from trainer.online.settings import OnlineSettings

SETTINGS = OnlineSettings(
    updates=2,
    tasks=1,
    group=4,
    micro_batch=4,
    learning_rate=1e-3,
    rank=0,
    limits=WorkLimits(turns=4, output_tokens=48, seconds=60),
    model_tokens=700,
)


@dataclass(frozen=True, slots=True)
class Live:
    """All that rollouts need."""

    portal: BlockingPortal
    world: SmallWorld
    database: Database
    judge: Judge
    tokenizer: Any
    reader: Reader

    def play(self, **changed: Any) -> LivePlay:
        return LivePlay(
            self.portal,
            lambda client: connected(self.world.url, Variant.TOOLS, client_name=client),
            self.database,
            self.judge,
            self.reader,
            partial(self.tokenizer.decode, skip_special_tokens=True),
            replace(SETTINGS, **changed),
        )

    async def episodes(self, clients: Sequence[str]) -> tuple[str, ...]:
        names = [logged_as(client) for client in clients]
        async with self.database.reading() as connection:
            rows = await connection.execute(select(EpisodeRow.id).where(EpisodeRow.client.in_(names)))
            return tuple(rows.scalars())

    def scripted(self, *texts: Sequence[str]) -> Callable[[Sequence[Sequence[int]]], list[Sampled]]:
        """The k-th rollout says its texts one after the other, each ended; of one that is over nothing is asked."""
        scripts = [iter(each) for each in texts]
        begun: dict[int, int] = {}

        def sample(sequences: Sequence[Sequence[int]]) -> list[Sampled]:
            if not begun:
                begun.update(dict.fromkeys(range(len(sequences)), 0))
            # Whoever is over has left: those that go on are asked in their order.
            running = [place for place in begun if begun[place] < len(texts[place])][: len(sequences)]
            made: list[Sampled] = []
            for place in running:
                begun[place] += 1
                text = next(scripts[place])
                ended = () if text.endswith("…") else (self.reader.end,)
                made.append(Sampled((*self.reader.tokens(text.removesuffix("…")), *ended), None))
            return made

        return sample


@pytest.fixture(scope="package")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder: Path = tmp_path_factory.mktemp("small-world")
    with start_blocking_portal() as portal:
        with portal.wrap_async_context_manager(small_world(folder)) as world:
            database = portal.call(partial(Database, world.database, statement_s=None))
            tokenizer = tokenizer_of(portal.call(system_of, world.url))
            judge = Judge(library(), RewardSettings())
            yield Live(portal, world, database, judge, tokenizer, Reader(tokenizer))
            portal.call(database.close)
