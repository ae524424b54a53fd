"""The head, trained on a planted catalogue: it learns, it leaves others alone, and it goes on where it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from proxy.errors import ConfigurationError  # noqa: E402
from proxy.router.adapters import Adapter, Kind, load_adapter  # noqa: E402
from proxy.router.base import Query  # noqa: E402
from proxy.router.embeddings import EmbeddingCache  # noqa: E402
from proxy.router.fusion import FusedRouter  # noqa: E402
from tests.proxy.router.encoders import WordEncoder  # noqa: E402
from tests.trainer.ranking.planted import ASKED, CATALOG, catalogue, log, query  # noqa: E402
from trainer.ranking.columns import columns  # noqa: E402
from trainer.ranking.examples import Example  # noqa: E402
from trainer.ranking.head import HeadPolicy  # noqa: E402
from trainer.ranking.settings import RankingSettings  # noqa: E402
from trainer.ranking.training import RankingProblem  # noqa: E402

SETTINGS = RankingSettings(epochs=6, batch=16, learning_rate=1e-2, good_episodes=3, seed=5)
ENCODER = WordEncoder()


def problem(settings: RankingSettings = SETTINGS, bad: float = 0.0, count: int = 96) -> RankingProblem:
    return RankingProblem(
        log(count, 1, bad), {CATALOG: catalogue()}, ENCODER, EmbeddingCache(None), settings, validation=log(16, 2)
    )


def trained(settings: RankingSettings = SETTINGS, bad: float = 0.0) -> RankingProblem:
    made = problem(settings, bad)
    while not made.done:
        made.step()
    return made


def saved(made: RankingProblem, folder: Path, facts: Mapping[str, Any] | None = None) -> Adapter:
    hashed = made.save(folder, facts or {})
    adapter = load_adapter(folder)
    assert adapter.hash == hashed
    return adapter


def found_first(adapter: Adapter | None) -> float:
    """The share of new queries whose tool stands first."""
    router = FusedRouter(catalogue(), ENCODER, EmbeddingCache(None), adapter)
    random = Random(9)
    asked = [(tool, query(tool, random)) for tool in sorted(ASKED) for _ in range(10)]
    return sum(router.rank(text, 1)[0].tool == tool for tool, text in asked) / len(asked)


def test_new_queries_find_their_tools_after_training(tmp_path: Path) -> None:
    made = problem()
    before = made.validate()
    losses: list[float] = []
    while not made.done:
        losses.append(made.step()["loss"])
    after = made.validate()
    assert losses[-1] < losses[0] / 2
    assert after["rankings"] < before["rankings"] / 2
    adapter = saved(made, tmp_path / "head", {"run": "planted"})
    assert (adapter.kind, adapter.servers, adapter.base_hash) == (Kind.HEAD, {"files", "weather"}, ENCODER.hash)
    assert adapter.facts["run"] == "planted"
    assert adapter.facts["settings"]["seed"] == 5
    assert found_first(None) < 0.5
    assert found_first(adapter) > 0.9


def test_rewards_beat_imitation_where_much_of_the_log_is_wrong(tmp_path: Path) -> None:
    rewarded = saved(trained(bad=0.7), tmp_path / "rewarded")
    imitating = replace(SETTINGS, algorithm="imitation")
    imitated = saved(trained(imitating, bad=0.7), tmp_path / "imitated")
    assert found_first(rewarded) > 0.8
    assert found_first(imitated) < found_first(rewarded) - 0.2


def test_tools_of_servers_that_no_good_log_has_shown_keep_their_scores_exactly() -> None:
    servers = catalogue()
    own = columns(servers, {"files", "weather"}, set(), others=100, seed=0)
    policy = HeadPolicy(servers, own, ENCODER, EmbeddingCache(None))
    asked = [Example(Query(text)) for text in ("send a letter", "umbrella tomorrow needed", "play songs. Or what?")]
    before, _ = policy.scores(asked)
    with torch.no_grad():
        policy.parameters()["head"].normal_(generator=torch.Generator().manual_seed(1))
    after, _ = policy.scores(asked)
    learned = torch.from_numpy(own.learned)
    assert torch.equal(before[:, ~learned], after[:, ~learned])
    assert not torch.isclose(before[:, learned], after[:, learned], atol=0.1).all()


def test_within_a_server_that_is_not_learned_nothing_changes_places(tmp_path: Path) -> None:
    adapter = saved(trained(), tmp_path / "head")
    routers = [FusedRouter(catalogue(), ENCODER, EmbeddingCache(None), each) for each in (None, adapter)]
    for text in ("send a letter", "umbrella tomorrow needed", "play songs by title", "glance at search"):
        for name in ("mail", "music"):
            within = Query(text, servers=frozenset({name}))
            before, after = ([found.tool for found in router.rank(within, 4)] for router in routers)
            assert before == after


@pytest.mark.parametrize("kept", [1, 7])
def test_a_run_goes_on_where_it_was_left(kept: int) -> None:
    whole = problem()
    losses = [whole.step()["loss"] for _ in range(kept)]
    state = whole.state_dict()
    # What it does afterwards must not reach into the state.
    losses += [whole.step()["loss"] for _ in range(6)]
    again = problem()
    again.load_state_dict(state)
    resumed = [again.step()["loss"] for _ in range(6)]
    assert resumed == pytest.approx(losses[kept:], abs=1e-5)
    assert again.validate() == pytest.approx(whole.validate(), abs=1e-5)


def test_a_state_survives_a_file_that_may_hold_no_code(tmp_path: Path) -> None:
    made = problem()
    made.step()
    torch.save(made.state_dict(), tmp_path / "state.pt")
    again = problem()
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert again.step() == pytest.approx(made.step(), abs=1e-5)


def test_accumulation_changes_memory_and_not_the_losses() -> None:
    whole, pieces = problem(replace(SETTINGS, batch=16)), problem(replace(SETTINGS, batch=4, accumulation=4))
    assert whole.steps == pieces.steps
    for _ in range(5):
        assert whole.step()["loss"] == pytest.approx(pieces.step()["loss"], abs=1e-5)


def test_updates_end_with_the_epochs_or_before() -> None:
    assert problem().steps == problem(replace(SETTINGS, most_updates=10_000)).steps > 7
    bounded = problem(replace(SETTINGS, most_updates=2))
    assert bounded.steps == 2
    bounded.step()
    assert not bounded.done
    bounded.step()
    assert bounded.done


def test_validation_changes_nothing() -> None:
    first, second = problem(), problem()
    for _ in range(3):
        first.validate()
        assert first.step() == second.step()


def test_what_cannot_be_trained_says_why() -> None:
    servers, cache = {CATALOG: catalogue()}, EmbeddingCache(None)
    with pytest.raises(ConfigurationError, match="no rankings"):
        RankingProblem([], servers, ENCODER, cache, SETTINGS, validation=log(4, 2))
    with pytest.raises(ConfigurationError, match="no server was right in 3 episodes"):
        RankingProblem(log(4, 1), servers, ENCODER, cache, SETTINGS, validation=log(4, 2))
    with pytest.raises(ConfigurationError, match="validation"):
        RankingProblem(log(40, 1), servers, ENCODER, cache, SETTINGS, validation=[])
    with pytest.raises(ConfigurationError, match="catalogue cccc"):
        RankingProblem(log(40, 1), {}, ENCODER, cache, SETTINGS, validation=log(4, 2))
