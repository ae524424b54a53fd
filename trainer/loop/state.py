"""What the next update of a trainable depends on, as a checkpoint has it.

Above: ranking/training.py and policy/tuning.py. Below: torch. Orders are not in it: they follow from the seed and the
number of updates.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer


def state_of(made: int, parameters: Mapping[str, Tensor], optimiser: Optimizer) -> dict[str, Any]:
    """After `made` updates: what is trained, its optimiser, and torch's generator."""
    return {
        "made": made,
        "parameters": {name: value.detach().cpu().clone() for name, value in parameters.items()},
        "optimiser": copy.deepcopy(optimiser.state_dict()),
        "random": torch.get_rng_state(),
    }


def restore(state: Mapping[str, Any], parameters: Mapping[str, Tensor], optimiser: Optimizer) -> int:
    """Back to that state, in place; how many updates were made then."""
    with torch.no_grad():
        for name, value in parameters.items():
            value.copy_(state["parameters"][name])
    optimiser.load_state_dict(state["optimiser"])
    torch.set_rng_state(state["random"])
    return state["made"]
