"""Where a training computes, and in which numbers.

Above: online/, whose command says where. Below: torch, when it is asked. In bfloat16 a CPU without instructions for it
is 6 to 16 times slower than in float32; a GPU is faster, and weights of an adapter stay float32 on both. A
language model for a scorer chooses the same way (proxy/router/language_model.py); the encoder and its adapters stay on
the processor, where the router has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from proxy.errors import ConfigurationError

CHOICES = ("auto", "cpu", "cuda", "mps")


@dataclass(frozen=True, slots=True)
class Device:
    """One of torch's."""

    name: str
    """`cpu`, `cuda` or `mps`."""

    @property
    def half(self) -> bool:
        """Whether passes are made in bfloat16."""
        return self.name == "cuda"

    def __str__(self) -> str:
        return f"{self.name}, {'bfloat16' if self.half else 'float32'}"


def device(wanted: str = "auto") -> Device:
    """`auto`: a GPU where there is one.

    Raises:
        ConfigurationError: There is no such device here.
    """
    if wanted not in CHOICES:
        raise ConfigurationError(f"--device is one of {', '.join(CHOICES)}, not {wanted!r}")
    if wanted == "cpu":
        return Device("cpu")
    import torch

    library: Any = torch
    there = {"cuda": library.cuda.is_available(), "mps": library.backends.mps.is_available()}
    if wanted == "auto":
        return Device("cuda" if there["cuda"] else "cpu")
    if not there[wanted]:
        raise ConfigurationError(f"torch finds no {wanted} here; --device cpu trains on the processor")
    return Device(wanted)
