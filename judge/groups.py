"""Rewards that may be compared: of one family, under one rubric, by one judge, within one scope.

Above: the trainer, whose advantages are differences within a group. Below: proxy.store.rewards. A reward that could see
less is not a lesser reward: an episode judged by its calls alone and one judged with its answer never share a group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from proxy.store.rewards import Reward


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Group:
    """What all members have in common. `str` of it is stable over runs."""

    family: str
    rubric_hash: str
    judge: str
    scope: str

    def __str__(self) -> str:
        return f"{self.family}/{self.rubric_hash[:12]}/{self.judge}/{self.scope}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One episode that has a reward."""

    episode_id: str
    reward: float
    """Between 0 and 1."""


def grouped(rewards: Iterable[Reward]) -> dict[Group, tuple[Member, ...]]:
    """The groups, and in each its members in the order in which they came.

    Episodes without a reward are in none, nor are those of no family: nothing says what they could be compared with.
    """
    found: defaultdict[Group, list[Member]] = defaultdict(list)
    for each in rewards:
        if each.reward is None or each.family is None:
            continue
        group = Group(family=each.family, rubric_hash=each.rubric_hash, judge=each.judge, scope=each.scope)
        found[group].append(Member(episode_id=each.episode_id, reward=each.reward))
    return {group: tuple(members) for group, members in found.items()}
