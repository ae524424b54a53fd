"""Low-rank changes of a model's linear layers, as both kinds of LoRA begin.

Above: encoder_lora.py and scorer.py. Below: peft. `W' = W + (α / r) B A` (Hu et al. 2021, arXiv 2106.09685), α twice r;
B begins at 0, which is the untrained model. In 32 bits, whatever the model's own weights are in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.errors import ConfigurationError
from trainer.ranking.tensors import Tensor


def with_lora(model: Any, rank: int, task: str | None = None) -> Any:
    """A `PeftModel` around `model`, into which it puts its layers. `task`: peft's own name of what the model does.

    Raises:
        ConfigurationError: peft is not installed.
    """
    try:
        import peft
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "peft is not installed, and LoRA needs it: pip install 'toolatlas[trainer]'"
        ) from error
    library: Any = peft
    config = library.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type=task)
    wrapped = library.get_peft_model(model, config)
    # Without dropout anywhere: what is trained is what is served, and a pass that is made again is the same.
    return wrapped.eval()


def trained(model: Any) -> Mapping[str, Tensor]:
    """The parameters of its adapter, by name."""
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def distance(parameters: Mapping[str, Tensor]) -> Tensor:
    """The sum of squares of all B: 0 where the model is untrained."""
    return sum((value**2).sum() for name, value in parameters.items() if ".lora_B." in name)
