"""Supervised fine-tuning by TRL's own loss, on the tokens of our rows.

Above: tuning.py. Below: trl, imported when this objective is made. Over the learned tokens of actions whose advantage
is above 0,

    L = -Σ log π(t) / n

TRL has no weights of tokens or rows, so that key tokens and caps do not count here. It only computes the loss:
updates, order and checkpoints are ours, and so it goes on after a kill as the other objectives do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.policy.objectives.trl import IGNORED, arguments, forget, imported, scratch
from trainer.policy.settings import TuningSettings
from trainer.policy.windows import Window
from trainer.ranking.tensors import Tensor, torch


class Sft:
    """Implements `Objective`. `model`: a `PeftModel`.

    Raises:
        ConfigurationError: trl or one of its packages is missing.
    """

    def __init__(self, model: Any, tokenizer: Any, settings: TuningSettings) -> None:
        trl, datasets = imported()
        self._model = model
        # A trainer needs some data set. This one is never read: `loss` is given its windows.
        nothing = datasets.Dataset.from_list([{"input_ids": [0, 0], "labels": [IGNORED, 0]}])
        with scratch() as folder:
            self._trainer: Any = trl.SFTTrainer(
                model,
                args=trl.SFTConfig(
                    **arguments(folder, model, settings),
                    max_length=None,
                    # They are tokens already, and made once.
                    dataset_kwargs={"skip_prepare_dataset": True},
                ),
                train_dataset=nothing,
                processing_class=tokenizer,
            )

    def teaches(self, window: Window) -> bool:
        return bool(_good(window))

    def loss(self, part: Sequence[Window], of: Sequence[Window]) -> Tensor:
        inputs = self._trainer.data_collator([_labelled(each) for each in part])
        inputs = {name: value.to(self._model.device) for name, value in inputs.items()}
        count = torch.tensor(sum(len(_good(each)) for each in of))
        loss = self._trainer.compute_loss(self._model, inputs, num_items_in_batch=count)
        forget(self._trainer)
        return loss


def _good(window: Window) -> list[int]:
    return [place for place in window.learned if window.advantages[place] > 0]


def _labelled(window: Window) -> dict[str, list[int]]:
    labels = [IGNORED] * len(window.tokens)
    for place in _good(window):
        labels[place] = window.tokens[place]
    return {"input_ids": list(window.tokens), "labels": labels}
