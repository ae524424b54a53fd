"""No agent counts for more than its share, and the same again counts ever less."""

from __future__ import annotations

import math
from statistics import median_low

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.endpoint.tokens import ANONYMOUS
from proxy.errors import ConfigurationError
from tests.trainer.data.made import origin, ranking, unhurried
from trainer.data.caps import capped, factors, final, is_right, limits, repeats, shares, sums, taught
from trainer.data.settings import CapSettings
from trainer.rows import RankingRow, Used

DEFAULT = CapSettings()
WEIGHTS = st.dictionaries(st.sampled_from("abcdefghij"), st.floats(1e-3, 1e6), min_size=1)


def rows_of(agent: str, count: int, first: int, advantage: float = 0.0) -> list[RankingRow]:
    """Rows of an agent that never searched for the same thing twice."""
    of = origin(first, agent=agent, advantage=advantage)
    letters = ["".join(chr(97 + number // 26**place % 26) for place in range(4)) for number in range(count)]
    return [
        ranking(first + number, "shop.sell", query=f"about {word}", of=of, advantage=advantage)
        for number, word in enumerate(letters)
    ]


def weighted(rows: list[RankingRow], chosen: CapSettings = DEFAULT, *, right: bool = True) -> dict[str, float]:
    """The part that each agent has of what is taught, as right or as wrong."""
    its = [
        (row.origin.agent, row.weight * taught(row, chosen))
        for row in capped(rows, chosen)
        if is_right(row.advantage, chosen) is right
    ]
    return shares([agent for agent, _ in its], [weight for _, weight in its])


def test_an_agent_with_nine_tenths_of_the_traffic_ends_at_its_share() -> None:
    flood = rows_of("poisoner", 900, 0, advantage=2.0)
    honest = [row for number in range(5) for row in rows_of(f"agent {number}", 20, 1_000 * (number + 1))]
    before = shares([row.origin.agent for row in (*flood, *honest)], [1.0] * 1_000)
    assert before["poisoner"] == 0.9
    after = weighted([*flood, *honest])
    assert after["poisoner"] <= DEFAULT.agent_share + 1e-9
    # The others keep what they have.
    assert [after[f"agent {number}"] for number in range(5)] == pytest.approx([(1 - after["poisoner"]) / 5] * 5)


def test_callers_without_a_credential_are_one_agent() -> None:
    anonymous = rows_of(ANONYMOUS, 500, 0)
    named = [row for number in range(8) for row in rows_of(f"agent {number}", 10, 1_000 * (number + 1))]
    assert weighted([*anonymous, *named])[ANONYMOUS] <= DEFAULT.agent_share + 1e-9


def test_a_sole_agent_counts_whole_and_two_count_alike() -> None:
    assert limits({"a": 5.0}, 0.2) == {"a": 1.0}
    two = limits({"a": 90.0, "b": 10.0}, 0.2)
    assert two == {"a": pytest.approx(1 / 9), "b": pytest.approx(1.0)}
    assert limits({"a": 90.0, "b": 10.0}, 1.0) == {"a": 1.0, "b": 1.0}
    assert limits({"a": 0.0}, 0.2) == {"a": 1.0}
    assert limits({}, 0.2) == {}


@unhurried
@given(WEIGHTS, st.floats(0.05, 1.0))
def test_no_agent_has_more_than_its_share_and_nobody_is_held_without_need(
    weights: dict[str, float], share: float
) -> None:
    factors = limits(weights, share)
    after = {agent: weight * factors[agent] for agent, weight in weights.items()}
    most = max(share * math.fsum(after.values()), median_low(weights.values()))
    assert all(0 < factor <= 1 for factor in factors.values())
    assert all(weight <= most * (1 + 1e-9) for weight in after.values())
    held = [agent for agent, factor in factors.items() if factor < 1 - 1e-9]
    # Who is held has all of the share, and is above whoever is not.
    assert all(after[agent] == pytest.approx(most) for agent in held)
    if held:
        least = min(weights[agent] for agent in held)
        assert all(weight <= least for agent, weight in weights.items() if agent not in held)


def test_the_same_tool_after_the_same_search_counts_as_the_root_of_how_often() -> None:
    again = [ranking(number, "shop.sell", query=f"sell lamp {number} in Oslo") for number in range(9)]
    other = ranking(20, "shop.find_item", query="sell lamp 3 in Oslo")
    nothing = [ranking(30 + number, query="sell lamp 3 in Oslo") for number in range(4)]
    elsewhere = ranking(40, "shop.sell", query="sell lamp 3 in Oslo", of=origin(40, agent="ci"))
    both = ranking(50, "shop.sell", "weather.forecast", query="weather for selling")
    found = repeats([*again, other, *nothing, elsewhere, both])
    # Numbers and names are values: counting them up makes no other search.
    assert found == pytest.approx([1 / 3] * 9 + [1.0] + [1 / 2] * 4 + [1.0] + [1.0])
    assert math.fsum(found[:9]) == pytest.approx(3.0)


def test_what_training_makes_of_an_advantage_is_what_is_capped() -> None:
    assert final(0.0, DEFAULT) == 1.0
    assert final(1.0, CapSettings(beta=0.5, clip=5.0)) == pytest.approx(5.0)
    assert final(1e6, DEFAULT) == pytest.approx(5.0)
    assert final(-0.4, DEFAULT) == pytest.approx(math.exp(-0.4))
    assert final(-2.0, DEFAULT) == 2.0
    assert taught(ranking(1, advantage=1.0), DEFAULT) == taught(ranking(1, advantage=-1.0), DEFAULT) == 0.0
    failed = Used(tool="shop.sell", ok=False, credit=None, shown=True)
    assert taught(ranking(1, used=(failed,), advantage=1.0), DEFAULT) == 0.0
    assert taught(ranking(1, used=(failed,), advantage=-1.0), DEFAULT) == 1.0


def test_neither_what_is_right_nor_what_is_wrong_is_told_by_one_agent() -> None:
    others = [row for number in range(6) for row in rows_of(f"agent {number}", 10, 100 * (number + 1), -3.0)]
    good = rows_of("praiser", 50, 0, 3.0)
    few = [row for number in range(6) for row in rows_of(f"agent {number}", 1, 1_000 * (number + 1), 0.0)]
    # Bad rows of others are no counterweight to good ones of one.
    assert weighted([*others, *good, *few])["praiser"] <= DEFAULT.agent_share + 1e-9
    slanderer = rows_of("slanderer", 500, 5_000, -3.0)
    assert weighted([*others, *good, *few, *slanderer], right=False)["slanderer"] <= DEFAULT.agent_share + 1e-9


@unhurried
@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.floats(-5, 5), st.floats(0, 10)), max_size=40),
    st.floats(0.15, 1.0),
)
def test_on_each_side_nobody_has_more_than_its_share(given_: list[tuple[str, float, float]], share: float) -> None:
    chosen = CapSettings(agent_share=share)
    agents, advantages, weights = ([each[place] for each in given_] for place in range(3))
    held = factors(agents, advantages, weights, chosen)  # type: ignore[arg-type]
    for side in (True, False):
        its = [
            (agent, weight * factor)
            for (agent, advantage, weight), factor in zip(given_, held, strict=True)
            if is_right(advantage, chosen) is side
        ]
        after = sums([agent for agent, _ in its], [weight for _, weight in its])
        before = sums(agents, [each[2] * (is_right(each[1], chosen) is side) for each in given_])
        present = [weight for weight in before.values() if weight > 0]
        most = max(share * math.fsum(after.values()), median_low(present) if present else 0.0)
        assert all(weight <= most * (1 + 1e-9) for weight in after.values())


