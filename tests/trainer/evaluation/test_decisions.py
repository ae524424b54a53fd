"""Scores as probabilities: temperatures that are known are found again, and confidence is compared with truth."""

from __future__ import annotations

import numpy as np
import pytest

from proxy.router.base import Query
from trainer.evaluation.answers import Answer
from trainer.evaluation.decisions import LEAST_FITTED, decisions, expected_error, fitted, reliability
from trainer.evaluation.tasks import HeldOut

TOOLS = 12


def answers(count: int, temperature: float, seed: int = 0) -> list[Answer]:
    """What is right is drawn from a softmax of the scores at that temperature."""
    random = np.random.default_rng(seed)
    made: list[Answer] = []
    for _ in range(count):
        scores = np.sort(random.normal(0, 2, TOOLS).astype(np.float32))[::-1]
        powers = np.exp(scores.astype(np.float64) / temperature)
        right = int(random.choice(TOOLS, p=powers / powers.sum()))
        made.append(Answer(tools=(), servers=(), scores=scores, right=(right,), ms=1.0))
    return made


def tasks(count: int) -> list[HeldOut]:
    return [HeldOut(id=str(n), query=Query("q"), tools=(), servers=(), cluster=str(n)) for n in range(count)]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_the_temperature_that_made_the_log_is_found(temperature: float) -> None:
    assert fitted(answers(4_000, temperature), TOOLS) == pytest.approx(temperature, rel=0.12)


def test_who_is_as_sure_as_right_has_little_error_and_who_is_too_sure_has_much() -> None:
    test, validation = answers(2_000, 1.5, seed=1), answers(2_000, 1.5, seed=2)
    found = decisions(tasks(2_000), test, validation, TOOLS)
    assert found is not None
    assert found.ece < 0.05
    assert found.nll.low < found.nll.value < found.nll.high
    assert sum(each.count for each in found.bins) == 2_000
    too_sure = decisions(tasks(2_000), test, answers(2_000, 0.2, seed=3), TOOLS)
    assert too_sure is not None
    assert too_sure.ece > 0.15
    assert too_sure.nll.value > found.nll.value


def test_what_was_not_ranked_is_unlikely_and_not_impossible() -> None:
    scores = np.array([2.0, 1.0], dtype=np.float32)
    lost = [Answer(tools=(), servers=(), scores=scores, right=(), ms=1.0)] * LEAST_FITTED
    found = decisions(tasks(LEAST_FITTED), lost, lost, 1_000)
    assert found is not None
    assert found.nll.value == pytest.approx(-np.log(0.01 / 1_000))
    none = [Answer(tools=(), servers=(), scores=np.zeros(0, dtype=np.float32), right=(), ms=1.0)] * LEAST_FITTED
    assert decisions(tasks(LEAST_FITTED), none, none, 1_000) is not None


def test_with_few_to_fit_on_there_is_nothing() -> None:
    assert decisions(tasks(50), answers(50, 1.0), answers(LEAST_FITTED - 1, 1.0), TOOLS) is None
    assert decisions([], [], answers(50, 1.0), TOOLS) is None


def test_bins_hold_what_they_should() -> None:
    bins = reliability([0.05, 0.95, 1.0, 0.9], [False, True, True, False])
    assert [each.count for each in bins] == [1, 0, 0, 0, 0, 0, 0, 0, 0, 3]
    assert bins[9].accuracy == pytest.approx(2 / 3)
    assert bins[9].confidence == pytest.approx(2.85 / 3)
    assert expected_error(bins) == pytest.approx(0.25 * 0.05 + 0.75 * (2.85 - 2) / 3)
    assert expected_error(reliability([], [])) == 0
