"""Scores as probabilities: how likely what was right is to a router, and whether it is as sure as it is right.

Above: evaluating.py. Below: answers.py. With s the scores of the n tools of a catalogue and T a temperature,

    p(tool) = (1 - δ) softmax(s / T) + δ / n

and T is the one with the least negative log-likelihood on validation rows, whose tasks are in no figure (temperature
scaling: C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On Calibration of Modern Neural Networks", ICML 2017, section
4.2). δ keeps a tool that a router did not rank at all from making the mean infinite. Where several tools were right
their probabilities are added: any of them is a right decision. The expected calibration error is the same paper's
equation 3, over ten bins of equal width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from proxy.router.metrics import bootstrap
from proxy.store.training_report import Decisions, Estimated, Reliability
from trainer.evaluation.answers import Answer
from trainer.evaluation.tasks import HeldOut

DELTA = 0.01
BINS = 10
LEAST_FITTED = 20
"""Validation tasks, below which no temperature is fitted."""
_LOWEST, _HIGHEST = math.log(0.02), math.log(50.0)
_HALVINGS = 40


def decisions(
    tasks: Sequence[HeldOut], answers: Sequence[Answer], fitted_on: Sequence[Answer], tools: int
) -> Decisions | None:
    """Of a router's answers to `tasks`. `fitted_on`: its answers to validation tasks. `tools`: in the catalogue. None
    where there are too few of either."""
    if len(fitted_on) < LEAST_FITTED or not answers:
        return None
    temperature = fitted(fitted_on, tools)
    likely = [_probabilities(each, temperature, tools) for each in answers]
    losses = [-math.log(right) for right, _ in likely]
    nll = bootstrap(losses, clusters=[task.cluster for task in tasks])
    right = [bool(each.right) and each.right[0] == 0 for each in answers]
    bins = reliability([sure for _, sure in likely], right)
    return Decisions(
        temperature=temperature,
        nll=Estimated(value=nll.value, low=nll.low, high=nll.high),
        ece=expected_error(bins),
        bins=bins,
    )


def fitted(answers: Sequence[Answer], tools: int) -> float:
    """The temperature with the least mean negative log-likelihood, by golden-section search of its logarithm."""

    def loss(log_temperature: float) -> float:
        temperature = math.exp(log_temperature)
        return -math.fsum(math.log(_probabilities(each, temperature, tools)[0]) for each in answers)

    ratio = (math.sqrt(5) - 1) / 2
    low, high = _LOWEST, _HIGHEST
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = loss(left), loss(right)
    for _ in range(_HALVINGS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = loss(right)
    return math.exp((low + high) / 2)


def reliability(confidences: Sequence[float], right: Sequence[bool]) -> tuple[Reliability, ...]:
    """Bins of equal width, from 0 to 1; 1 itself is in the last."""
    places = [min(int(each * BINS), BINS - 1) for each in confidences]
    made: list[Reliability] = []
    for number in range(BINS):
        its = [index for index, place in enumerate(places) if place == number]
        count = max(len(its), 1)
        made.append(
            Reliability(
                low=number / BINS,
                high=(number + 1) / BINS,
                count=len(its),
                confidence=math.fsum(confidences[index] for index in its) / count,
                accuracy=sum(right[index] for index in its) / count,
            )
        )
    return tuple(made)


def expected_error(bins: Sequence[Reliability]) -> float:
    """Mean distance between confidence and accuracy, each bin by its part of the decisions; 0 of none."""
    whole = sum(each.count for each in bins)
    return math.fsum(each.count * abs(each.confidence - each.accuracy) for each in bins) / max(whole, 1)


def _probabilities(answer: Answer, temperature: float, tools: int) -> tuple[float, float]:
    """Of what was right, and of what the router is surest of."""
    even = DELTA / max(tools, 1)
    if not len(answer.scores):
        return max(len(answer.right), 1) * even, even
    powers = np.exp((answer.scores - answer.scores[0]).astype(np.float64) / temperature)
    powers /= powers.sum()
    right = float(powers[list(answer.right)].sum())
    return (1 - DELTA) * right + max(len(answer.right), 1) * even, (1 - DELTA) * float(powers[0]) + even
