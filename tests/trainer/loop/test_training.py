"""The loop: what it writes, when it stops, and that nothing of a kill is seen afterwards."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from proxy.errors import ConfigurationError
from tests.trainer.loop.noisy_line import SETTINGS, STEPS, NoisyLine
from trainer.loop import metrics
from trainer.loop.checkpoints import Checkpoints
from trainer.loop.training import Interrupted, LoopSettings, train


class Getting(NoisyLine):
    """Whose validation gives the losses it is told to, and then worse and worse ones."""

    def __init__(self, losses: list[float]) -> None:
        super().__init__()
        self._told = itertools.chain(losses, itertools.count(100))

    def validate(self) -> Mapping[str, float]:
        return {"loss": next(self._told)}


def _losses(folder: Path) -> list[tuple[int, str, float]]:
    return [(line["step"], line["kind"], line["loss"]) for line in metrics.read(folder)]


def test_a_run_learns_and_keeps_its_best_weights(tmp_path: Path) -> None:
    line = NoisyLine()
    before = line.validate()["loss"]
    ended = train(line, tmp_path, SETTINGS)
    assert ended.steps == STEPS
    assert not ended.stopped_early
    assert ended.best_loss < before / 5
    assert line.validate()["loss"] == ended.best_loss
    assert min(loss for _, kind, loss in _losses(tmp_path) if kind == "validation") == ended.best_loss


def test_every_update_and_every_validation_has_its_line(tmp_path: Path) -> None:
    train(NoisyLine(), tmp_path, SETTINGS)
    lines = metrics.read(tmp_path)
    assert [line["step"] for line in lines if line["kind"] == "training"] == list(range(1, STEPS + 1))
    assert [line["step"] for line in lines if line["kind"] == "validation"] == [*range(0, STEPS, 7), STEPS]


def test_it_stops_early_and_goes_back_to_the_best(tmp_path: Path) -> None:
    settings = LoopSettings(validate_every=2, patience=3)
    line = Getting([5.0, 4.0, 3.0])
    ended = train(line, tmp_path, settings)
    assert ended.stopped_early
    assert (ended.best_step, ended.best_loss) == (4, 3.0)
    assert ended.steps == 4 + 2 * 3
    fresh = NoisyLine()
    for _ in range(4):
        fresh.step()
    assert fresh.state_dict()["weights"].tolist() == line.state_dict()["weights"].tolist()


def test_what_was_there_before_stays_where_nothing_improves_it(tmp_path: Path) -> None:
    line = Getting([1.0])
    ended = train(line, tmp_path, LoopSettings(validate_every=1, patience=2))
    assert ended.best_step == 0
    assert line.state_dict()["weights"].tolist() == [0.0, 0.0]


def test_a_run_that_ended_is_not_run_again(tmp_path: Path) -> None:
    first = train(NoisyLine(), tmp_path, SETTINGS)
    lines = _losses(tmp_path)
    assert train(NoisyLine(), tmp_path, SETTINGS) == first
    assert _losses(tmp_path) == lines


def test_a_run_that_is_asked_to_stop_goes_on_where_it_was(tmp_path: Path) -> None:
    train(NoisyLine(), tmp_path / "whole", SETTINGS)
    answers = itertools.chain([True] * 10, itertools.repeat(False))
    with pytest.raises(Interrupted):
        train(NoisyLine(), tmp_path / "parts", SETTINGS, wanted=lambda: next(answers))
    train(NoisyLine(), tmp_path / "parts", SETTINGS)
    assert _losses(tmp_path / "parts") == _losses(tmp_path / "whole")


def test_a_loss_that_is_no_number_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="learning rate"):
        train(Getting([1.0, float("nan")]), tmp_path, LoopSettings(validate_every=1))


@pytest.mark.parametrize("name", ["validate_every", "checkpoint_every", "patience"])
def test_settings_are_positive(name: str) -> None:
    values: dict[str, Any] = {name: 0}
    with pytest.raises(ConfigurationError, match=name):
        LoopSettings(**values)


def test_damaged_checkpoints_are_named(tmp_path: Path) -> None:
    train(NoisyLine(), tmp_path, SETTINGS)
    folder = tmp_path / "checkpoints"
    for path in folder.glob("*.pt"):
        path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ConfigurationError, match=r"\.pt cannot be read"):
        train(NoisyLine(), tmp_path, SETTINGS)
    (folder / "checkpoint.json").write_text('{"step": 1', "utf-8")
    with pytest.raises(ConfigurationError, match="is damaged"):
        Checkpoints(folder).position()


def test_a_checkpoint_that_is_written_half_does_not_count(tmp_path: Path) -> None:
    whole = train(NoisyLine(), tmp_path / "whole", SETTINGS)
    answers = itertools.chain([True] * 20, itertools.repeat(False))
    with pytest.raises(Interrupted):
        train(NoisyLine(), tmp_path / "parts", SETTINGS, wanted=lambda: next(answers))
    folder = tmp_path / "parts" / "checkpoints"
    (folder / "000000024.pt").write_bytes(b"half")
    (folder / "000000024.draft").write_bytes(b"half")
    (folder / "checkpoint.json.draft").write_text('{"step"', "utf-8")
    assert train(NoisyLine(), tmp_path / "parts", SETTINGS) == whole


def test_a_last_line_that_a_kill_cut_short_is_left_out(tmp_path: Path) -> None:
    (tmp_path / metrics.FILE).write_text('{"step": 1, "kind": "training", "loss": 1.0}\n{"step": 2, "ki', "utf-8")
    assert [line["step"] for line in metrics.read(tmp_path)] == [1]
    (tmp_path / metrics.FILE).write_text('{"step": 1, "ki\n{"step": 2, "kind": "training", "loss": 1.0}\n', "utf-8")
    with pytest.raises(ConfigurationError, match="line 1, is damaged"):
        metrics.read(tmp_path)


@pytest.mark.timeout(600)
def test_killed_at_ten_points_it_comes_to_the_same_losses(tmp_path: Path) -> None:
    train(NoisyLine(), tmp_path / "whole", SETTINGS)
    parts = tmp_path / "parts"
    kills = 0
    for last in (1, 3, 8, 14, 21, 22, 30, 41, 49, 57):
        kills += _killed_after(parts, last)
    assert kills == 10
    assert _run(parts)[-1] == "ended"
    whole, resumed = _losses(tmp_path / "whole"), _losses(parts)
    assert [line[:2] for line in resumed] == [line[:2] for line in whole]
    assert [line[2] for line in resumed] == pytest.approx([line[2] for line in whole], abs=1e-5)


def _killed_after(folder: Path, step: int) -> bool:
    """Run until it says that it made that update, and kill it. Whether it was still running then."""
    command = [sys.executable, "-m", "tests.trainer.loop.noisy_line", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == str(step):
                process.kill()
                return process.wait(60) == -9
    return False


def _run(folder: Path) -> list[str]:
    command = [sys.executable, "-m", "tests.trainer.loop.noisy_line", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.split()
