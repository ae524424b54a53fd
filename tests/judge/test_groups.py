"""Rewards that may be compared, and those that may not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judge.groups import Group, Member, grouped
from proxy.store.rewards import Reward

ONE = Reward(
    episode_id="e_1",
    family="f_1",
    judge="checks-1/aa",
    rubric_hash="r" * 64,
    scope="calls+task",
    reward=0.5,
    unrewarded=None,
    credits={},
)


def test_episodes_of_one_family_rubric_judge_and_scope_are_compared() -> None:
    assert grouped([ONE, replace(ONE, episode_id="e_2", reward=1.0)]) == {
        Group(family="f_1", rubric_hash="r" * 64, judge="checks-1/aa", scope="calls+task"): (
            Member(episode_id="e_1", reward=0.5),
            Member(episode_id="e_2", reward=1.0),
        )
    }


@pytest.mark.parametrize(
    "other",
    [{"scope": "calls+task+answer"}, {"judge": "checks-1/bb"}, {"rubric_hash": "s" * 64}, {"family": "f_2"}],
    ids=lambda other: next(iter(other)),
)
def test_what_was_seen_or_asked_differently_is_never_compared(other: dict[str, str]) -> None:
    assert [len(members) for members in grouped([ONE, replace(ONE, episode_id="e_2", **other)]).values()] == [1, 1]


@pytest.mark.parametrize("without", [{"reward": None, "unrewarded": "cut"}, {"family": None}])
def test_an_episode_without_reward_or_family_is_in_no_group(without: dict[str, None]) -> None:
    assert grouped([replace(ONE, **without)]) == {}
