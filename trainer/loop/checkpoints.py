"""The state of a run on disk: the newest that was written whole, and the best one so far.

Above: training.py. Below: torch, whose `weights_only` reading runs nothing that a file holds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from proxy.errors import ConfigurationError

_POINTER = "checkpoint.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a run is, without the weights."""

    step: int
    """Updates that were made."""
    validated: int
    """The last update after which it was validated; 0 is before the first."""
    best_step: int | None = None
    """The update after which validation was best; None before the first validation."""
    best_loss: float | None = None
    worse: int = 0
    """Validations in a row that were no better than the best."""
    ended: bool = False


class Checkpoints:
    """The checkpoints of one run, in a folder of their own. Files are written beside, synced and renamed; one small
    file names those that count, so that a kill at any point leaves the ones before or the ones after, never a mix."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def position(self) -> Position | None:
        """Where the run was left; None where it has not begun.

        Raises:
            ConfigurationError: What is there cannot be read.
        """
        try:
            text = (self._folder / _POINTER).read_text("utf-8")
        except FileNotFoundError:
            return None
        try:
            return Position(**cast("dict[str, Any]", json.loads(text)))
        except (ValueError, TypeError) as error:
            raise ConfigurationError(
                f"{self._folder / _POINTER} is damaged ({error}); remove the run's folder and train again"
            ) from error

    def load(self, step: int) -> dict[str, Any]:
        """The state after that many updates.

        Raises:
            ConfigurationError: It is not there, or damaged.
        """
        import torch

        path = self._path(step)
        try:
            loaded: Any = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise ConfigurationError(
                f"the checkpoint {path} cannot be read ({type(error).__name__}: {error}); "
                "remove the run's folder and train again"
            ) from error
        return loaded

    def write(self, position: Position, state: Mapping[str, Any]) -> None:
        """Make this the newest. What is neither the newest nor the best is removed afterwards."""
        import torch

        path = self._path(position.step)
        draft = path.with_suffix(".draft")
        with draft.open("wb") as file:
            torch.save(dict(state), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        self._point(position)
        self._sweep(position)

    def _point(self, position: Position) -> None:
        draft = self._folder / f"{_POINTER}.draft"
        with draft.open("w", encoding="utf-8") as file:
            json.dump(asdict(position), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._folder / _POINTER)
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _sweep(self, position: Position) -> None:
        kept = {self._path(step) for step in (position.step, position.best_step) if step is not None}
        for path in self._folder.glob("*.pt"):
            if path not in kept:
                path.unlink(missing_ok=True)

    def _path(self, step: int) -> Path:
        return self._folder / f"{step:09d}.pt"
