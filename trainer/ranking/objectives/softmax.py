"""The loss of a softmax policy over tools: right ones are made likelier, wrong ones less likely down to a floor.

Above: training.py. Below: torch. The policy is `π(t | q) = exp(s(q, t) / τ) / Σ_u exp(s(q, u) / τ)` over the tools of
the catalogue, not only those that were shown: what nobody was shown must not win either. With weights `w` of what was
right and `v` of what was wrong, of all examples of a batch,

    L = (-Σ w(q, t) log π(t | q) + Σ v(q, t) max(log π(t | q), floor)) / n

The first term is a weighted negative log-likelihood (Peters and Schaal 2007, reward-weighted regression). The second is
bounded: at the floor its gradient ends, where a plain negative log-likelihood would go on without end and take the
rest of the policy with it (asymmetric treatment of negatives as in Roux et al. 2025, arXiv 2503.14286).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainer.ranking.tensors import Tensor


def softmax_loss(
    likely: Tensor,
    places: Sequence[Mapping[str, int]],
    right: Sequence[Mapping[str, float]],
    wrong: Sequence[Mapping[str, float]],
    floor: float,
) -> Tensor:
    """The mean loss of `n` examples, a number.

    Args:
        likely: Natural logarithms of the policy's probabilities, `[n, m]`.
        places: For each example the column of each tool; tools without one count for nothing.
        right: For each example the weights of tools that were right, at least 0.
        wrong: The same of those that were wrong.
        floor: In nats: what is less likely is not pushed down further.
    """
    good = _told(likely, places, right)
    bad = _told(likely, places, wrong, floor)
    return (bad - good) / len(places)


def _told(
    likely: Tensor,
    places: Sequence[Mapping[str, int]],
    weights: Sequence[Mapping[str, float]],
    floor: float | None = None,
) -> Tensor:
    cells = [
        (row, at[tool], weight)
        for row, (at, of) in enumerate(zip(places, weights, strict=True))
        for tool, weight in of.items()
        if tool in at
    ]
    if not cells:
        return likely.new_zeros(())
    rows, columns, values = zip(*cells, strict=True)
    told = likely[list(rows), list(columns)]
    if floor is not None:
        told = told.clamp(min=floor)
    return (told * likely.new_tensor(values)).sum()
