"""Where a training computes."""

from __future__ import annotations

import pytest

from proxy.errors import ConfigurationError
from trainer.loop.devices import Device, device


def test_a_processor_computes_in_float32_and_a_gpu_in_bfloat16() -> None:
    assert device("cpu") == Device("cpu")
    assert str(Device("cpu")) == "cpu, float32"
    assert str(Device("cuda")) == "cuda, bfloat16"


def test_what_is_not_here_is_refused() -> None:
    import torch

    with pytest.raises(ConfigurationError, match="--device is one of"):
        device("tpu")
    there = torch.cuda.is_available()
    assert device("auto").name == ("cuda" if there else "cpu")
    if not there:
        with pytest.raises(ConfigurationError, match="no cuda here"):
            device("cuda")
