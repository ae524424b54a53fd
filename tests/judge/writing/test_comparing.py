"""Rubrics beside each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judge.rubric import Category, Criterion, Kind, Rubric
from judge.writing.comparing import PAPER, agreement_of, compare, shape


def criterion(id: str, text: str = "The answer names the total.", **members: object) -> Criterion:
    given: dict[str, object] = {
        "id": id,
        "category": Category.TASK_FULFILMENT,
        "text": text,
        "weight": 5,
        "kind": Kind.CHECK,
        "check": "answer_has",
        "needs": frozenset(),
    }
    return Criterion(**(given | members))  # pyright: ignore[reportArgumentType]


def test_equal_criteria_are_the_same_wherever_they_stand():
    one, other = criterion("a"), criterion("b", "Lamps are counted.")
    found = compare(Rubric((one, other)), Rubric((other, one)))
    assert found.same == (one, other)
    assert found.changed == found.only_first == found.only_second == ()


def test_a_criterion_of_the_same_id_is_changed_and_says_in_which_members():
    before = criterion("a")
    after = replace(before, weight=9, parameters={"facts": ["12"]})
    (change,) = compare(Rubric((before,)), Rubric((after,))).changed
    assert (change.before, change.after, change.members) == (before, after, ("weight", "parameters"))


def test_criteria_that_ask_the_same_or_say_nearly_the_same_are_paired_under_other_ids():
    asks = criterion("facts", parameters={"facts": ["12"]})
    asks_too = criterion("answer", "What was asked for stands in the answer.", parameters={"facts": ["12"]})
    says = criterion("count", "The answer gives the number of lamps, which is 12.", parameters={"facts": ["12", "x"]})
    says_too = criterion("many", "The answer gives the number of lamps, which is 14.", parameters={"facts": ["14"]})
    found = compare(Rubric((asks, says)), Rubric((says_too, asks_too)))
    assert [(each.before, each.after) for each in found.changed] == [(asks, asks_too), (says, says_too)]
    assert found.changed[0].members == ("id", "text")


def test_criteria_of_other_matters_are_only_in_one():
    one = criterion("a", "The right server was used.")
    other = criterion("b", "The answer states the date of the last commit.")
    one, other = replace(one, parameters={"facts": ["1"]}), replace(other, parameters={"facts": ["2"]})
    elsewhere = criterion("c", "The right server was asked.", category=Category.TOOL_APPROPRIATENESS)
    found = compare(Rubric((one,)), Rubric((other, elsewhere)))
    assert found.only_first == (one,)
    assert [each.id for each in found.only_second] == ["b", "c"]


def test_no_criterion_is_paired_twice():
    one = criterion("a")
    found = compare(Rubric((one, replace(one, id="b"))), Rubric((replace(one, id="c"),)))
    assert len(found.changed) == 1
    assert [each.id for each in found.only_first] == ["b"]


def test_the_shape_gives_weights_counts_and_the_distance_from_the_papers_distribution():
    spread = [(category, place) for category, many in PAPER.items() for place in range(many)]
    written = [criterion(f"{category}_{place}", category=category) for category, place in spread]
    assert shape(Rubric(tuple(written))).off_paper == pytest.approx(0)
    asked = replace(
        written[0], id="model", kind=Kind.JUDGE, check=None, category=Category.PARAMETER_ACCURACY, weight=10
    )
    found = shape(Rubric((written[0], asked)))
    assert found.counts[Category.TOOL_GROUNDING] == 0
    assert found.weights[Category.PARAMETER_ACCURACY] == pytest.approx(2 / 3)
    assert sum(found.weights.values()) == pytest.approx(1)
    assert found.checks == 0.5
    assert found.off_paper == pytest.approx(5 / 12)


def test_rewards_are_compared_on_the_episodes_that_both_rewarded():
    found = agreement_of({"a": 0.1, "b": 0.5, "c": 0.9, "d": None}, {"a": 0.2, "b": 0.5, "c": 1.0, "d": 1.0, "e": 0.0})
    assert found.episodes == 3
    assert found.rank_correlation == pytest.approx(1)
    assert found.mean_difference == pytest.approx(0.2 / 3)
    assert found.why == ""


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ({}, {}, "only 0 episodes"),
        ({"a": 1.0, "b": 0.0}, {"a": 1.0, "b": 0.0}, "only 2 episodes"),
        (dict.fromkeys("abc", 1.0), {"a": 0.0, "b": 1.0, "c": 0.5}, "first rubric gives all"),
        ({"a": 0.0, "b": 1.0, "c": 0.5}, dict.fromkeys("abc", 1.0), "second rubric gives all"),
    ],
)
def test_where_ranks_say_nothing_the_reason_is_given(first: dict[str, float], second: dict[str, float], why: str):
    found = agreement_of(first, second)
    assert found.rank_correlation is None
    assert why in found.why
