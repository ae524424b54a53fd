"""Orders that are left to chance: how often, which pairs, and whether the probabilities that are told are true."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import pytest

from proxy.router.exploring import Explorer, Ordered

KEY = b"k" * 32
TOOLS = tuple("abcde")
DRAWS = 200_000


def orders(share: float, tools: tuple[str, ...], draws: int) -> Counter[Ordered]:
    explorer = Explorer(share, KEY)
    return Counter(explorer.order(tools, f"s_{number}") for number in range(draws))


def deviations(seen: int, probability: float, draws: int) -> float:
    """How far a count is from what its probability promises, in standard deviations."""
    return abs(seen / draws - probability) / math.sqrt(probability * (1 - probability) / draws)


def test_orders_come_as_often_as_their_propensities_say() -> None:
    seen = orders(0.02, TOOLS, DRAWS)
    assert len(seen) == len(TOOLS), "each pair, and none"
    for order, count in seen.items():
        assert order.propensities is not None
        probability = math.prod(order.propensities)
        assert probability == pytest.approx(0.02 / 4 if order.explored else 0.98)
        assert deviations(count, probability, DRAWS) < 4
    explored = sum(count for order, count in seen.items() if order.explored)
    assert deviations(explored, 0.02, DRAWS) < 4


def test_each_place_has_the_probability_of_its_tool_given_those_above() -> None:
    draws = 50_000
    seen = orders(0.4, TOOLS, draws)
    prefixes: defaultdict[tuple[str, ...], int] = defaultdict(int)
    for order, count in seen.items():
        for length in range(len(TOOLS) + 1):
            prefixes[order.tools[:length]] += count
    for order in seen:
        for place, told in enumerate(order.propensities or ()):
            above = prefixes[order.tools[:place]]
            found = prefixes[order.tools[: place + 1]] / above
            assert found == pytest.approx(told, abs=4 * math.sqrt(0.25 / above))


@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
@pytest.mark.parametrize("count", [2, 3, 7, 20])
def test_the_probabilities_of_all_orders_are_1_together(share: float, count: int) -> None:
    explorer = Explorer(share, KEY)
    found: dict[tuple[str, ...], float] = {}
    tools = [f"t{number}" for number in range(count)]
    orders_there_are = count if share < 1 else count - 1
    for number in range(40_000):
        order = explorer.order(tools, str(number))
        assert order.propensities is not None
        found[order.tools] = math.prod(order.propensities)
        if len(found) == orders_there_are:
            break
    assert math.fsum(found.values()) == pytest.approx(1.0)


def test_every_pair_is_swapped_the_first_two_and_the_last_two_included() -> None:
    swapped = {order.tools for order in orders(1.0, TOOLS, 200)}
    assert swapped == {tuple("bacde"), tuple("acbde"), tuple("abdce"), tuple("abced")}


def test_nothing_but_the_order_changes() -> None:
    assert all(sorted(order.tools) == list(TOOLS) for order in orders(0.5, TOOLS, 500))


def test_the_same_key_and_search_give_the_same_order_and_another_key_another() -> None:
    names = [f"s_{number}" for number in range(400)]
    one, again, other = Explorer(0.5, KEY), Explorer(0.5, KEY), Explorer(0.5, b"o" * 32)
    drawn = [one.order(TOOLS, name) for name in names]
    assert drawn == [again.order(TOOLS, name) for name in names]
    assert drawn != [other.order(TOOLS, name) for name in names]


@pytest.mark.parametrize("tools", [(), ("a",)])
def test_one_tool_alone_is_never_left_to_chance(tools: tuple[str, ...]) -> None:
    assert Explorer(1.0, KEY).order(tools, "s_1") == Ordered(tools, None, explored=False)


def test_a_share_of_0_is_the_ranked_order_without_propensities() -> None:
    assert set(orders(0.0, TOOLS, 1_000)) == {Ordered(TOOLS, None, explored=False)}
