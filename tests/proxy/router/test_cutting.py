"""How many tools are shown: one or two of a sure ranking, all that were asked for of any other."""

from __future__ import annotations

import math

import pytest

from proxy.router.cutting import TEMPERATURES, Certainty, cut

SURE = [20.0, *[5.0] * 9]
"""Nothing comes near the first."""
TWO = [20.0, 19.5, *[5.0] * 8]
OPEN = [20.0 - place / 10 for place in range(10)]


@pytest.mark.parametrize("policy", sorted(TEMPERATURES))
@pytest.mark.parametrize(("scores", "count", "sure"), [(SURE, 1, True), (TWO, 2, True), (OPEN, 5, False)])
def test_the_clearer_the_first_the_fewer_are_shown(policy: str, scores: list[float], count: int, sure: bool) -> None:
    made = cut(scores, policy, "count words", None, 5, Certainty())
    assert (made.count, made.sure) == (count, sure)


def test_who_says_how_many_gets_as_many_of_a_sure_ranking_too() -> None:
    for asked, count in ((1, 1), (3, 3), (20, 10)):
        made = cut(SURE, "lexical", "count words", asked, 5, Certainty())
        assert (made.count, made.sure) == (count, True)


def test_a_query_of_several_sentences_is_never_sure() -> None:
    text = "Find the weather in Rome. Then book a table for two."
    assert cut(SURE, "fused", text, None, 5, Certainty()).count == 5
    assert not cut(SURE, "fused", text, None, 5, Certainty()).sure
    assert cut(SURE, "fused", "Find the weather in Rome. Please!", None, 5, Certainty()).count == 1


def test_scores_that_nobody_has_measured_cut_nothing() -> None:
    made = cut(SURE, "slm:some/model", "count words", None, 5, Certainty())
    assert (made.count, made.sure) == (5, False)


def test_thresholds_are_settings() -> None:
    assert cut(OPEN, "lexical", "count", None, 5, Certainty(one=0.1, two=9.0)).count == 2
    assert cut(SURE, "lexical", "count", None, 5, Certainty(one=-1.0, two=-1.0)).count == 5


def test_entropy_is_that_of_the_softmax_in_nats() -> None:
    assert cut([3.0] * 8, "lexical", "count", None, 5, Certainty()).entropy == pytest.approx(math.log(8))
    temperature = TEMPERATURES["lexical"]
    odds = math.exp(-1.0 / temperature)
    first, second = 1 / (1 + odds), odds / (1 + odds)
    expected = -(first * math.log(first) + second * math.log(second))
    assert cut([2.0, 1.0], "lexical", "count", None, 5, Certainty()).entropy == pytest.approx(expected)


def test_candidates_that_are_few_or_far_apart_are_no_trouble() -> None:
    assert cut([], "lexical", "count", None, 5, Certainty()) == cut([], "lexical", "count", 3, 5, Certainty())
    assert cut([], "lexical", "count", None, 5, Certainty()).entropy is None
    assert cut([7.0], "lexical", "count", None, 5, Certainty()).entropy == 0.0
    assert cut([1e9, -1e9], "lexical", "count", None, 5, Certainty()).count == 1