def test_a_newcomer_with_one_row_does_not_make_everybody_else_count_as_little() -> None:
    five = limits({"a": 40.0, "b": 40.0, "c": 40.0, "d": 40.0, "new": 0.5}, 0.2)
    assert five == dict.fromkeys(["a", "b", "c", "d", "new"], 1.0)
    flood = limits({"a": 40.0, "b": 40.0, "c": 40.0, "d": 40.0, "flood": 4_000.0}, 0.2)
    assert flood["flood"] == pytest.approx(0.01)


def test_rows_that_were_capped_before_are_capped_anew() -> None:
    rows = [row for number in range(6) for row in rows_of(f"agent {number}", 5 * number + 1, 1_000 * number)]
    once = capped(rows, DEFAULT)
    assert capped(once, DEFAULT) == once
    assert [row.weight for row in once] != [1.0] * len(rows)
    assert capped(once[:1], DEFAULT)[0].weight == 1.0


def test_rewards_of_nothing_have_no_shares() -> None:
    assert capped([], DEFAULT) == ()
    assert shares([], []) == {}
    assert shares(["a"], [0.0]) == {"a": 0.0}


@pytest.mark.parametrize(
    "wrong", [{"agent_share": 0.0}, {"agent_share": 1.5}, {"beta": 0.0}, {"clip": -1.0}, {"margin": -1.0}], ids=str
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=r"above 0|at least 0"):
        CapSettings(**wrong)
