"""The commands that train, as people call them: a real process over a real log, killed and gone on with."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from proxy.cli import build
from proxy.errors import GatewayError
from proxy.router.adapters import MANIFEST
from proxy.store.database import Database
from proxy.store.migrating import migrate
from tests.proxy.router.encoders import tiny_bert
from tests.trainer.loop.learnable import fill
from trainer.loop import metrics

TRAIN = ("train", "run", "--least", "40", "--good-episodes", "2", "--batch", "8", "--epochs", "6", "--near", "1")
LIMIT_S = 120
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 90 judged episodes, and a small encoder."""
    folder = tmp_path_factory.mktemp("home")
    url = f"sqlite:///{folder / 'toolatlas.db'}"

    async def make() -> None:
        await migrate(url)
        database = Database(url)
        await fill(database, 90)
        await database.close()

    asyncio.run(make())
    tiny_bert(folder / "encoder")
    return folder


def environ(home: Path, state: Path) -> dict[str, str]:
    return {
        **os.environ,
        "TOOLATLAS_STATE_DIR": str(state),
        "TOOLATLAS_CACHE_DIR": str(home / "cache"),
        "TOOLATLAS_DATABASE": f"sqlite:///{home / 'toolatlas.db'}",
        "TOOLATLAS_ROUTER_MODEL": str(home / "encoder"),
        "OMP_NUM_THREADS": "1",
    }


def call(home: Path, state: Path, *words: str, expected: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "proxy.cli", *words],
        env=environ(home, state),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == expected, done.stderr
    return done


def losses(state: Path) -> list[tuple[int, str, float]]:
    (folder,) = (state / "runs").iterdir()
    return [(line["step"], line["kind"], line["loss"]) for line in metrics.read(folder)]


def stopped_when(home: Path, state: Path, words: tuple[str, ...], seen: Callable[[], bool], number: int) -> int:
    """Start it, wait until `seen`, send the signal; its exit code."""
    with subprocess.Popen(
        [sys.executable, "-m", "proxy.cli", *words],
        env=environ(home, state),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while process.poll() is None and not seen():
            pass
        process.send_signal(number)
        _, said = process.communicate(timeout=LIMIT_S)
        assert number == signal.SIGKILL or "--resume" in said or process.returncode == 0, said
        return process.returncode


def made(state: Path) -> int:
    """Updates that are in the file of figures."""
    try:
        (folder,) = (path for path in (state / "runs").iterdir() if path.name[0] != ".")
        return sum(line["kind"] == "training" for line in metrics.read(folder))
    except (OSError, ValueError):
        return 0


def test_one_training_from_log_to_candidate(home: Path, tmp_path: Path) -> None:
    said = json.loads(call(home, tmp_path, *TRAIN, "--json").stdout)
    assert (tmp_path / "adapters" / said["adapter"] / MANIFEST).is_file()
    listed = json.loads(call(home, tmp_path, "train", "list", "--json").stdout)
    assert [(each["id"], each["result"]["adapter"]) for each in listed] == [(said["run"], said["adapter"])]
    report = call(home, tmp_path, "train", "report", said["run"][:12]).stdout
    assert "train run --least 40" in report
    assert said["adapter"][:12] in report
    assert said["run"] in call(home, tmp_path, "train", "list").stdout
    call(home, tmp_path / "other", "train", "list", expected=3)


def test_with_too_little_nothing_is_trained(home: Path, tmp_path: Path) -> None:
    done = call(home, tmp_path, "train", "run", "--least", "500", expected=3)
    assert "90 of 500 episodes" in done.stderr
    learned = call(home, tmp_path, "learn", "--least", "500", "--no-rubrics", expected=3)
    assert "of 500 episodes" in learned.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--kind", "forest"), "--kind is one of"),
        (("--algorithm", "luck"), "--algorithm is one of"),
        (("--split", "day"), "--split is one of"),
        (("--hold-out", "shop"), "servers are held out where"),
        (("--resume", "nothing"), "train list"),
        (("--agent-share", "2"), "agent_share"),
    ],
)
def test_what_cannot_be_meant_is_refused(home: Path, tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    refused = CliRunner().invoke(build(), ["train", "run", *words], env=environ(home, tmp_path))
    assert isinstance(refused.exception, GatewayError)
    assert says in str(refused.exception)
    assert not (tmp_path / "runs").exists()


def test_killed_and_stopped_it_comes_to_the_same_losses(home: Path, tmp_path: Path) -> None:
    whole = json.loads(call(home, tmp_path / "whole", *TRAIN, "--json").stdout)
    parts, steps = tmp_path / "parts", whole["training"]["steps"]
    words: tuple[str, ...] = TRAIN
    for at, number in ((1, signal.SIGKILL), (steps // 2, signal.SIGINT)):
        code = stopped_when(home, parts, words, lambda at=at: made(parts) >= at, number)
        assert code in (-9, 1, 0)
        words = ("train", "run", "--resume", "last")
    said: dict[str, Any] = json.loads(call(home, parts, *words, "--json").stdout)
    assert said["training"]["steps"] == steps
    one, other = losses(tmp_path / "whole"), losses(parts)
    assert [line[:2] for line in other] == [line[:2] for line in one]
    assert [line[2] for line in other] == pytest.approx([line[2] for line in one], abs=1e-5)
