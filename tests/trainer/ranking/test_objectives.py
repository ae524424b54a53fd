"""Losses and weights against numbers that were worked out by hand."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from trainer.ranking.objectives import advantage_weighted, filtered_imitation, imitation  # noqa: E402
from trainer.ranking.objectives.softmax import softmax_loss  # noqa: E402

PLACES = {"a": 0, "b": 1, "c": 2}


def weighted(advantage: float, beta: float = 1.0) -> tuple[float, float]:
    return advantage_weighted.weights(advantage, beta=beta, clip=5.0, margin=0.5, negative=0.1)


def test_advantages_become_clipped_powers_and_bounded_negatives() -> None:
    assert weighted(0.0) == (1.0, 0.0)
    assert weighted(1.0) == (pytest.approx(math.e), 0.0)
    assert weighted(1.0, beta=2.0) == (pytest.approx(math.sqrt(math.e)), 0.0)
    assert weighted(-0.4) == (pytest.approx(math.exp(-0.4)), 0.0)
    assert weighted(2.0) == weighted(1e6) == (5.0, 0.0)
    assert weighted(-0.5) == (0.0, pytest.approx(0.05))
    assert weighted(-3.0) == (0.0, pytest.approx(0.3))


def test_imitation_filters_by_reward_or_not_at_all() -> None:
    assert [filtered_imitation.weights(advantage) for advantage in (0.1, 0.0, -2.0)] == [(1, 0), (0, 0), (0, 0)]
    assert imitation.weights() == (1, 0)


def test_the_loss_is_the_weighted_likelihood_of_what_was_right() -> None:
    # Probabilities 1/2, 1/4, 1/4 and 1/8, 1/8, 3/4.
    likely = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]]))
    loss = softmax_loss(likely, [PLACES, PLACES], [{"a": 2.0}, {"b": 1.0, "c": 0.5}], [{}, {}], floor=-6.0)
    expected = (2 * math.log(2) + math.log(8) + 0.5 * math.log(4 / 3)) / 2
    assert loss.item() == pytest.approx(expected)


def test_what_was_wrong_is_pushed_down_to_the_floor_and_no_further() -> None:
    scores = torch.zeros(1, 3, requires_grad=True)
    loss = softmax_loss(scores.log_softmax(1), [PLACES], [{}], [{"a": 0.5}], floor=-6.0)
    loss.backward()
    assert loss.item() == pytest.approx(-0.5 * math.log(3))
    # d log p(a) / d s = (1 - p, -p, -p)
    assert scores.grad[0].tolist() == pytest.approx([0.5 * 2 / 3, -0.5 / 3, -0.5 / 3])

    low = torch.tensor([[-10.0, 0.0, 0.0]], requires_grad=True)
    loss = softmax_loss(low.log_softmax(1), [PLACES], [{}], [{"a": 0.5}], floor=-6.0)
    loss.backward()
    assert loss.item() == pytest.approx(-3.0)
    assert low.grad[0].tolist() == [0.0, 0.0, 0.0]


def test_tools_without_a_column_count_for_nothing() -> None:
    likely = torch.log(torch.tensor([[0.5, 0.25, 0.25]]))
    assert softmax_loss(likely, [PLACES], [{"gone": 1.0}], [{"gone": 1.0}], floor=-6.0).item() == 0.0
