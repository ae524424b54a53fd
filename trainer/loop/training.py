"""The loop: updates, validation, early stop, checkpoints. Reads from top to bottom.

Above: running.py, which knows runs, data and adapters. Below: trainable.py, checkpoints.py, metrics.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from proxy.errors import ConfigurationError
from trainer.loop.checkpoints import Checkpoints, Position
from trainer.loop.metrics import MetricsLog
from trainer.loop.trainable import LOSS, Trainable

CHECKPOINTS = "checkpoints"
"""The folder of them, in the run's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How often the loop looks up.

    Raises:
        ConfigurationError: A number is not positive.
    """

    validate_every: int = 20
    """Updates between two validations."""
    checkpoint_every: int = 20
    """Updates between two checkpoints; there is one after every validation, too."""
    patience: int = 5
    """Validations in a row that may be no better than the best one."""
    tensorboard: Path | None = None

    def __post_init__(self) -> None:
        for name in ("validate_every", "checkpoint_every", "patience"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} is at least 1, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended."""

    steps: int
    best_step: int
    """The update whose weights `train` left in the trainable."""
    best_loss: float
    stopped_early: bool


Tell = Callable[[Position, float], None]
"""Told of where the run is and of its last training loss, after every update."""


class Interrupted(Exception):
    """Somebody asked the run to stop; its checkpoint is written."""


def train(
    trainable: Trainable,
    folder: Path,
    settings: LoopSettings,
    *,
    tell: Tell = lambda _position, _loss: None,
    wanted: Callable[[], bool] = lambda: True,
) -> Ended:
    """Train from the checkpoint in `folder`, or from the beginning, and leave the best weights in `trainable`.

    `wanted` is asked after every update; once it says no, the state is written and Interrupted raised.

    Raises:
        ConfigurationError: A checkpoint is damaged, or a loss is no number.
    """
    checkpoints = Checkpoints(folder / CHECKPOINTS)
    position = checkpoints.position()
    if position is not None:
        trainable.load_state_dict(checkpoints.load(position.step))
    with MetricsLog(folder, 0 if position is None else position.step, tensorboard=settings.tensorboard) as log:
        if position is None:
            # What there is before any training: to stay there is the choice when nothing improves it.
            position = _validated(trainable, Position(step=0, validated=0), log)
            checkpoints.write(position, trainable.state_dict())
        while not position.ended and position.step < trainable.steps:
            figures = trainable.step()
            position = replace(position, step=position.step + 1)
            loss = _finite(figures.get(LOSS, 0.0), position)
            log.write(position.step, "training", figures)
            due = position.step % settings.validate_every == 0 or position.step == trainable.steps
            if due:
                position = _validated(trainable, position, log)
                position = replace(position, ended=position.worse >= settings.patience)
            stop = not wanted()
            if due or stop or position.step % settings.checkpoint_every == 0:
                checkpoints.write(position, trainable.state_dict())
            tell(position, loss)
            if stop and not position.ended and position.step < trainable.steps:
                raise Interrupted
    assert position.best_step is not None
    assert position.best_loss is not None
    trainable.load_state_dict(checkpoints.load(position.best_step))
    return Ended(
        steps=position.step,
        best_step=position.best_step,
        best_loss=position.best_loss,
        stopped_early=position.ended,
    )


def _validated(trainable: Trainable, position: Position, log: MetricsLog) -> Position:
    figures = trainable.validate()
    loss = _finite(figures[LOSS], position)
    log.write(position.step, "validation", figures)
    if position.best_loss is None or loss < position.best_loss:
        return replace(position, validated=position.step, best_step=position.step, best_loss=loss, worse=0)
    return replace(position, validated=position.step, worse=position.worse + 1)


def _finite(loss: float, position: Position) -> float:
    if not math.isfinite(loss):
        raise ConfigurationError(
            f"the loss is {loss} after {position.step} updates; a smaller learning rate usually helps"
        )
    return loss
