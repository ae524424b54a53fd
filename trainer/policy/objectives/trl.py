"""TRL 1.16, as both of its objectives make it: to compute losses, in one process, and to write nothing.

Above: sft.py and kto.py. Below: trl and datasets, imported when one of them is made.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from proxy.errors import ConfigurationError
from trainer.policy.settings import TuningSettings

IGNORED = -100
"""A label that is none, to torch and all that build on it."""


def imported() -> tuple[Any, Any]:
    """trl and datasets.

    Raises:
        ConfigurationError: One of them is missing.
    """
    try:
        import datasets  # pyright: ignore[reportMissingTypeStubs]
        import trl
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed, and SFT and KTO need it: pip install 'toolatlas[trainer]'"
        ) from error
    return trl, datasets


@contextmanager
def scratch() -> Generator[str]:
    """A folder for what its trainers want to make when they are made."""
    with TemporaryDirectory(prefix="toolatlas-trl-") as folder:
        yield folder


def arguments(folder: str, model: Any, settings: TuningSettings) -> dict[str, Any]:
    """What both kinds of TRL's settings are given."""
    return {
        "output_dir": folder,
        "per_device_train_batch_size": settings.batch,
        "use_cpu": model.device.type == "cpu",
        "bf16": False,
        "activation_checkpointing": False,
        "report_to": [],
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
        "seed": settings.seed,
    }


def forget(trainer: Any) -> None:
    """What it notes with each loss, and would keep until it logs."""
    for noted in trainer._metrics.values():
        noted.clear()
