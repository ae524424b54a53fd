"""A gateway and its registry: what is promoted is served, what is rolled back goes, what is broken is refused."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import anyio
import pytest

from proxy.router.adapters import MANIFEST
from proxy.router.base import Query, Ranker, Ranking
from proxy.router.following import Following
from proxy.router.guard import CanaryGuard
from proxy.router.serving import Serving
from proxy.store.database import Database
from proxy.store.migrating import migrate
from proxy.store.registry import InForce, State, entry, in_force, roll_back, set_state
from tests.fixtures import routed
from tests.fixtures.registered import at, named
from tests.fixtures.routed import LIMIT_S, SUBJECTS, until, words

pytestmark = pytest.mark.anyio
KNOWN = routed.catalog()
TEXTS = [f"find {subject} for the user" for subject in SUBJECTS]


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    await migrate(url)
    database = Database(url)
    yield database
    await database.close()


class Bench:
    """A folder of adapters, and whatever follows the registry."""

    def __init__(self, folder: Path, serving: Serving, following: Following, ranker: Ranker) -> None:
        self.folder = folder
        self.serving = serving
        self.following = following
        self.ranker = ranker
        self._numbers = count()

    def head(self, seed: int, base: str | None = None) -> str:
        return head(self.folder, seed, base)

    async def served(self, **roles: str | float) -> None:
        """Wait until searches are answered with this and nothing else."""
        await until(lambda: self.following.state.serving == InForce(**roles))  # type: ignore[arg-type]

    async def refused(self, hashed: str, reason: str) -> None:
        await until(lambda: reason in self.following.state.refused.get(hashed, ""))

    async def search(self, episode: str | None = None) -> Ranking:
        return await self.ranker.rank(Query(TEXTS[next(self._numbers) % len(TEXTS)], episode=episode), 5)


def head(folder: Path, seed: int, base: str | None = None) -> str:
    """Save one, as the trainer does: under its hash."""
    draft = folder / f"draft-{seed}"
    saved = routed.head(draft, seed) if base is None else routed.head(draft, seed, base_hash=base)
    draft.rename(folder / saved.hash)
    return saved.hash


@asynccontextmanager
async def following(
    folder: Path, database: Database, *ways: str, budget_s: float = LIMIT_S, guarded: bool = False
) -> AsyncIterator[Bench]:
    adapters = folder / "adapters"
    adapters.mkdir(exist_ok=True)
    async with routed.serving(folder / "embeddings.db", *ways, budget_s=budget_s, timing=routed.PATIENT) as serving:
        ranker = serving.serve(KNOWN, words(KNOWN))
        await until(lambda: serving.process.health.ready)
        follower = Following(serving, database, adapters, every_s=0.02)
        if guarded:
            CanaryGuard(serving, follower.withdraw)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follower.run)
            with anyio.fail_after(2 * LIMIT_S):
                yield Bench(adapters, serving, follower, ranker)
            tasks.cancel_scope.cancel()


async def test_what_the_registry_says_is_served_without_a_restart(database: Database, tmp_path: Path) -> None:
    async with following(tmp_path, database) as bench:
        first, second = bench.head(1), bench.head(2)
        await at(database, first, State.ACTIVE)
        await bench.served(active=first)
        assert (await bench.search()).adapter == first
        await at(database, second, State.SHADOW)
        await bench.served(active=first, shadow=second)
        await set_state(database, second, State.CANARY, "so far so good", by="watch", share=1.0)
        await bench.served(active=first, canary=second, share=1.0)
        assert (await bench.search("a task")).adapter == second
        await set_state(database, second, State.ACTIVE, "passed", by="watch")
        await bench.served(active=second)
        await roll_back(database, "not good after all", by="ann")
        await bench.served(active=first)
        assert (await bench.search()).adapter == first
        assert bench.serving.process.health.starts == 1


async def test_a_thousand_searches_during_ten_changes_of_the_registry_are_each_answered_by_one_adapter(
    database: Database, tmp_path: Path
) -> None:
    answers: list[tuple[int, Ranking]] = []
    numbers = count()
    async with following(tmp_path, database) as bench:
        adapters = [bench.head(seed) for seed in range(11)]
        await at(database, adapters[0], State.ACTIVE)
        await bench.served(active=adapters[0])
        swapping = True

        async def search() -> None:
            while swapping or len(answers) < 1_000:
                text = next(numbers) % len(TEXTS)
                answers.append((text, await bench.ranker.rank(Query(TEXTS[text], episode=f"task-{text}"), 5)))

        async with anyio.create_task_group() as tasks:
            for _ in range(16):
                tasks.start_soon(search)
            for each in adapters[1:]:
                await at(database, each, State.ACTIVE)
                await until(lambda each=each: bench.following.state.serving.active == each)
                before = len(answers)
                await until(lambda before=before: len(answers) >= before + 50)
            swapping = False
        assert bench.serving.process.health.starts == 1
        # What each one says by itself, once nothing changes any more.
        alone: dict[tuple[str | None, int], Ranking] = {}
        for each in adapters:
            await bench.serving.set_adapters(active=bench.folder / each)
            for text, words_ in enumerate(TEXTS):
                alone[each, text] = await bench.ranker.rank(Query(words_), 5)
    assert len(answers) >= 1_000
    assert {each.degraded for _, each in answers} == {None}
    assert {each.adapter for _, each in answers} == set(adapters)
    for text, each in answers:
        assert [found.tool for found in each.tools] == [found.tool for found in alone[each.adapter, text].tools]


def _no_manifest(folder: Path) -> None:
    (folder / MANIFEST).unlink()


def _half_weights(folder: Path) -> None:
    weights = folder / "head.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])


def _no_weights(folder: Path) -> None:
    (folder / "head.safetensors").unlink()


def _other_weights(folder: Path) -> None:
    weights = folder / "head.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)


def _other_manifest(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, "servers": []}))


def _half_manifest(folder: Path) -> None:
    text = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(text[: len(text) // 2])


def _gone(folder: Path) -> None:
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_no_manifest, "there is no adapter in"),
        (_half_manifest, "there is no adapter in"),
        (_half_weights, "is damaged"),
        (_no_weights, "there is no adapter in"),
        (_other_weights, "is damaged"),
        (_other_manifest, "is damaged"),
        (_gone, "there is no adapter in"),
    ],
)
async def test_a_half_written_adapter_is_never_served_and_is_once_it_is_whole(
    database: Database,
    tmp_path: Path,
    spoil: Callable[[Path], None],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with following(tmp_path, database) as bench:
        good, broken = bench.head(1), bench.head(2)
        shutil.copytree(bench.folder / broken, tmp_path / "whole")
        spoil(bench.folder / broken)
        await at(database, good, State.ACTIVE)
        await bench.served(active=good)
        with caplog.at_level(logging.ERROR, "toolatlas.router"):
            await at(database, broken, State.ACTIVE)
            await bench.refused(broken, reason)
            await until(lambda: bench.following.state.wanted.active == broken)
            # A few more looks at the registry, and searches meanwhile.
            for _ in range(20):
                assert (await bench.search()).adapter == good
                await anyio.sleep(0.01)
        assert bench.following.state.serving == InForce(active=good)
        told = [record for record in caplog.records if broken[:12] in record.getMessage()]
        assert len(told) == 1
        shutil.copytree(tmp_path / "whole", bench.folder / broken, dirs_exist_ok=True)
        await bench.served(active=broken)
        assert bench.following.state.refused == {}


async def test_one_that_is_under_another_ones_name_or_for_another_encoder_is_refused(
    database: Database, tmp_path: Path
) -> None:
    async with following(tmp_path, database) as bench:
        good, foreign = bench.head(1), bench.head(2, "another encoder")
        shutil.copytree(bench.folder / good, bench.folder / named("other"))
        await at(database, named("other"), State.CANARY, share=1.0)
        await bench.refused(named("other"), "is another one")
        await roll_back(database, "it is none", by="ann")
        await at(database, foreign, State.CANARY, share=1.0)
        await bench.refused(foreign, "trained on another encoder")
        assert bench.following.state.serving == InForce()
        assert bench.following.state.refused.keys() == {foreign}


async def test_a_refused_canary_keeps_nothing_else_from_being_served(database: Database, tmp_path: Path) -> None:
    async with following(tmp_path, database) as bench:
        active, shadow = bench.head(1), bench.head(2)
        await at(database, active, State.ACTIVE)
        await at(database, named("nowhere"), State.CANARY)
        await at(database, shadow, State.SHADOW)
        await bench.served(active=active, shadow=shadow)
        await bench.refused(named("nowhere"), "there is no adapter in")


async def test_what_was_rolled_back_goes_though_the_one_before_cannot_be_loaded(
    database: Database, tmp_path: Path
) -> None:
    async with following(tmp_path, database) as bench:
        bad = bench.head(1)
        await at(database, named("lost"), State.ACTIVE)
        await at(database, bad, State.ACTIVE)
        await bench.served(active=bad)
        await roll_back(database, "harmful", by="ann")
        await bench.served()
        assert (await bench.search()).adapter is None


async def test_a_change_does_not_wait_for_what_takes_long_to_load(database: Database, tmp_path: Path) -> None:
    """As of a LoRA over a large catalogue, whose tools are embedded anew; here the process is halted meanwhile."""
    async with following(tmp_path, database) as bench:
        good, slow = bench.head(1), bench.head(2)
        await at(database, good, State.ACTIVE)
        await bench.served(active=good)
        pid = bench.serving.process.health.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            await at(database, slow, State.SHADOW)
            await until(lambda: bench.following.state.wanted.shadow == slow)
            await roll_back(database, "at once", by="ann")
            await bench.served()
        finally:
            os.kill(pid, signal.SIGCONT)
        await bench.served(shadow=slow)


async def test_without_its_database_a_gateway_serves_on_as_before(tmp_path: Path) -> None:
    missing = Database(f"sqlite:///{tmp_path / 'none' / 'log.db'}")
    try:
        async with following(tmp_path, missing) as bench:
            await until(lambda: bench.following.state.problem is not None)
            assert (await bench.search()).degraded is None
    finally:
        await missing.close()


async def test_a_canary_that_fails_is_taken_back_here_and_in_the_registry(database: Database, tmp_path: Path) -> None:
    async with following(tmp_path, database, "failing", guarded=True) as bench:
        active, canary = bench.head(1), bench.head(2)
        await at(database, active, State.ACTIVE)
        await at(database, canary, State.CANARY, share=0.5)
        await bench.served(active=active, canary=canary, share=0.5)
        roles = bench.serving.roles
        tasks = [f"task-{number}" for number in range(200)]
        of_canary = [each for each in tasks if roles.of(each) == roles.canary]
        others = [each for each in tasks if each not in of_canary]
        for each in others[:40]:
            await bench.ranker.rank(Query("find mail", episode=each), 5)
        assert (await in_force(database)).canary == canary
        for each in of_canary[:20]:
            await bench.ranker.rank(Query("fail", episode=each), 5)
        await bench.served(active=active)
        await until_registry(database, canary, State.RETIRED)
        change = (await entry(database, canary)).history[-1]
        assert change.by == "gateway"
        assert "5 of its 5 queries" in (change.reason or "")
        assert "0 of 40 of the others" in (change.reason or "")


async def test_what_is_withdrawn_goes_before_the_registry_can_be_written(database: Database, tmp_path: Path) -> None:
    other = Database(f"sqlite:///{tmp_path / 'log.db'}")
    async with following(tmp_path, database) as bench:
        canary = bench.head(1)
        await at(database, canary, State.CANARY, share=0.5)
        await bench.served(canary=canary, share=0.5)
        async with other.writing():
            # Whoever writes now waits.
            bench.following.withdraw(canary, "it fails")
            await bench.served()
            assert (await in_force(database)).canary == canary
        await until_registry(database, canary, State.RETIRED)
        assert (await entry(database, canary)).history[-1].reason == "it fails"
    await other.close()


async def test_a_canary_is_not_taken_back_for_what_fails_everywhere(database: Database, tmp_path: Path) -> None:
    async with following(tmp_path, database, "failing", guarded=True) as bench:
        active, canary = bench.head(1), bench.head(2)
        await at(database, active, State.ACTIVE)
        await at(database, canary, State.CANARY, share=0.5)
        await bench.served(active=active, canary=canary, share=0.5)
        seen: Counter[str | None] = Counter()
        for number in range(200):
            text = "fail" if number % 10 < 3 else "find mail"
            seen[(await bench.ranker.rank(Query(text, episode=f"task-{number // 10}"), 5)).adapter] += 1
        assert seen[canary] > 20
        assert bench.following.state.serving == InForce(active=active, canary=canary, share=0.5)


async def until_registry(database: Database, hashed: str, state: State) -> None:
    with anyio.fail_after(LIMIT_S):
        while (await entry(database, hashed)).state is not state:
            await anyio.sleep(0.01)
