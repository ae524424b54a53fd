"""The test of a canary: how often it is wrong and how soon it is right, over seeds, and its parts by hand."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from trainer.promotion.canary import Outcome
from trainer.promotion.sequential import (
    Bet,
    Block,
    Blocks,
    Found,
    SequentialSettings,
    SequentialTest,
    TaskValue,
    run_through,
)
from trainer.promotion.simulating import World, figures, simulate

SETTINGS = SequentialSettings()
RUNS = 100


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_an_equally_good_canary_is_rolled_back_in_at_most_5_of_100_runs_and_becomes_active(share: float) -> None:
    """Through as many searches as it takes; the bound itself is for any number of looks."""
    found = figures(World(share=share), SETTINGS, runs=RUNS, searches=2_000)
    assert found.worse <= 5
    assert found.safe >= 95


@pytest.mark.parametrize(
    ("share", "worse"), [pytest.param(0.1, 0.25, id="tenth"), pytest.param(0.2, 0.25, id="fifth"), (0.5, 0.3)]
)
def test_one_that_is_worse_by_the_stated_amount_is_rolled_back_within_200_searches(share: float, worse: float) -> None:
    found = figures(World(share=share, worse=worse), SETTINGS, runs=RUNS, searches=200)
    assert found.worse >= 90
    assert found.safe == 0
    assert found.searches[2] <= 200


def test_one_that_is_worse_by_the_amount_rarely_becomes_active_however_long_it_runs() -> None:
    found = figures(World(worse=SETTINGS.amount, share=0.2), SETTINGS, runs=RUNS, searches=2_000)
    assert found.safe <= 5
    assert found.worse >= 95


def test_a_better_one_becomes_active() -> None:
    found = figures(World(worse=-0.2), SETTINGS, runs=RUNS, searches=400)
    assert (found.worse, found.safe) == (0, RUNS)


def test_runs_repeat() -> None:
    world = World(worse=0.15)
    assert [simulate(world, SETTINGS, seed=seed) for seed in range(3)] == [
        simulate(world, SETTINGS, seed=seed) for seed in range(3)
    ]


def test_without_a_difference_nobody_wins_a_bet_on_average() -> None:
    """Over all courses of eight fair games the mean of W is 1, which is what bounds the error (Ville)."""
    total = 0.0
    for course in product((-1.0, 1.0), repeat=8):
        wealth = np.ones(9)
        for value in course:
            wealth *= 1 + np.arange(1, 10) / 10 * value
        total += float(wealth.mean())
        bet = Bet()
        for value in course:
            bet.add(value)
        assert bet.wins(1 / wealth.mean() * 1.0001)
        assert not bet.wins(1 / wealth.mean() * 0.9999)
    assert total / 2**8 == pytest.approx(1.0)


def test_what_was_found_first_stays_found() -> None:
    test = SequentialTest(SETTINGS)
    while test.found is Found.OPEN:
        test.add(0.0, 1.0)
    blocks = test.blocks
    assert (test.found, test.difference) == (Found.WORSE, -1.0)
    for _ in range(500):
        test.add(1.0, 0.0)
    assert (test.found, test.blocks) == (Found.WORSE, blocks)


def test_outcomes_beside_each_other_need_more_evidence() -> None:
    alone, beside = SequentialTest(SETTINGS), SequentialTest(SETTINGS, len(Outcome))
    for test in (alone, beside):
        while test.found is Found.OPEN:
            test.add(0.0, 0.8)
    assert alone.blocks < beside.blocks


def test_it_is_not_found_safe_before_enough_was_seen() -> None:
    test = SequentialTest(SETTINGS)
    while test.found is Found.OPEN:
        test.add(1.0, 0.5, searches=3)
    assert (test.found, test.searches) == (Found.SAFE, 201)


def test_blocks_take_the_latest_of_the_others_and_each_once() -> None:
    blocks = Blocks(0.25, most_controls=2)
    others = [TaskValue(False, value) for value in (0.0, 1.0, 0.5)]
    assert [list(blocks.add(each)) for each in others] == [[], [], []]
    assert list(blocks.add(TaskValue(True, 0.25, 4))) == [Block(0.25, 0.75, 4)]
    # What was left is of another time.
    assert list(blocks.add(TaskValue(True, 1.0))) == []
    assert list(blocks.add(TaskValue(False, 0.0))) == []
    assert list(blocks.add(TaskValue(False, 1.0))) == [Block(1.0, 0.5, 1)]


def test_with_half_of_the_tasks_each_is_compared_with_one() -> None:
    blocks = Blocks(0.5, most_controls=4)
    assert list(blocks.add(TaskValue(True, 1.0))) == []
    assert list(blocks.add(TaskValue(True, 0.0))) == []
    assert list(blocks.add(TaskValue(False, 0.5))) == [Block(1.0, 0.5, 1)]
    assert list(blocks.add(TaskValue(False, 0.25))) == [Block(0.0, 0.25, 1)]


def test_tasks_of_different_kinds_are_not_compared() -> None:
    tasks = [TaskValue(number % 2 == 0, float(number % 2), kind=f"judge {number % 2}") for number in range(400)]
    assert run_through(tasks, 0.5, SETTINGS).blocks == 0
    same = [TaskValue(task.canary, task.value) for task in tasks]
    assert run_through(same, 0.5, SETTINGS).found is Found.WORSE


def test_a_canary_of_all_tasks_stays_open() -> None:
    test = run_through([TaskValue(True, 1.0)] * 400, 1.0, SETTINGS)
    assert (test.found, test.difference) == (Found.OPEN, None)


@pytest.mark.parametrize(
    "changed",
    [{"amount": 0.0}, {"amount": 1.0}, {"alpha": 0.0}, {"beta": math.inf}, {"enough": 0}, {"most_controls": 0}],
)
def test_settings_that_cannot_be_meant_are_refused(changed: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1|at least one"):
        SequentialSettings(**changed)  # type: ignore[arg-type]
