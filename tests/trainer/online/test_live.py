"""Rollouts through a whole gateway: what they read, which of it is learned, and what the judge gives for it."""

from __future__ import annotations

from functools import partial

import pytest

from bench.targets.small_world import ERRANDS, Errand
from proxy.errors import ConfigurationError
from proxy.store.filters import Filters
from proxy.store.rendering import action
from tests.trainer.online.conftest import Live
from trainer.data.collecting import collect, collected_policy_rows
from trainer.data.policy_rows import PolicySettings
from trainer.data.settings import DataSettings
from trainer.rows import PolicyRow

ERRAND = ERRANDS[0]


def search(errand: Errand = ERRAND) -> str:
    return action("search_tools", {"query": errand.query, "task": errand.task})


def call(city: str, errand: Errand = ERRAND) -> str:
    return action("call_tool", {"tool": errand.subject.written, "arguments": {"city": city}})


def finish(answer: str, outcome: str = "done") -> str:
    return action("finish_task", {"outcome": outcome, "answer": answer})


def test_only_what_the_policy_wrote_is_learned_and_the_rest_is_what_the_gateway_answered(live: Live) -> None:
    said = [search(), call("Oslo"), finish(ERRAND.subject.told("Oslo"))]
    (rollout,) = live.play()([ERRAND.task], live.scripted(said))
    pairs = list(zip(rollout.completion, rollout.mask, strict=True))
    own = live.tokenizer.decode([token for token, mask in pairs if mask])
    read = live.tokenizer.decode([token for token, mask in pairs if not mask])
    assert own == "".join(f"{each}<|im_end|>" for each in said)
    assert read.count("<|im_start|>user\n") == 2
    assert "census.population(city: str)" in read
    assert "712 people live in Oslo." in read
    assert rollout.reward == 1.0


def test_a_rollout_has_the_tokens_that_rows_of_its_episode_have(live: Live) -> None:
    said = [search(), call("Lima"), finish(ERRAND.subject.told("Lima"))]
    (rollout,) = live.play()([ERRAND.task], live.scripted(said))

    async def rows() -> list[PolicyRow]:
        episodes = await live.episodes([rollout.client])
        found = await collect(live.database, DataSettings(), filters=Filters(ids=episodes), judge=live.judge.name)
        return [row async for row in collected_policy_rows(live.database, found, live.reader, PolicySettings())]

    (row,) = live.portal.call(rows)
    tokens = [token for segment in row.segments for token in segment.tokens]
    assert tokens == [*rollout.prompt, *rollout.completion]
    learned = [float(weight > 0) for each in row.segments for weight in (each.weights or (0.0,) * len(each.tokens))]
    assert learned == [*[0.0] * len(rollout.prompt), *map(float, rollout.mask)]


def test_another_city_earns_less_and_giving_up_next_to_nothing(live: Live) -> None:
    well = [search(), call("Oslo"), finish(ERRAND.subject.told("Oslo"))]
    other = [search(), call("Lima"), finish(ERRAND.subject.told("Lima"))]
    gives_up = [search(), finish("I could not find it.", "abandoned")]
    rollouts = live.play()([ERRAND.task] * 3, live.scripted(well, other, gives_up))
    best, less, least = (each.reward for each in rollouts)
    assert best is not None
    assert less is not None
    assert least is not None
    assert best > less > least


def test_one_that_never_comes_to_an_end_is_judged_as_without_an_answer(live: Live) -> None:
    (rollout,) = live.play()([ERRAND.task], live.scripted([search()] * 4))
    assert rollout.turns == 4
    assert rollout.left_out is None
    assert rollout.reward is not None
    assert rollout.reward <= 0.3


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (["search_tools {…"], "an answer was too long"),
        (["Well, well."] * 2, "it did nothing that could be read"),
        ([call("Oslo"), finish("712 people live in Oslo.")], "only its calls+answer could be judged"),
    ],
)
def test_without_a_comparable_reward_it_is_left_out_and_not_a_zero(live: Live, said: list[str], why: str) -> None:
    (rollout,) = live.play()([ERRAND.task], live.scripted(said))
    assert (rollout.reward, rollout.left_out) == (None, why)


def test_a_sequence_that_would_be_too_long_is_cut_off(live: Live) -> None:
    (rollout,) = live.play(model_tokens=120)([ERRAND.task], live.scripted([search(), call("Oslo")]))
    assert (rollout.reward, rollout.left_out) == (None, "the sequence is too long")


def test_a_failure_of_sampling_comes_out_and_leaves_nothing_running(live: Live) -> None:
    def broken(_: object) -> list[object]:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        live.play()([ERRAND.task] * 2, broken)  # pyright: ignore[reportArgumentType]


def test_the_log_of_another_gateway_is_noticed(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainer.online import rewarding
    from trainer.online.playing import Rollout

    monkeypatch.setattr(rewarding, "LOGGED_S", 0.2)
    one = (1,)
    lost = Rollout(
        task="t", client="nobody", prompt=one, completion=one, mask=one, logprobs=None, turns=1, acted=True
    )  # fmt: skip
    with pytest.raises(ConfigurationError, match="1 of 1 episodes did not come into the log"):
        live.portal.call(partial(rewarding.rewarded, live.database, live.judge, [lost]))
