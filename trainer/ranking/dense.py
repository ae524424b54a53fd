"""The fused score of tools as proxy/router/fusion.py makes it, in torch: what is trained is what is served.

Above: head.py and encoder_lora.py. Below: torch, and the weights of fusion.py. A tool's score is its nearness to the
query in standard deviations over the catalogue, the adapter's for learned tools and the untrained one for all others,
and the words' score. The score of its server is left out: it is made of those of its tools.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.router.fusion import PARTS, WHOLE
from trainer.ranking.readings import Reading
from trainer.ranking.tensors import Tensor, torch


def batched(readings: Sequence[Reading]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Passages of `b` queries `[p, d]`, their lengths `[p]`, whose each is `[p]`, and the scores by words `[b, m]`."""
    import numpy as np

    return (
        torch.from_numpy(np.concatenate([each.parts for each in readings])),
        torch.from_numpy(np.concatenate([each.lengths for each in readings])),
        torch.repeat_interleave(torch.tensor([len(each.parts) for each in readings])),
        torch.from_numpy(np.stack([each.words for each in readings])),
    )


def nearness(parts: Tensor, lengths: Tensor, whose: Tensor, documents: Tensor) -> Tensor:
    """How near each of `m` documents is to each of `b` queries, `[b, m]`; arguments as `batched` gives them."""
    count = int(whose[-1]) + 1
    whole = parts.new_zeros(count, parts.shape[1]).index_add(0, whose, parts * lengths.unsqueeze(1))
    whole = torch.nn.functional.normalize(whole, dim=1)
    each = parts @ documents.T
    nearest = each
    if len(each) > count:
        lowest = each.new_full((count, each.shape[1]), -2.0)
        nearest = lowest.scatter_reduce(0, whose.unsqueeze(1).expand_as(each), each, "amax")
    return WHOLE * (whole @ documents.T) + PARTS * nearest


def standard(scores: Tensor, shares: Tensor) -> Tensor:
    """`[b, m]` in deviations from the mean over the catalogue, of which column `i` stands for the part `shares[i]`."""
    mean, deviation = moments(scores, shares)
    return (scores - mean) / deviation


def moments(scores: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
    """Of each row of `[b, m]` the mean and the standard deviation over the catalogue, `[b, 1]` each."""
    mean = (scores * shares).sum(1, keepdim=True)
    return mean, (((scores - mean) ** 2 * shares).sum(1, keepdim=True) + 1e-12).sqrt()
