"""The second stage in the router's process: it answers, adapters are changed under it, and without it words and meaning
do.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("peft", reason="a light installation loads no model")

from starlette.responses import Response

from proxy.errors import ConfigurationError
from proxy.router.adapters import Kind, save_adapter
from proxy.router.base import Query, Ranking
from proxy.router.language_model import LanguageModel, load_language_model
from proxy.router.serving import Serving, Shadowed
from tests.fixtures import routed
from tests.fixtures.openai_server import Asked, likely, openai_server
from tests.fixtures.routed import LIMIT_S, MODEL_LIMIT_S, SUBJECTS, until, words
from tests.fixtures.small_language_model import lora, save_small_model

# peft asks transformers for something under its old name.
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(2 * MODEL_LIMIT_S),
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),
]
KNOWN = routed.catalog()
SLOW = replace(routed.QUICK, mute_s=MODEL_LIMIT_S, hang_s=MODEL_LIMIT_S, build_s=MODEL_LIMIT_S, load_s=MODEL_LIMIT_S)
"""A model may take its time."""
QUERY = Query("find the weather for the user")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "embeddings.db"


@pytest.fixture
def small(tmp_path: Path) -> LanguageModel:
    return load_language_model(save_small_model(tmp_path / "small"))


def scorer(model: LanguageModel, folder: Path, seed: int) -> Path:
    trained = lora(model.model, seed)
    return save_adapter(folder, base_hash=model.hash, servers=SUBJECTS, lora=trained, kind=Kind.SCORER).folder


async def asked(serving: Serving, query: Query = QUERY) -> Ranking:
    ranker = serving.serve(KNOWN, words(KNOWN))
    await until(lambda: serving.process.health.ready, MODEL_LIMIT_S)
    return await ranker.rank(query, 5)


def scores(ranking: Ranking) -> list[tuple[str, float]]:
    return [(found.tool, round(found.score, 3)) for found in ranking.tools]


async def test_a_language_model_answers_and_its_adapters_are_changed_under_it(
    tmp_path: Path, cache: Path, small: LanguageModel
) -> None:
    one, two = (scorer(small, tmp_path / f"scorer{seed}", seed) for seed in (1, 2))
    head = routed.head(tmp_path / "head", 3).folder
    shadows: list[Shadowed] = []
    async with routed.serving(cache, f"slm:{tmp_path / 'small'}", timing=SLOW) as serving:
        serving.observers.append(shadows.append)
        plain = await asked(serving)
        assert (plain.policy, plain.adapter, plain.degraded) == ("slm:small", None, None)
        await serving.set_adapters(active=one, shadow=two)
        first = await asked(serving)
        await until(lambda: len(shadows) == 1)
        await serving.set_adapters(active=two)
        second = await asked(serving)
        assert {each.policy for each in (first, second, shadows[0].shadow)} == {"slm:small"}
        assert None not in {first.adapter, second.adapter}
        assert first.adapter != second.adapter == shadows[0].shadow.adapter
        assert scores(second) == scores(shadows[0].shadow)
        assert scores(plain) != scores(first) != scores(second)
        # One that turns the encoder's queries changes what is found, and the model itself reorders that.
        await serving.set_adapters(active=head)
        assert (await asked(serving)).adapter is not None
        await serving.set_adapters()
        assert (await asked(serving), serving.process.health.starts) == (plain, 1)


async def test_an_adapter_of_the_model_needs_the_model(tmp_path: Path, cache: Path, small: LanguageModel) -> None:
    folder = scorer(small, tmp_path / "scorer", 1)
    async with routed.serving(cache) as serving:
        before = await asked(serving)
        with pytest.raises(ConfigurationError, match="--router slm:MODEL"):
            await serving.set_adapters(active=folder)
        assert await asked(serving) == before


async def test_a_model_that_is_not_there_is_said_and_words_alone_answer(tmp_path: Path, cache: Path) -> None:
    async with routed.serving(cache, f"slm:{tmp_path}", timing=SLOW) as serving:
        await until(lambda: serving.process.health.problem is not None, MODEL_LIMIT_S)
        assert "no language model can be loaded from" in (serving.process.health.problem or "")
        ranking = await serving.serve(KNOWN, words(KNOWN)).rank(QUERY, 5)
    assert ranking.policy == "lexical"
    assert ranking.degraded in ("down", "starting")


async def test_a_model_behind_a_url_answers_from_within_the_process(cache: Path) -> None:
    pytest.importorskip("openai", reason="a light installation asks no model")

    def last(asked: Asked) -> Response:
        letters = [line[0] for line in asked.user.splitlines() if line[1:3] == ". "]
        more = 0.1 if QUERY.text in asked.user else 0.0
        return likely(*((letter, -5.0 + place * more) for place, letter in enumerate(letters)))

    async with (
        openai_server(last) as served,
        routed.serving(cache, f"endpoint:{served.url}#big", timing=SLOW) as serving,
    ):
        ranking = await asked(serving)
    assert (ranking.policy, ranking.degraded) == ("endpoint:big", None)
    assert served.asked
    assert [found.score for found in ranking.tools] == sorted((found.score for found in ranking.tools), reverse=True)


async def test_a_url_that_does_not_answer_leaves_the_order_of_words_and_meaning(cache: Path) -> None:
    pytest.importorskip("openai", reason="a light installation asks no model")
    over = asyncio.Event()

    async def never(asked: Asked) -> Response:
        await asyncio.wait_for(over.wait(), LIMIT_S)
        return Response(status_code=503)

    async with openai_server(never) as served:
        async with routed.serving(cache) as serving:
            fused = await asked(serving)
        async with routed.serving(cache, f"endpoint:{served.url}#big", timing=SLOW) as serving:
            ranking = await asked(serving)
            over.set()
    assert (ranking.policy, ranking.degraded, ranking.tools) == ("fused", "late", fused.tools)
