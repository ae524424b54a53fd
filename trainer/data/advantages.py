"""How much better an episode was than those it may be compared with, and a turn than turns like it.

Above: collecting.py. Below: judge/groups.py and the store's rewards. Pure: the order of what is given changes nothing.

Of episode i in group g, which is one family under one rubric by one judge within one scope:

    A(i) = (r(i) - b(g)) / sd        b(g) = (sum over g of r + lambda · m) / (n(g) + lambda)

where m is the mean of all episodes under the same rubric, by the same judge, within the same scope, and lambda shrinks
small groups towards it (James and Stein 1961; baselines by group as in group-relative policy optimisation, Shao et al.
2024, arXiv 2402.03300, without its ratios of probabilities: those of other agents are not known). An episode of no
family has b = m. `sd` is the unit: the root of the mean of (r - m)² over the same judge and scope, all rubrics
together, since a rubric of one task has too few rewards for a spread of its own; at least `LEAST_SD`, or rewards that
are all alike would be told apart by their rounding.

Of turn t of it, with c(i, t) the mean of the judge's credits of the turn's steps (after the turn-aware relative
advantage of ToolVerse 2026, whose formula is not published):

    A(i, t) = A(i) + alpha · (c(i, t) - d(g, t))
    d(g, t) = (sum over g of c(·, t) + lambda · e(t)) / (n(g, t) + lambda)

where e(t) is the mean of c(·, t) over the same rubric, judge and scope. Where no verdict speaks of a turn, its
advantage is the episode's. Sums and counts are weighted where weights are given: whoever is capped may not set the
baseline of all others either. An episode without a reward is in no sum.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

from proxy.store.rewards import Reward
from trainer.data.settings import AdvantageSettings

LEAST_SD = 0.05
"""Of rewards, which are 0 to 1."""

Turns = Mapping[str, Sequence[float | None]]
"""Episode id -> the credit of each of its turns, None where no verdict speaks of it."""


class _Means:
    """Weighted sums by key."""

    def __init__(self) -> None:
        self._terms: defaultdict[Hashable, list[tuple[float, float]]] = defaultdict(list)

    def add(self, key: Hashable, value: float, weight: float) -> None:
        self._terms[key].append((value * weight, weight))

    def close(self) -> None:
        # Exact sums, so that the order in which episodes come from the database decides nothing.
        self._sums = {
            key: (math.fsum(value for value, _ in terms), math.fsum(weight for _, weight in terms))
            for key, terms in self._terms.items()
        }

    def mean(self, key: Hashable) -> float:
        value, weight = self._sums[key]
        return value / weight if weight else 0.0

    def shrunk(self, key: Hashable, towards: Hashable, strength: float) -> float:
        value, weight = self._sums[key]
        if not weight + strength:
            return self.mean(towards)
        return (value + strength * self.mean(towards)) / (weight + strength)


def advantages(
    rewards: Iterable[Reward], settings: AdvantageSettings, weights: Mapping[str, float] | None = None
) -> dict[str, float]:
    """The advantage of each episode that has a reward, by its id, in standard deviations.

    `weights`: by episode id, at least 0; an episode that is not in it counts 1.
    """
    known = [(each, each.reward) for each in rewards if each.reward is not None]
    means, units = _Means(), _Means()
    for each, reward in known:
        weight = _weight(each, weights)
        means.add(_pool(each), reward, weight)
        means.add(_group(each), reward, weight)
    means.close()
    for each, reward in known:
        units.add(_unit(each), (reward - means.mean(_pool(each))) ** 2, _weight(each, weights))
    units.close()
    found: dict[str, float] = {}
    for each, reward in known:
        sd = max(LEAST_SD, math.sqrt(units.mean(_unit(each))))
        found[each.episode_id] = (reward - _baseline(means, each, settings)) / sd
    return found


def turn_advantages(
    rewards: Iterable[Reward],
    turns: Turns,
    of_episodes: Mapping[str, float],
    settings: AdvantageSettings,
    weights: Mapping[str, float] | None = None,
) -> dict[str, tuple[float, ...]]:
    """The advantage of each turn of each episode of `of_episodes`, which is what `advantages` gave.

    `turns` counts them from the first on, of one kind: rankings, or the agent's steps.
    """
    known = [each for each in rewards if each.episode_id in of_episodes]
    means = _Means()
    for each in known:
        for turn, credit in enumerate(turns.get(each.episode_id, ())):
            if credit is not None:
                means.add((_pool(each), turn), credit, _weight(each, weights))
                means.add((_group(each), turn), credit, _weight(each, weights))
    means.close()
    found: dict[str, tuple[float, ...]] = {}
    for each in known:
        whole = of_episodes[each.episode_id]
        found[each.episode_id] = tuple(
            whole if credit is None else whole + settings.turn * (credit - _baseline(means, each, settings, turn))
            for turn, credit in enumerate(turns.get(each.episode_id, ()))
        )
    return found


def _baseline(means: _Means, of: Reward, settings: AdvantageSettings, turn: int | None = None) -> float:
    pool, group = _pool(of), _group(of)
    if turn is not None:
        pool, group = (pool, turn), (group, turn)
    return means.mean(pool) if of.family is None else means.shrunk(group, pool, settings.shrinkage)


def _weight(of: Reward, weights: Mapping[str, float] | None) -> float:
    return 1.0 if weights is None else weights.get(of.episode_id, 1.0)


def _unit(of: Reward) -> tuple[str, ...]:
    return ("unit", of.judge, of.scope)


def _pool(of: Reward) -> tuple[str, ...]:
    return ("pool", of.rubric_hash, of.judge, of.scope)


def _group(of: Reward) -> tuple[str, ...]:
    """`judge.groups.Group`, for episodes of no family too, which are in none."""
    return ("group", of.family or "", of.rubric_hash, of.judge, of.scope)
