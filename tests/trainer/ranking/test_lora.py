"""LoRA on a tiny encoder and on a tiny causal model: each learns, is saved, loaded, and ranks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from proxy.errors import ConfigurationError  # noqa: E402
from proxy.router.adapters import Kind, load_adapter  # noqa: E402
from proxy.router.base import Query  # noqa: E402
from proxy.router.embeddings import EmbeddingCache  # noqa: E402
from proxy.router.encoder import TransformersEncoder, load_encoder  # noqa: E402
from proxy.router.fusion import FusedRouter  # noqa: E402
from proxy.router.language import LanguageRouter  # noqa: E402
from proxy.router.language_model import LanguageModel, load_language_model  # noqa: E402
from tests.fixtures.small_language_model import save_small_model  # noqa: E402
from tests.proxy.router.encoders import WordEncoder, tiny_bert  # noqa: E402
from tests.trainer.ranking.planted import CATALOG, catalogue, log  # noqa: E402
from trainer.ranking.columns import columns  # noqa: E402
from trainer.ranking.encoder_lora import EncoderLoraPolicy  # noqa: E402
from trainer.ranking.examples import Example  # noqa: E402
from trainer.ranking.scorer import ScorerPolicy  # noqa: E402
from trainer.ranking.settings import RankingSettings, defaults  # noqa: E402
from trainer.ranking.training import RankingProblem  # noqa: E402

# peft asks transformers for something under its old name.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")

ENCODER_SETTINGS = RankingSettings(
    kind=Kind.LORA, epochs=8, batch=12, learning_rate=1e-2, rank=4, candidates=2, anchor=0.0, seed=1
)
SCORER_SETTINGS = RankingSettings(
    kind=Kind.SCORER, epochs=3, batch=4, learning_rate=1e-2, rank=4, candidates=3, anchor=0.0, replay_share=0.25, seed=1
)
ASKED = ("umbrella tomorrow needed", "jot scribble", "send a letter to a friend")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TransformersEncoder:
    return load_encoder(str(tiny_bert(tmp_path_factory.mktemp("models") / "tiny")))


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_small_model(tmp_path_factory.mktemp("models") / "causal")


def of_encoder(tiny: TransformersEncoder, settings: RankingSettings = ENCODER_SETTINGS) -> RankingProblem:
    return RankingProblem(
        log(24, 1), {CATALOG: catalogue()}, tiny, EmbeddingCache(None), settings, validation=log(8, 2)
    )


def of_causal(model: LanguageModel, settings: RankingSettings = SCORER_SETTINGS) -> RankingProblem:
    servers, cache = {CATALOG: catalogue()}, EmbeddingCache(None)
    return RankingProblem(log(12, 1), servers, WordEncoder(), cache, settings, validation=log(4, 2), language=model)


def test_an_encoder_is_trained_saved_loaded_and_ranks(tiny: TransformersEncoder, tmp_path: Path) -> None:
    made = of_encoder(tiny)
    before = made.validate()
    assert made.step()["distance"] == 0.0
    while not made.done:
        last = made.step()
    assert last["distance"] > 0
    assert made.validate()["rankings"] < before["rankings"] - 0.1
    made.save(tmp_path / "lora", {})
    adapter = load_adapter(tmp_path / "lora")
    assert (adapter.kind, adapter.servers, adapter.base_hash) == (Kind.LORA, {"files", "weather"}, tiny.hash)
    routers = [FusedRouter(catalogue(), tiny, EmbeddingCache(None), each) for each in (None, adapter)]
    plain, adapted = ([router.rank(Query(text), 8) for text in ASKED] for router in routers)
    assert plain != adapted
    assert all(len(ranked) == 8 for ranked in adapted)


def test_an_encoder_trains_what_is_served(tiny: TransformersEncoder, tmp_path: Path) -> None:
    made = of_encoder(tiny)
    for _ in range(4):
        made.step()
    made.save(tmp_path / "lora", {})
    adapter, query = load_adapter(tmp_path / "lora"), log(1, 3)[0].query
    own = columns(catalogue(), adapter.servers, (), others=ENCODER_SETTINGS.negatives, seed=0)
    policy = EncoderLoraPolicy(catalogue(), own, tiny, EmbeddingCache(None), rank=ENCODER_SETTINGS.rank, read=8)
    with torch.no_grad():
        for name, value in policy.parameters().items():
            value.copy_(made.state_dict()["parameters"][name])
        scores, _ = policy.scores([Example(query)])
    # What of a tool's score is made of its server's is not trained.
    served, _ = FusedRouter(catalogue(), tiny, EmbeddingCache(None), adapter)._evidence(query.text)
    plain, _ = FusedRouter(catalogue(), tiny, EmbeddingCache(None))._evidence(query.text)
    assert scores[0].tolist() == pytest.approx(served.tolist(), abs=1e-3)
    assert served.tolist() != pytest.approx(plain.tolist(), abs=1e-1)


def test_the_encoder_that_is_given_stays_as_it_is(tiny: TransformersEncoder) -> None:
    before = tiny.encode(ASKED)
    made = of_encoder(tiny)
    made.step()
    made.step()
    assert (tiny.encode(ASKED) == before).all()


def test_an_encoders_training_goes_on_where_it_was_left(tiny: TransformersEncoder) -> None:
    whole = of_encoder(tiny)
    whole.step()
    state = whole.state_dict()
    losses = [whole.step()["loss"] for _ in range(3)]
    again = of_encoder(tiny)
    again.load_state_dict(state)
    assert [again.step()["loss"] for _ in range(3)] == pytest.approx(losses, abs=1e-5)


def test_an_encoder_that_is_none_of_transformers_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="train a head"):
        RankingProblem(
            log(24, 1),
            {CATALOG: catalogue()},
            WordEncoder(),
            EmbeddingCache(None),
            ENCODER_SETTINGS,
            validation=log(8, 2),
        )


def test_a_causal_model_is_trained_saved_loaded_and_ranks(causal: str, tmp_path: Path) -> None:
    made = of_causal(load_language_model(causal))
    before = made.validate()
    while not made.done:
        last = made.step()
    assert last["distance"] > 0
    assert made.validate()["rankings"] < before["rankings"]
    made.save(tmp_path / "scorer", {})
    adapter = load_adapter(tmp_path / "scorer")
    served = load_language_model(causal)
    assert (adapter.kind, adapter.base_hash) == (Kind.SCORER, served.hash)
    base = FusedRouter(catalogue(), WordEncoder(), EmbeddingCache(None))
    plain = [LanguageRouter(base, catalogue(), served).rank(Query(text), 8) for text in ASKED]
    adapted = [LanguageRouter(base, catalogue(), served, adapter=adapter).rank(Query(text), 8) for text in ASKED]
    assert plain != adapted


def test_a_scorer_trains_what_is_served(causal: str, tmp_path: Path) -> None:
    made = of_causal(load_language_model(causal), replace(SCORER_SETTINGS, epochs=1))
    while not made.done:
        made.step()
    made.save(tmp_path / "scorer", {})
    query = log(1, 3)[0].query
    base = FusedRouter(catalogue(), WordEncoder(), EmbeddingCache(None))
    adapter = load_adapter(tmp_path / "scorer")
    served = LanguageRouter(base, catalogue(), load_language_model(causal), adapter=adapter).rank(query, 8)

    model = load_language_model(causal)
    learned = {tool.written for server in catalogue() if server.name in adapter.servers for tool in server.tools}
    policy = ScorerPolicy(model, base, learned, rank=SCORER_SETTINGS.rank, candidates=8)
    problem = of_causal(load_language_model(causal), replace(SCORER_SETTINGS, epochs=1))
    while not problem.done:
        problem.step()
    with torch.no_grad():
        for name, value in policy.parameters().items():
            value.copy_(problem.state_dict()["parameters"][name])
        scores, places = policy.scores([Example(query)])
    trained = {tool: scores[0, place].item() for tool, place in places[0].items()}
    assert trained == pytest.approx({each.tool: each.score for each in served}, abs=1e-3)


def test_a_scorer_needs_a_language_model() -> None:
    with pytest.raises(ConfigurationError, match="language model"):
        RankingProblem(
            log(24, 1),
            {CATALOG: catalogue()},
            WordEncoder(),
            EmbeddingCache(None),
            defaults(Kind.SCORER),
            validation=log(8, 2),
        )


@pytest.mark.parametrize("kind", [Kind.HEAD, Kind.LORA, Kind.SCORER])
def test_each_kind_of_ranker_has_defaults(kind: Kind) -> None:
    assert defaults(kind).kind is kind
