"""Calibration: fitted to enough labels, monotone, kept as knots, applied to what a model decided alone."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.trust.agreement import Pair, measures
from judge.trust.calibration import ALL, Calibration, TooFewLabels, calibrated, fit
from judge.verdict import Verdict, Why
from tests.judge.trust.pairs import pairs

# A judge that gives 0.9 where 60 % are met, and 0.3 where 10 % are.
TOO_SURE = [(0.9, 1.0)] * 18 + [(0.9, 0.0)] * 12 + [(0.3, 1.0)] * 3 + [(0.3, 0.0)] * 27


def verdict(score: float | None, criterion: str = "c", *, by_model: bool = True) -> Verdict:
    why = Why.VOID if score is None else None
    return Verdict(criterion=criterion, score=score, why=why, repeats=(score,) if by_model else ())


def moved(calibration: Calibration, score: float, criterion: str = "c") -> float:
    (found,) = calibrated([verdict(score, criterion)], calibration)
    assert found.score is not None
    return found.score


def test_scores_become_what_people_gave_there_and_lie_on_a_line_between() -> None:
    found = fit("j", pairs(TOO_SURE))
    assert moved(found, 0.9) == pytest.approx(0.6)
    assert moved(found, 0.3) == pytest.approx(0.1)
    assert moved(found, 0.6) == pytest.approx(0.35)
    assert (moved(found, 0.0), moved(found, 1.0)) == (pytest.approx(0.1), pytest.approx(0.6))


def test_calibration_lowers_the_error_on_what_it_was_fitted_to() -> None:
    said = pairs(TOO_SURE)
    found = fit("j", said)
    after = pairs([(moved(found, each.score or 0.0), each.human) for each in said])
    assert measures(said).ece == pytest.approx(0.25)
    assert measures(after).ece == pytest.approx(0.0)


def test_equal_scores_and_a_fall_become_one_level() -> None:
    found = fit("j", pairs([(0.2, 1.0)] * 30 + [(0.8, 0.0)] * 10 + [(1.0, 1.0)] * 20))
    assert moved(found, 0.2) == moved(found, 0.5) == moved(found, 0.8) == pytest.approx(0.75)
    assert moved(found, 1.0) == 1.0


def test_fewer_than_fifty_labels_are_refused_and_the_missing_ones_counted() -> None:
    with pytest.raises(TooFewLabels, match="there are 49, so 1 are missing"):
        fit("j", pairs(TOO_SURE[:49]))
    assert fit("j", pairs(TOO_SURE[:50])).labels == 50


@pytest.mark.parametrize("changed", [{"by_model": False}, {"criterion": None}, {"judge": "other"}])
def test_checks_whole_trajectories_and_other_judges_are_no_labels_for_it(changed: dict[str, object]) -> None:
    with pytest.raises(TooFewLabels, match="there are 0"):
        fit("j", pairs(TOO_SURE, **changed))


def test_missing_verdicts_are_no_labels() -> None:
    with pytest.raises(TooFewLabels):
        fit("j", pairs([(None, 1.0)] * 60))


def test_a_criterion_with_enough_labels_has_its_own_map_and_others_share_one() -> None:
    said = [*pairs([(0.5, 1.0)] * 50, criterion="a"), *pairs([(0.5, 0.0)] * 49, criterion="b")]
    found = fit("j", said)
    assert set(found.maps) == {"a", ALL}
    assert moved(found, 0.5, "a") == 1.0
    assert moved(found, 0.5, "b") == moved(found, 0.5, "new") == pytest.approx(50 / 99)


def test_what_code_decided_or_nobody_did_stays_as_it_is() -> None:
    found = fit("j", pairs(TOO_SURE))
    before = (verdict(0.9, by_model=False), verdict(None))
    assert calibrated(before, found) == before


def test_a_calibrated_judge_has_a_name_of_its_own() -> None:
    found, other = fit("j", pairs(TOO_SURE)), fit("j", pairs(TOO_SURE[1:]))
    assert found.name == f"j~{found.hash[:8]}"
    assert len({found.name, other.name, fit("k", pairs(TOO_SURE, judge="k")).name}) == 3


def test_it_comes_back_from_its_json_with_the_same_name() -> None:
    found = fit("j", [*pairs(TOO_SURE), *pairs([(0.1, 0.3)] * 5, criterion="d")])
    read = Calibration.of_content(json.loads(json.dumps(found.content())), judge="j", labels=found.labels)
    assert (read, read.name) == (found, found.name)


SCORES = st.floats(0, 1)


@settings(deadline=None)
@given(st.lists(st.tuples(SCORES, SCORES), min_size=50, max_size=80), st.lists(SCORES, min_size=2, max_size=20))
def test_a_map_never_turns_two_scores_round_and_stays_between_0_and_1(
    said: Sequence[tuple[float, float]], scores: list[float]
) -> None:
    given_pairs: list[Pair] = pairs(said)
    found = fit("j", given_pairs)
    after = [moved(found, score) for score in sorted(scores)]
    assert after == sorted(after)
    assert all(0 <= each <= 1 for each in after)
