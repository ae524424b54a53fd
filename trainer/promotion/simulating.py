"""How often the test of a canary is right and wrong, over tasks that are drawn: simulated, and never said to be else.

Above: `python -m bench learn --part sequential`, and tests. Below: sequential.py, with
as many outcomes beside each other as canary.py watches.

A task has 1 + Poisson(searches - 1) searches; each succeeds with the task's own probability, which is drawn from a beta
distribution with the given mean and correlation of searches within a task; a task is the canary's with the probability
of its share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trainer.promotion.canary import Outcome
from trainer.promotion.sequential import Found, SequentialSettings, TaskValue, run_through


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What tasks are like.

    Raises:
        ValueError: A value cannot be meant.
    """

    success: float = 0.6
    """Mean share of a task's searches that succeed, without the canary."""
    worse: float = 0.0
    """What is taken off that in tasks of the canary."""
    share: float = 0.2
    """Of tasks that are the canary's."""
    searches: float = 2.0
    """Mean of a task's."""
    correlation: float = 0.3
    """Of the searches of one task."""

    def __post_init__(self) -> None:
        if not 0.0 < self.success < 1.0 or not 0.0 < self.success - self.worse < 1.0:
            raise ValueError("success, with and without the canary, is between 0 and 1")
        if not 0.0 < self.share < 1.0 or self.searches < 1.0 or not 0.0 < self.correlation < 1.0:
            raise ValueError("share and correlation are between 0 and 1, and a task has at least one search")


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """One run."""

    found: Found
    searches: int
    """Of the canary's tasks, when it was found, or at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of many runs."""

    world: World
    runs: int
    worse: int
    """Runs in which the canary would have been rolled back."""
    safe: int
    """Runs in which it would have become active."""
    searches: tuple[int, int, int]
    """Of the canary until something was found: median, the 90th of a hundred, and most."""


def simulate(world: World, settings: SequentialSettings, *, seed: int, searches: int = 200) -> Simulated:
    """Until something is found, or the canary's tasks have had so many searches."""
    tasks = _tasks(world, np.random.default_rng(seed), searches)
    test = run_through(tasks, world.share, settings, outcomes=len(Outcome))
    return Simulated(found=test.found, searches=test.searches)


def figures(
    world: World, settings: SequentialSettings, *, runs: int = 100, searches: int = 200, first_seed: int = 0
) -> Figures:
    """The same over seeds `first_seed` and on."""
    found = [simulate(world, settings, seed=first_seed + run, searches=searches) for run in range(runs)]
    used = np.array([each.searches for each in found])
    return Figures(
        world=world,
        runs=runs,
        worse=sum(each.found is Found.WORSE for each in found),
        safe=sum(each.found is Found.SAFE for each in found),
        searches=(int(np.median(used)), int(np.quantile(used, 0.9)), int(used.max())),
    )


def _tasks(world: World, random: np.random.Generator, searches: int) -> Iterator[TaskValue]:
    left = searches
    spread = (1.0 - world.correlation) / world.correlation
    while left > 0:
        canary = bool(random.random() < world.share)
        mean = world.success - (world.worse if canary else 0.0)
        made = 1 + int(random.poisson(world.searches - 1.0))
        chance = random.beta(mean * spread, (1.0 - mean) * spread)
        made = min(made, left) if canary else made
        yield TaskValue(canary, float(random.binomial(made, chance)) / made, made)
        left -= made if canary else 0
