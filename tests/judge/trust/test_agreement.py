"""Measures of agreement: by hand where they are known, None with a reason where they are not."""

from __future__ import annotations

import json
import sys
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.trust.agreement import Agreement, Measures, agreement, agreements, measures
from proxy.errors import ConfigurationError
from tests.judge.trust.pairs import counted, pair, pairs

OPTIONAL = ("missing_share", "kappa", "kappa_low", "kappa_high", "weighted_kappa", "spearman", "ece")


def test_kappa_and_the_four_counts_of_a_known_table() -> None:
    # Observed 0.7; by chance 0.6 · 0.5 + 0.4 · 0.5 = 0.5.
    found = measures(counted(20, 10, 5, 15))
    assert (found.both, found.judge_only, found.people_only, found.neither) == (20, 10, 5, 15)
    assert found.kappa == pytest.approx(0.4)
    assert found.weighted_kappa == pytest.approx(0.4)
    assert found.spearman == pytest.approx((20 * 15 - 10 * 5) / (30 * 20 * 25 * 25) ** 0.5)
    assert found.ece == pytest.approx((10 + 5) / 50)


def test_half_is_met_for_judge_and_people() -> None:
    found = measures(pairs([(0.5, 0.5), (0.49, 0.49), (0.5, 0.49), (0.49, 0.5)]))
    assert (found.both, found.judge_only, found.people_only, found.neither) == (1, 1, 1, 1)


def test_weighted_kappa_counts_a_far_miss_four_times() -> None:
    near = measures(pairs([(0.5, 0.0), (0.5, 1.0), (0.0, 0.0), (1.0, 1.0)]))
    far = measures(pairs([(1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (1.0, 1.0)]))
    # Distances 2 of 6 expected, and 8 of 8.
    assert near.weighted_kappa == pytest.approx(1 - 2 / 6)
    assert far.weighted_kappa == pytest.approx(0.0)


def test_ece_is_the_distance_of_the_means_in_ten_bins() -> None:
    found = measures(pairs([(0.91, 1.0), (1.0, 0.0), (0.12, 0.0), (0.18, 0.0)]))
    assert found.ece == pytest.approx((abs(1.91 - 1.0) + 0.30) / 4)


def test_missing_verdicts_count_in_their_share_alone() -> None:
    found = measures([*counted(4, 1, 1, 4), *pairs([(None, 1.0), (None, 0.0)])])
    whole = measures(counted(4, 1, 1, 4))
    assert (found.pairs, found.decided, found.missing_share) == (12, 10, pytest.approx(1 / 6))
    assert (found.kappa, found.ece, found.spearman) == (whole.kappa, whole.ece, whole.spearman)


def none_of(found: Measures) -> set[str]:
    return {name for name in OPTIONAL if getattr(found, name) is None}


@pytest.mark.parametrize(
    ("said", "undefined", "why"),
    [
        ([], set(OPTIONAL), "0 decided pairs"),
        ([(None, 1.0), (None, 0.0)], set(OPTIONAL) - {"missing_share"}, "0 decided pairs"),
        ([(1.0, 1.0)], set(OPTIONAL) - {"missing_share", "ece"}, "1 decided pairs"),
        ([(1.0, 1.0), (0.0, 1.0)], set(OPTIONAL) - {"missing_share", "ece"}, "people's values are all the same"),
    ],
)
def test_what_the_pairs_do_not_determine_is_none_with_its_reason(
    said: list[tuple[float | None, float]], undefined: set[str], why: str
) -> None:
    found = measures(pairs(said))
    assert none_of(found) == undefined == set(found.undefined)
    assert found.undefined["kappa"] == why


def test_a_judge_that_says_the_same_of_everything_has_no_skill() -> None:
    found = measures(counted(6, 4, 0, 0))
    assert (found.kappa, found.weighted_kappa) == (0.0, 0.0)
    assert found.spearman is None
    assert found.undefined == {"spearman": "all scores, or all of people's values, are the same"}


def test_values_that_differ_but_are_all_met_have_a_rank_correlation_and_no_kappa() -> None:
    found = measures(pairs([(0.6, 0.7), (0.9, 1.0), (1.0, 0.8)]))
    assert found.kappa is None
    assert found.spearman == pytest.approx(0.5)


def test_the_interval_holds_the_kappa_and_is_the_same_every_time() -> None:
    found = measures(counted(20, 5, 5, 20))
    assert found.kappa is not None
    assert found.kappa_low is not None
    assert found.kappa_high is not None
    assert 0.3 < found.kappa_low < found.kappa < found.kappa_high < 0.85
    assert measures(counted(20, 5, 5, 20)) == found


def test_pairs_of_one_trajectory_are_resampled_together() -> None:
    apart = measures(counted(20, 5, 5, 20))
    together = measures(
        [pair(each.score, each.human, f"e{place // 5}") for place, each in enumerate(counted(20, 5, 5, 20))]
    )
    assert apart.kappa == together.kappa
    assert width(together) > 1.5 * width(apart)


def width(found: Measures) -> float:
    assert found.kappa_low is not None
    assert found.kappa_high is not None
    return found.kappa_high - found.kappa_low


def test_where_most_resamples_lack_one_of_the_two_values_there_is_no_interval() -> None:
    found = measures([pair(1.0, 1.0, "a"), pair(0.0, 0.0, "b"), pair(None, 0.0, "c")])
    assert (found.kappa, found.kappa_low, found.kappa_high) == (1.0, None, None)
    assert found.undefined["kappa_low"] == "in most resamples people's values are all met or all not met"


@settings(deadline=None)
@given(st.lists(st.tuples(st.none() | st.floats(0, 1), st.floats(0, 1)), max_size=30))
def test_measures_keep_their_bounds_whatever_the_pairs(said: list[tuple[float | None, float]]) -> None:
    found = measures(pairs(said))
    assert none_of(found) == set(found.undefined)
    for name in ("kappa", "kappa_low", "kappa_high", "weighted_kappa", "spearman"):
        value = getattr(found, name)
        assert value is None or -1.0000001 <= value <= 1.0000001
    assert found.ece is None or 0 <= found.ece <= 1
    assert found.both + found.judge_only + found.people_only + found.neither == found.decided


def test_rewards_and_criteria_are_measured_apart_and_by_criterion() -> None:
    said = [
        *counted(5, 0, 0, 5, criterion="a"),
        *counted(0, 5, 5, 0, criterion="b"),
        *counted(3, 1, 1, 5, criterion=None),
    ]
    found = agreement("j", said)
    assert (found.criteria.pairs, found.overall.pairs) == (20, 10)
    assert {name: each.kappa for name, each in found.by_criterion.items()} == {"a": 1.0, "b": -1.0}
    assert found.criteria.kappa == 0.0


def test_judges_are_measured_apart() -> None:
    found = agreements([*counted(1, 0, 0, 1, judge="y"), *counted(0, 1, 1, 0, judge="x")])
    assert [(each.judge, each.criteria.kappa) for each in found] == [("x", -1.0), ("y", 1.0)]


def test_an_agreement_comes_back_from_its_json() -> None:
    random = Random(5)
    said = pairs([(random.choice([None, 0.0, 0.25, 1.0]), random.choice([0.0, 0.5, 1.0])) for _ in range(40)])
    found = agreement("j", [*said, pair(0.7, 1.0, criterion=None, by_model=False)], gold="abc")
    assert Agreement.of_content(json.loads(json.dumps(found.content(), allow_nan=False))) == found


def test_without_scipy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'toolatlas\[judge\]'"):
        measures(counted(1, 0, 0, 1))
