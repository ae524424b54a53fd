"""A training that is killed again and again comes to the same losses: the real command, over a log.

Above: bench/learn.py. Below: `toolatlas train run`, as a process. Where it is killed is drawn: after so many updates,
or at any moment of its first seconds, when it reads the log and freezes the rows.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from bench.learned.logs import Log
from trainer.loop import metrics

KILLS = 10
EARLY = 0.2
"""Share of kills that come at any moment after the start, whatever it is at."""
START_S = 20.0
LIMIT_S = 1_800.0
LOOK_S = 0.05


def killed(log: Log, *, kills: int = KILLS, seed: int = 0, options: Sequence[str] = ()) -> dict[str, Any]:
    """How far the losses of a training that was killed so often are from those of one that was not.

    Raises:
        RuntimeError: A command failed otherwise.
    """
    random = Random(seed)
    train = ("train", "run", "--least", "1", *options)
    with TemporaryDirectory(prefix="bench-killed-") as name:
        whole, parts = Path(name) / "whole", Path(name) / "parts"
        steps = _ended(log, whole, train)["training"]["steps"]
        again = False
        points: list[str] = []
        # In their order, so that each is reached before it is killed there.
        updates = iter(sorted(random.sample(range(1, steps), min(kills, steps - 1))))
        for _ in range(kills):
            words = ("train", "run", "--resume", "last") if again else train
            update = None if random.random() < EARLY else next(updates, None)
            if update is None:
                after = random.uniform(0.5, START_S)
                points.append(f"{after:.1f} s after its start")
                _until(log, parts, words, _elapsed(after))
            else:
                points.append(f"update {update}")
                _until(log, parts, words, lambda update=update: _made(parts) >= update)
            again = _run_of(parts) is not None
        _ended(log, parts, ("train", "run", "--resume", "last") if again else train)
        one, other = _losses(whole), _losses(parts)
    return {
        "updates": steps,
        "killed at": points,
        "lines": len(one),
        "the same lines": [line[:2] for line in one] == [line[:2] for line in other],
        "largest difference of a loss": max(
            (abs(a[2] - b[2]) for a, b in zip(one, other, strict=False)), default=float("nan")
        ),
    }


def _environ(log: Log, state: Path) -> dict[str, str]:
    return {**os.environ, "TOOLATLAS_STATE_DIR": str(state), "TOOLATLAS_DATABASE": log.url}


def _ended(log: Log, state: Path, words: Sequence[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "proxy.cli", *words, "--json"]
    done = subprocess.run(command, env=_environ(log, state), capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} failed: {done.stderr[-2_000:]}")
    return json.loads(done.stdout)


def _until(log: Log, state: Path, words: Sequence[str], seen: Callable[[], bool]) -> None:
    """Start it, and kill it once `seen`; it may have ended by itself."""
    deadline = time.monotonic() + LIMIT_S
    command = [sys.executable, "-m", "proxy.cli", *words]
    with subprocess.Popen(
        command, env=_environ(log, state), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None and not seen() and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        process.send_signal(signal.SIGKILL)


def _elapsed(seconds: float) -> Callable[[], bool]:
    until = time.monotonic() + seconds
    return lambda: time.monotonic() >= until


def _run_of(state: Path) -> Path | None:
    folder = state / "runs"
    return next((path for path in folder.iterdir() if path.name[0] != "."), None) if folder.is_dir() else None


def _made(state: Path) -> int:
    run = _run_of(state)
    return 0 if run is None else sum(line["kind"] == "training" for line in metrics.read(run))


def _losses(state: Path) -> list[tuple[int, str, float]]:
    run = _run_of(state)
    assert run is not None
    return [(line["step"], line["kind"], line["loss"]) for line in metrics.read(run)]
