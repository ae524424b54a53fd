"""KTO by TRL's own loss: whole windows are desirable or not, by the sign of their advantage.

Above: tuning.py. Below: trl, imported when this objective is made. With the log-ratio of what is learned in a window,
`r = Σ log π(t) - Σ log π_0(t)`, against the untuned model π_0,

    L = mean(1 - σ(β (r - z)))  where it is desirable,   mean(1 - σ(β (z - r)))  where not

and `z = max(0, KL)`, estimated from what other windows' actions are worth in this one's place (Ethayarajh et al. 2024,
arXiv 2402.01306, equation 7). Observations and failed calls are in no sum. As in sft.py only the loss is TRL's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from proxy.errors import ConfigurationError
from trainer.policy.objectives.trl import arguments, forget, imported, scratch
from trainer.policy.settings import TuningSettings
from trainer.policy.windows import Window
from trainer.ranking.tensors import Tensor, torch

_ADAPTER, _REFERENCE = "default", "ref"


class Kto:
    """Implements `Objective`. `model`: a `PeftModel` whose adapter is untrained yet.

    Raises:
        ConfigurationError: trl or one of its packages is missing, or one pass has a single window.
    """

    def __init__(self, model: Any, tokenizer: Any, settings: TuningSettings) -> None:
        if settings.batch < 2:
            raise ConfigurationError("KTO compares windows of one pass: batch is at least 2")
        trl, datasets = imported()

        class Told(trl.KTOTrainer):  # type: ignore[misc]
            """It makes tokens of texts; ours are tokens already, and made once."""

            def _prepare_dataset(self, dataset: Any, *_: Any) -> Any:
                return dataset

        self._model = model
        nothing = datasets.Dataset.from_list([{"prompt_ids": [0], "completion_ids": [0], "label": True}])
        with scratch() as folder:
            self._trainer: Any = Told(
                model,
                args=trl.KTOConfig(
                    **arguments(folder, model, settings), beta=settings.kto_beta, train_sampling_strategy="sequential"
                ),
                train_dataset=nothing,
                processing_class=tokenizer,
            )
        # It keeps a copy of the adapter as reference; as this one is untrained, that is the model without any.
        model.set_adapter(_ADAPTER)
        model.delete_adapter(_REFERENCE)

    def teaches(self, window: Window) -> bool:
        return _advantage(window) != 0

    def loss(self, part: Sequence[Window], of: Sequence[Window]) -> Tensor:
        others = [of[of.index(each) - 1] for each in part]
        inputs = {
            **_padded("", [(each.tokens, each.learned) for each in part], self._model.device),
            **_padded("KL_", [_mismatched(*each) for each in zip(part, others, strict=True)], self._model.device),
            "label": torch.tensor([_advantage(each) > 0 for each in part], device=self._model.device),
        }
        loss = self._trainer.compute_loss(self._model, inputs)
        forget(self._trainer)
        return loss * (len(part) / len(of))


def _advantage(window: Window) -> float:
    """The mean over its learned tokens; 0 where it has none."""
    learned = window.learned
    return math.fsum(window.advantages[place] for place in learned) / max(1, len(learned))


def _mismatched(window: Window, other: Window) -> tuple[tuple[int, ...], list[int]]:
    """What one window reads before its first action, and the first action of another one in its place."""
    start, action = window.learned[0], _first(other)
    return (*window.tokens[:start], *action), list(range(start, start + len(action)))


def _first(window: Window) -> tuple[int, ...]:
    learned = window.learned
    last = next((place for place, after in pairwise(learned) if after != place + 1), learned[-1])
    return window.tokens[learned[0] : last + 1]


def _padded(prefix: str, rows: Sequence[tuple[Sequence[int], Sequence[int]]], device: Any) -> dict[str, Tensor]:
    """As TRL names them: `[n, longest]` each. `rows`: tokens, and places of those that count."""
    shape = (len(rows), max(len(tokens) for tokens, _ in rows))
    ids, read, counts = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
    for row, (tokens, places) in enumerate(rows):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        read[row, : len(tokens)] = 1
        counts[row, list(places)] = 1
    named = {"input_ids": ids, "attention_mask": read, "completion_mask": counts}
    return {f"{prefix}{name}": value.to(device) for name, value in named.items()}
