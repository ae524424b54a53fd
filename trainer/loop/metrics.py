"""The figures of a run as they come: lines of JSON in a file, and to TensorBoard where somebody wants to look there.

Above: training.py, the report. Below: tensorboard, only where it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from proxy.errors import ConfigurationError

FILE = "metrics.jsonl"


class MetricsLog:
    """One line for each update and each validation: `{"step", "kind", …figures}`. Made for `step`: lines of later
    updates, which a kill left behind, are removed, since they will come again."""

    def __init__(self, folder: Path, step: int, *, tensorboard: Path | None = None) -> None:
        """Raises ConfigurationError where TensorBoard is wanted and not installed."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / FILE
        kept = [line for line in read(folder) if line["step"] <= step]
        draft = path.with_suffix(".draft")
        draft.write_text("".join(f"{json.dumps(line)}\n" for line in kept), "utf-8")
        draft.replace(path)
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._board = None if tensorboard is None else _board(tensorboard, step)

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()

    def write(self, step: int, kind: str, figures: Mapping[str, float]) -> None:
        """`kind`: `training` or `validation`."""
        self._file.write(f"{json.dumps({'step': step, 'kind': kind, **figures})}\n")
        if self._board is not None:
            for name, value in figures.items():
                self._board.add_scalar(f"{kind}/{name}", value, step)


def read(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run in order; a last one that a kill cut short is left out."""
    try:
        lines = (folder / FILE).read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(cast("dict[str, Any]", json.loads(line)))
        except ValueError as error:
            if number < len(lines):
                raise ConfigurationError(f"{folder / FILE}, line {number}, is damaged: {error}") from error
    return found


def _board(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard.writer import SummaryWriter
    except ModuleNotFoundError as error:
        raise ConfigurationError("tensorboard is not installed: pip install tensorboard") from error
    library: Any = SummaryWriter
    return library(log_dir=str(folder), purge_step=step + 1)
