"""Ranking metrics on rankings whose figures are known by counting."""

from __future__ import annotations

import pytest

from proxy.router.metrics import (
    all_within,
    bootstrap,
    cost_of_all,
    least_cost,
    percentile_of,
    recall_at,
    reciprocal_rank,
)

RANKED = ["a", "b", "c", "d"]
COSTS = {"a": 1, "b": 10, "c": 100, "d": 1_000}


def needs(*names: str) -> list[frozenset[str]]:
    """`a/b` is met by either."""
    return [frozenset(name.split("/")) for name in names]


@pytest.mark.parametrize(
    ("wanted", "count", "share"),
    [
        (["a"], 1, 1),
        (["b"], 1, 0),
        (["a", "c"], 2, 0.5),
        (["a", "x"], 4, 0.5),
        (["d/b"], 2, 1),
        ([], 1, 1),
        (["a"], 0, 0),
    ],
)
def test_recall_is_the_share_of_needs_met(wanted: list[str], count: int, share: float) -> None:
    assert recall_at(RANKED, needs(*wanted), count) == share


def test_all_needs_must_be_met_together() -> None:
    assert all_within(RANKED, needs("a", "x/b"), 2)
    assert not all_within(RANKED, needs("a", "c"), 2)


def test_the_reciprocal_rank_is_that_of_the_first_name_that_is_needed() -> None:
    assert reciprocal_rank(RANKED, needs("d", "b")) == 1 / 2
    assert reciprocal_rank(RANKED, needs("x/c")) == 1 / 3
    assert reciprocal_rank(RANKED, needs("x")) == 0


def test_what_is_read_until_all_is_found_is_paid_for() -> None:
    assert cost_of_all(RANKED, needs("a"), COSTS) == 1
    assert cost_of_all(RANKED, needs("c", "a"), COSTS) == 111
    assert cost_of_all(RANKED, needs("d/b"), COSTS) == 11
    assert cost_of_all(RANKED, needs("x"), COSTS) is None
    assert cost_of_all(RANKED, [], COSTS) == 0


def test_one_who_knows_pays_for_the_cheapest_names_once() -> None:
    assert least_cost(needs("c", "d/b"), COSTS) == 110
    assert least_cost(needs("a/b", "a/c"), COSTS) == 1
    assert least_cost(needs("x"), COSTS) is None


def test_an_interval_holds_the_mean_and_narrows_with_more_values() -> None:
    few, many = bootstrap([0.0, 1.0] * 10), bootstrap([0.0, 1.0] * 1_000)
    assert few.value == many.value == 0.5
    assert few.low < many.low < 0.5 < many.high < few.high
    # The standard error of 20 coins is 0.11.
    assert (few.low, few.high) == pytest.approx((0.28, 0.72), abs=0.04)
    assert bootstrap([0.0, 1.0] * 10) == few
    assert bootstrap([0.0, 1.0] * 10, seed=1) != few


def test_values_of_one_cluster_are_one_observation() -> None:
    values, names = [0.0, 1.0] * 50, ["left", "right"] * 50
    together = bootstrap(values, clusters=names)
    assert (together.value, together.low, together.high) == (0.5, 0.0, 1.0)
    assert bootstrap(values).low > 0.3


def test_a_percentile_is_estimated_like_a_mean() -> None:
    estimate = bootstrap([float(number) for number in range(101)], statistic=percentile_of(0.95))
    assert estimate.value == 95
    assert 85 < estimate.low < 95 < estimate.high <= 100


def test_no_values_are_no_estimate() -> None:
    with pytest.raises(ValueError, match="nothing"):
        bootstrap([])
    with pytest.raises(ValueError, match="clusters"):
        bootstrap([1.0], clusters=["a"], statistic=percentile_of(0.5))
