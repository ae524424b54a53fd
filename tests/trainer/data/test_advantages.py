"""Advantages by hand, and what holds for any rewards."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import ConfigurationError
from proxy.store.rewards import Reward
from tests.trainer.data.made import unhurried
from trainer.data.advantages import LEAST_SD, advantages, turn_advantages
from trainer.data.settings import AdvantageSettings

DEFAULT = AdvantageSettings()
PLAIN = AdvantageSettings(shrinkage=0.0)


def rewarded(id: str, reward: float | None, family: str | None = "f", **changed: Any) -> Reward:
    values: dict[str, Any] = {"judge": "checks", "rubric_hash": "r", "scope": "calls", **changed}
    return Reward(episode_id=id, family=family, reward=reward, unrewarded=None, credits={}, **values)


def many(most: int = 12) -> st.SearchStrategy[list[Reward]]:
    one = st.builds(
        lambda reward, family, scope, rubric: (reward, family, scope, rubric),
        st.one_of(st.none(), st.floats(0, 1)),
        st.sampled_from([None, "f", "g"]),
        st.sampled_from(["calls", "calls+task"]),
        st.sampled_from(["r", "s"]),
    )
    return st.lists(one, min_size=1, max_size=most).map(
        lambda each: [
            rewarded(f"e{place}", reward, family, scope=scope, rubric_hash=rubric)
            for place, (reward, family, scope, rubric) in enumerate(each)
        ]
    )


def test_the_equation_by_hand() -> None:
    rewards = [rewarded("a", 1.0), rewarded("b", 0.5), rewarded("c", 0.0, "g"), rewarded("d", 0.5, None)]
    mean, sd = 0.5, math.sqrt(0.5 / 4)
    found = advantages(rewards, AdvantageSettings(shrinkage=2.0))
    assert found == pytest.approx(
        {
            "a": (1.0 - (1.5 + 2 * mean) / 4) / sd,
            "b": (0.5 - (1.5 + 2 * mean) / 4) / sd,
            # A group of one is mostly the mean of all.
            "c": (0.0 - (0.0 + 2 * mean) / 3) / sd,
            # Without a family, the mean of all it may be compared with.
            "d": 0.0,
        }
    )


def test_missing_is_left_out_and_never_zero() -> None:
    known = [rewarded("a", 0.75), rewarded("b", 0.25)]
    missing = rewarded("c", None)
    assert advantages([*known, missing], DEFAULT) == advantages(known, DEFAULT)


def test_rewards_that_are_all_alike_are_not_told_apart() -> None:
    assert advantages([rewarded("a", 0.9), rewarded("b", 0.9)], PLAIN) == {"a": 0.0, "b": 0.0}
    found = advantages([rewarded("a", 0.901), rewarded("b", 0.9)], PLAIN)
    assert found["a"] == pytest.approx(0.0005 / LEAST_SD)
    assert advantages([], DEFAULT) == {}


def test_rewards_of_two_rubrics_judges_or_scopes_are_never_compared() -> None:
    own = [rewarded("a", 1.0), rewarded("b", 0.5)]
    for other in ({"rubric_hash": "s"}, {"judge": "m"}, {"scope": "calls+task"}):
        low = advantages([*own, rewarded("x", 0.0, **other), rewarded("y", 0.0, **other)], DEFAULT)
        high = advantages([*own, rewarded("x", 1.0, **other), rewarded("y", 1.0, **other)], DEFAULT)
        assert [low[each] for each in "ab"] == [high[each] for each in "ab"]


def test_who_counts_less_sets_the_baseline_less() -> None:
    rewards = [rewarded("a", 0.5), *(rewarded(f"x{number}", 1.0) for number in range(9))]
    plain = advantages(rewards, PLAIN)
    held = advantages(rewards, PLAIN, {f"x{number}": 1 / 9 for number in range(9)})
    assert plain["a"] == pytest.approx(-0.45 / 0.15)
    assert held["a"] == pytest.approx(-0.25 / 0.25)
    without = advantages(rewards, PLAIN, {f"x{number}": 0.0 for number in range(9)})
    assert without["a"] == 0.0


@unhurried
@given(many(), st.randoms(use_true_random=False), st.sampled_from([DEFAULT, PLAIN]))
def test_every_reward_has_a_finite_advantage_whatever_the_order(
    rewards: list[Reward], random: Any, chosen: AdvantageSettings
) -> None:
    found = advantages(rewards, chosen)
    assert found.keys() == {each.episode_id for each in rewards if each.reward is not None}
    assert all(abs(each) <= 1 / LEAST_SD for each in found.values())
    shuffled = [*rewards]
    random.shuffle(shuffled)
    assert advantages(shuffled, chosen) == found


@unhurried
@given(many())
def test_within_a_group_a_higher_reward_has_a_higher_advantage_and_without_shrinkage_they_balance(
    rewards: list[Reward],
) -> None:
    known = [each for each in rewards if each.reward is not None]
    for chosen in (DEFAULT, PLAIN):
        found = advantages(rewards, chosen)
        groups: dict[Any, list[Reward]] = {}
        for each in known:
            groups.setdefault((each.family, each.scope, each.rubric_hash), []).append(each)
        for (family, *_), members in groups.items():
            ordered = sorted(members, key=lambda each: each.reward or 0.0)
            values = [found[each.episode_id] for each in ordered]
            assert values == sorted(values)
            if chosen is PLAIN and family is not None:
                assert math.fsum(values) == pytest.approx(0.0, abs=1e-9)


@unhurried
@given(many(), st.data())
def test_an_episode_of_weight_two_is_as_good_as_two(rewards: list[Reward], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(rewards) - 1))
    twice = advantages([*rewards, replace(rewards[place], episode_id="again")], DEFAULT)
    twice.pop("again", None)
    assert advantages(rewards, DEFAULT, {rewards[place].episode_id: 2.0}) == pytest.approx(twice, abs=1e-9)


def test_turns_by_hand() -> None:
    rewards = [rewarded("a", 1.0), rewarded("b", 0.0), rewarded("c", 0.5, "g")]
    whole = advantages(rewards, DEFAULT)
    credits = {"a": (1.0, None), "b": (-1.0, 0.5), "c": (0.5,)}
    found = turn_advantages(rewards, credits, whole, AdvantageSettings(shrinkage=1.0, turn=0.5))
    first = (1.0 - 1.0 + 0.5) / 3
    assert found["a"] == pytest.approx((whole["a"] + 0.5 * (1.0 - (0.0 + first) / 3), whole["a"]))
    # Alone at its turn, it is what it is compared with.
    assert found["b"] == pytest.approx((whole["b"] + 0.5 * (-1.0 - first / 3), whole["b"]))
    assert found["c"] == pytest.approx((whole["c"] + 0.5 * (0.5 - (0.5 + first) / 2),))


@unhurried
@given(many(), st.data())
def test_a_turn_differs_from_its_episode_by_no_more_than_its_credit_can(
    rewards: list[Reward], data: st.DataObject
) -> None:
    credit = st.one_of(st.none(), st.floats(-1, 1))
    turns = {each.episode_id: data.draw(st.lists(credit, max_size=3)) for each in rewards}
    whole = advantages(rewards, DEFAULT)
    found = turn_advantages(rewards, turns, whole, DEFAULT)
    assert found.keys() == whole.keys()
    for id_, its in found.items():
        assert len(its) == len(turns[id_])
        for value, given_ in zip(its, turns[id_], strict=True):
            assert abs(value - whole[id_]) <= 2 * DEFAULT.turn + 1e-9
            if given_ is None:
                assert value == whole[id_]
    assert all(set(its) <= {whole[id_]} for id_, its in turn_advantages(
        rewards, turns, whole, AdvantageSettings(turn=0.0)
    ).items())  # fmt: skip


@pytest.mark.parametrize("wrong", [{"shrinkage": -1.0}, {"turn": -0.5}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="at least 0"):
        AdvantageSettings(**wrong)
