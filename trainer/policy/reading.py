"""How likely a causal model finds what is learned: its tokens alone are scored, and nothing is made of the others.

Above: objectives/ and tuning.py. Below: torch, and any causal transformers model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.policy.windows import Window
from trainer.ranking.tensors import Tensor, torch


def log_likelihoods(model: Any, windows: Sequence[Window]) -> list[Tensor]:
    """For each of `n` windows natural logarithms of the probabilities of its learned tokens, each after all tokens
    before it; float32, with gradients, `[k]` for a window with `k` of them."""
    longest = max(len(each.tokens) for each in windows)
    # Padded on the right: nothing that counts reads what comes later.
    padded = [[*each.tokens, *[0] * (longest - len(each.tokens))] for each in windows]
    ids = torch.tensor(padded, device=model.device)
    # Logits are most of the memory, and of the work of a small model: only of places whose next token counts.
    kept = sorted({place - 1 for each in windows for place in each.learned})
    logits = model(
        input_ids=ids, use_cache=False, logits_to_keep=torch.tensor(kept, dtype=torch.long, device=ids.device)
    ).logits.float()
    column = {place: at for at, place in enumerate(kept)}
    found: list[Tensor] = []
    for row, each in enumerate(windows):
        places = each.learned
        said = logits[row, [column[place - 1] for place in places]]
        told = ids[row, places]
        found.append(said.gather(1, told.unsqueeze(1)).squeeze(1) - said.logsumexp(1))
    return found
