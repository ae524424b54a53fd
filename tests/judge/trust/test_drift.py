"""The gate: what a judge has to reach, and that it may not be worse than the one before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judge.trust.agreement import Agreement, Pair, agreement
from judge.trust.drift import Gate, passage
from proxy.errors import ConfigurationError
from tests.judge.trust.pairs import counted, pairs


def of(said: list[Pair], judge: str = "new", gold: str = "g") -> Agreement:
    return agreement(judge, said, gold=gold)


GOOD = counted(45, 5, 5, 45)
"""Kappa 0.8."""


def wrong_on(number: int) -> list[Pair]:
    """As GOOD, and as many verdicts more of the right ones turned round, half of each kind."""
    right = [place for place, each in enumerate(GOOD) if each.score == each.human]
    turned = set(right[: number // 2] + right[-(number - number // 2) :]) if number else set[int]()
    return [replace(each, score=1 - (each.score or 0)) if place in turned else each for place, each in enumerate(GOOD)]


def test_a_good_first_judge_passes() -> None:
    found = passage(of(GOOD), None)
    assert found.accepted
    assert found.why == "new has a kappa of 0.80 on criteria; there is no judge to compare it with."


@pytest.mark.parametrize("said", [counted(30, 20, 15, 35), counted(50, 50, 0, 0), counted(5, 45, 45, 5)])
def test_a_low_kappa_is_refused(said: list[Pair]) -> None:
    found = passage(of(said), None)
    assert not found.accepted
    assert found.why.endswith("at least 0.40 is needed.")


def test_too_many_missing_verdicts_are_refused_however_good_the_others_are() -> None:
    few, many = [(None, 1.0)] * 42, [(None, 1.0)] * 43
    assert passage(of([*GOOD, *pairs(few)]), None).accepted
    found = passage(of([*GOOD, *pairs(many)]), None)
    assert not found.accepted
    assert found.why == "new gave no verdict on 30% of 143 gold labels on criteria; at most 30% may be missing."


def test_a_judge_that_says_nothing_is_refused() -> None:
    assert not passage(of([]), None).accepted
    assert not passage(of(pairs([(None, 1.0)] * 5)), None).accepted


def test_no_kappa_is_refused_with_its_reason() -> None:
    found = passage(of(pairs([(1.0, 1.0)] * 5)), None)
    assert (found.accepted, found.why) == (
        False,
        "The agreement of new on criteria has no kappa: people's values are all the same.",
    )


def test_where_no_labelled_criterion_is_in_scope_the_rewards_are_looked_at() -> None:
    assert "on rewards" in passage(of(counted(9, 1, 1, 9, criterion=None)), None).why
    assert not passage(of(counted(5, 5, 5, 5, criterion=None)), None).accepted


def test_the_same_judge_again_passes() -> None:
    found = passage(of(GOOD), of(GOOD, "old"))
    assert found.accepted
    assert found.why.endswith("on the 100 pairs that both decided it is as good as old.")


@pytest.mark.parametrize(("wrong", "accepted"), [(1, True), (2, True), (8, False), (14, False)])
def test_a_clear_loss_is_refused_and_a_small_one_is_not(wrong: int, accepted: bool) -> None:
    found = passage(of(wrong_on(wrong)), of(GOOD, "old"))
    assert found.accepted is accepted, found.why
    assert "worse than old" in found.why
    assert ("of the resamples" in found.why) is not accepted


def test_a_better_judge_passes() -> None:
    found = passage(of(GOOD), of(wrong_on(14), "old"))
    assert found.accepted
    assert "0.28 better than old" in found.why


def test_a_loss_in_a_set_too_small_to_tell_counts_against_the_judge() -> None:
    old, new = counted(6, 1, 0, 6), counted(6, 1, 0, 6)
    new[0] = replace(new[0], score=0.0)
    assert not passage(of(new), of(old, "old")).accepted


def test_pairs_are_compared_on_what_both_decided() -> None:
    half = [replace(each, score=None) if place % 4 == 0 else each for place, each in enumerate(GOOD)]
    found = passage(of(half), of(GOOD, "old"))
    assert found.accepted
    assert "on the 75 pairs" in found.why


def test_rewards_are_not_mixed_into_what_is_compared() -> None:
    good, bad = counted(45, 5, 5, 45, criterion=None), counted(5, 45, 45, 5, criterion=None)
    found = passage(of([*GOOD, *bad]), of([*GOOD, *good], "old"))
    assert found.accepted
    assert "on the 100 pairs" in found.why


def test_without_common_pairs_the_plain_difference_decides() -> None:
    apart = [replace(each, item=f"x{each.item}") for each in GOOD]
    assert "which is as good as old" in passage(of(GOOD), of(apart, "old")).why
    found = passage(of(wrong_on(8)), of(apart, "old"))
    assert not found.accepted
    assert found.why == "new has a kappa of 0.64 on criteria, which is 0.16 worse than old; at most 0.10 may be lost."


def test_another_gold_set_is_not_compared() -> None:
    found = passage(of(wrong_on(14)), of(GOOD, "old", gold="h"))
    assert found.accepted
    assert "another gold set" in found.why


def test_the_gate_can_be_set_and_not_to_what_cannot_be_meant() -> None:
    assert passage(of(wrong_on(14)), of(GOOD, "old"), Gate(most_loss=0.5)).accepted
    assert not passage(of(GOOD), None, Gate(least_kappa=0.9)).accepted
    with pytest.raises(ConfigurationError, match="most_missing of the gate"):
        Gate(most_missing=30)
