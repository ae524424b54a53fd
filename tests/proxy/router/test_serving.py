"""Searches under way while the router's process dies, hangs, changes its adapters and its catalogue: each is answered,
and says by whom.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import anyio
import pytest

from proxy.errors import ConfigurationError
from proxy.router.base import Query, Ranker, Ranking
from proxy.router.embeddings import EmbeddingCache
from proxy.router.fusion import FusedRouter
from proxy.router.serving import Roles, Serving, Shadowed
from proxy.router.unanswered import Why
from tests.fixtures import routed
from tests.fixtures.routed import LIMIT_S, SUBJECTS, until, words
from tests.fixtures.router_worker import WordEncoder

pytestmark = pytest.mark.anyio
KNOWN = routed.catalog()
TEXTS = [f"find {subject} for the user" for subject in SUBJECTS]
BY_WORDS = [words(KNOWN).rank(Query(text), 5) for text in TEXTS]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "embeddings.db"


async def ready(serving: Serving) -> Ranker:
    ranker = serving.serve(KNOWN, words(KNOWN))
    await until(lambda: serving.process.health.ready)
    return ranker


@asynccontextmanager
async def traffic(ranker: Ranker, agents: int = 8) -> AsyncIterator[list[Ranking]]:
    """Agents that search all the time; the answers so far."""
    answers: list[Ranking] = []
    numbers = count()
    stopping = False

    async def search() -> None:
        while not stopping:
            number = next(numbers)
            answers.append(await ranker.rank(Query(TEXTS[number % len(TEXTS)], episode=f"task-{number}"), 5))
            # So that the process gets its turns on a machine with few cores.
            await anyio.sleep(0.002)

    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            for _ in range(agents):
                tasks.start_soon(search)
            yield answers
            stopping = True


def by_words(ranking: Ranking) -> bool:
    """It is what words alone would have answered, and says so."""
    return ranking.policy == "lexical" and list(ranking.tools) in BY_WORDS


async def grown(answers: list[Ranking], by: int, policy: str) -> None:
    """Wait for more answers by one policy."""
    target = Counter(each.policy for each in answers)[policy] + by
    await until(lambda: Counter(each.policy for each in answers)[policy] >= target)


async def test_before_the_process_is_ready_words_answer_and_the_answer_says_why(cache: Path) -> None:
    async with routed.serving(cache, "slow") as serving:
        ranker = serving.serve(KNOWN, words(KNOWN))
        ranking = await ranker.rank(Query(TEXTS[0]), 5)
        assert by_words(ranking)
        assert ranking.degraded in (Why.DOWN.value, Why.STARTING.value)
        await until(lambda: serving.process.health.ready)
        ranking = await ranker.rank(Query(TEXTS[0]), 5)
        assert (ranking.policy, ranking.degraded, ranking.adapter) == ("fused", None, None)


async def test_searches_go_on_while_the_process_is_killed_and_it_comes_back(cache: Path) -> None:
    async with routed.serving(cache) as serving:
        ranker = await ready(serving)
        async with traffic(ranker) as answers:
            for kill in range(2):
                await grown(answers, 20, "fused")
                pid = serving.process.health.pid
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
                await grown(answers, 20, "lexical")
                await until(lambda kill=kill: serving.process.health.starts == kill + 2)
            await grown(answers, 20, "fused")
    degraded = [each for each in answers if each.degraded is not None]
    assert all(by_words(each) for each in degraded)
    assert {each.degraded for each in degraded} <= {Why.DOWN.value, Why.STARTING.value, Why.EMBEDDING.value}
    assert {each.policy for each in answers if each.degraded is None} == {"fused"}


async def test_searches_go_on_while_the_process_hangs_and_it_is_replaced(cache: Path) -> None:
    async with routed.serving(cache, budget_s=0.1) as serving:
        ranker = await ready(serving)
        async with traffic(ranker) as answers:
            await grown(answers, 20, "fused")
            pid = serving.process.health.pid
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
            await grown(answers, 20, "lexical")
            await until(lambda: serving.process.health.starts == 2)
            await grown(answers, 20, "fused")
    assert Why.LATE.value in {each.degraded for each in answers}
    assert all(by_words(each) for each in answers if each.degraded is not None)


async def test_a_changed_catalogue_is_searched_by_words_until_it_is_embedded(cache: Path) -> None:
    async with routed.serving(cache, "slow") as serving:
        old = routed.catalog(SUBJECTS[:1])
        serving.serve(old, words(old))
        await until(lambda: serving.process.health.ready)
        ranker = serving.serve(KNOWN, words(KNOWN))
        ranking = await ranker.rank(Query(TEXTS[3]), 5)
        assert by_words(ranking)
        assert ranking.degraded == "embedding new tools"
        await until(lambda: serving.process.health.ready)
        assert (await ranker.rank(Query(TEXTS[3]), 5)).policy == "fused"


async def test_a_thousand_searches_during_ten_swaps_are_each_answered_by_one_adapter(
    cache: Path, tmp_path: Path
) -> None:
    adapters = [routed.head(tmp_path / f"head{seed}", seed) for seed in range(2)]
    memory = EmbeddingCache(None)
    routers = {each.hash: FusedRouter(KNOWN.servers, WordEncoder(), memory, each) for each in adapters}
    expected = {
        (hashed, text): {found.tool: found.score for found in router.rank(Query(text), len(KNOWN.tools))}
        for hashed, router in routers.items()
        for text in TEXTS
    }
    answers: list[tuple[str, Ranking]] = []
    numbers = count()

    async def search() -> None:
        while len(answers) < 1_000 or swapping:
            text = TEXTS[next(numbers) % len(TEXTS)]
            answers.append((text, await ranker.rank(Query(text), len(KNOWN.tools))))

    async with routed.serving(cache) as serving:
        ranker = await ready(serving)
        await serving.set_adapters(active=adapters[0].folder)
        swapping = True
        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as tasks:
                for _ in range(16):
                    tasks.start_soon(search)
                for swap in range(10):
                    before = len(answers)
                    await serving.set_adapters(active=adapters[(swap + 1) % 2].folder)
                    await until(lambda before=before: len(answers) > before + 50)
                swapping = False
        assert serving.process.health.starts == 1
    assert len(answers) >= 1_000
    assert {each.degraded for _, each in answers} == {None}
    assert {each.adapter for _, each in answers} == routers.keys()
    for text, each in answers:
        assert each.adapter is not None
        assert {found.tool: found.score for found in each.tools} == pytest.approx(
            expected[each.adapter, text], rel=1e-3, abs=1e-3
        )


async def test_an_adapter_that_cannot_be_loaded_changes_nothing(cache: Path, tmp_path: Path) -> None:
    good = routed.head(tmp_path / "good", 1)
    routed.head(tmp_path / "foreign", 2, base_hash="another encoder")
    async with routed.serving(cache) as serving:
        ranker = await ready(serving)
        await serving.set_adapters(active=good.folder)
        for folder, reason in ((tmp_path / "none", "there is no adapter"), (tmp_path / "foreign", "another encoder")):
            with pytest.raises(ConfigurationError, match=reason):
                await serving.set_adapters(active=folder, shadow=good.folder)
        with pytest.raises(ConfigurationError, match="between 0 and 1"):
            await serving.set_adapters(canary=good.folder, share=1.5)
        assert serving.roles == Roles(active=good.folder)
        assert (await ranker.rank(Query(TEXTS[0]), 5)).adapter == good.hash
        # What was broken can be mended under the same name.
        mended = routed.head(tmp_path / "none", 3)
        await serving.set_adapters(active=mended.folder)
        assert (await ranker.rank(Query(TEXTS[0]), 5)).adapter == mended.hash


async def test_the_adapter_in_force_is_there_again_after_a_restart(cache: Path, tmp_path: Path) -> None:
    adapter = routed.head(tmp_path / "head", 1)
    async with routed.serving(cache) as serving:
        ranker = await ready(serving)
        await serving.set_adapters(active=adapter.folder)
        pid = serving.process.health.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: serving.process.health.starts == 2 and serving.process.health.ready)
        with anyio.fail_after(LIMIT_S):
            while (ranking := await ranker.rank(Query(TEXTS[0]), 5)).adapter is None:
                # Ranked without it until then, which the answer says.
                assert ranking.degraded is not None
        assert (ranking.adapter, ranking.degraded) == (adapter.hash, None)


async def test_without_its_adapter_the_router_ranks_and_says_so(cache: Path, tmp_path: Path) -> None:
    async with routed.serving(cache) as started:
        serving = Serving(started.process, LIMIT_S, tmp_path / "none")
        ranker = await ready(serving)
        ranking = await ranker.rank(Query(TEXTS[0]), 5)
        assert (ranking.policy, ranking.adapter, ranking.degraded) == ("fused", None, "without its adapter")


async def test_the_shadow_ranks_what_was_answered_and_nobody_waits_for_it(cache: Path, tmp_path: Path) -> None:
    active, shadow = routed.head(tmp_path / "active", 1), routed.head(tmp_path / "shadow", 2)
    seen: list[Shadowed] = []
    async with routed.serving(cache) as serving:
        ranker = await ready(serving)
        serving.observers.append(seen.append)
        await serving.set_adapters(active=active.folder, shadow=shadow.folder)
        answers = [await ranker.rank(Query(TEXTS[0]), 5)]
        assert not seen  # nothing was asked of the shadow before there was an answer
        answers += [await ranker.rank(Query(text), 5) for text in TEXTS[1:]]
        await until(lambda: len(seen) == len(TEXTS))
    assert {each.adapter for each in answers} == {active.hash}
    assert {each.shadow.adapter for each in seen} == {shadow.hash}
    assert [each.served for each in seen] == answers
    assert [each.query.text for each in seen] == TEXTS
    assert any(each.shadow.tools != each.served.tools for each in seen)


async def test_a_shadow_that_does_not_come_about_is_counted_and_costs_nothing(cache: Path, tmp_path: Path) -> None:
    shadow = routed.head(tmp_path / "shadow", 2)
    async with routed.serving(cache) as serving:
        ranker = await ready(serving)
        await serving.set_adapters(shadow=shadow.folder)
        ranking = await ranker.rank(Query(TEXTS[0]), 5)
        pid = serving.process.health.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: serving.shadows + serving.shadows_lost == 1)
        assert (ranking.policy, ranking.adapter, ranking.degraded) == ("fused", None, None)


async def test_a_canary_answers_whole_tasks_and_its_share_of_them(cache: Path, tmp_path: Path) -> None:
    active, canary = routed.head(tmp_path / "active", 1), routed.head(tmp_path / "canary", 2)
    async with routed.serving(cache) as serving:
        ranker = await ready(serving)
        await serving.set_adapters(active=active.folder, canary=canary.folder, share=0.25)
        rounds: list[list[str | None]] = [
            [(await ranker.rank(Query(text, episode=f"task-{task}"), 5)).adapter for task in range(40)]
            for text in TEXTS[:2]
        ]
        assert rounds[0] == rounds[1]
        assert set(rounds[0]) == {active.hash, canary.hash}
        assert (await ranker.rank(Query(TEXTS[0]), 5)).adapter == active.hash


def test_canaries_take_their_share_and_not_always_the_same_tasks() -> None:
    first, second = (
        Roles(active=Path("/a"), canary=Path(f"/{name}"), share=0.1) for name in ("first-canary", "second-canary")
    )
    tasks = [f"task-{number}" for number in range(5_000)]
    chosen = [{task for task in tasks if roles.of(task) == roles.canary} for roles in (first, second)]
    assert all(400 < len(each) < 600 for each in chosen)
    assert len(chosen[0] & chosen[1]) < 120
    assert [Roles(canary=Path("/c"), share=share).of("task") for share in (0.0, 1.0)] == [None, Path("/c")]
