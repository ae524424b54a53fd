"""The bench of a small policy, on a log that is written here and a model that is made here."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("peft")

from bench.learned.policy import Size, policy_figures
from proxy.store.database import Database
from proxy.store.migrating import migrate
from tests.trainer.data.logs import TOOLS, Log, put, snapshot
from tests.trainer.policy.planted import save_model
from trainer.policy.settings import TuningSettings

pytestmark = [
    pytest.mark.anyio,
    # peft asks transformers for something under its old name.
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),
]


def words(number: int) -> str:
    """Of its own, so that no two tasks are near duplicates."""
    return " ".join(sha256(f"{number} {part}".encode()).hexdigest()[:8] for part in range(6))


async def test_figures_before_and_after_are_of_what_was_held_out(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    await migrate(url)
    logs: list[Log] = []
    for number in range(30):
        log = Log(number, agent=f"agent-{number % 6}")
        log.search(words(number), *TOOLS[:3], task=words(number))
        log.use(TOOLS[number % 3])
        log.finish()
        logs.append(log)
    database = Database(url)
    try:
        rewards = {number: float(number % 3 > 0) for number in range(30)}
        endings = {number: {"task": words(number)} for number in range(30)}
        await put(database, logs, rewards, endings=endings, snapshots=[snapshot()])
    finally:
        await database.close()
    said: list[str] = []
    tuning = TuningSettings(tokens=200, before=120, windows=2, epochs=2, batch=2, accumulation=2, learning_rate=1e-2)
    size = Size(trajectories=12, held_out=4, decisions=3, written=2, most_written=4, tuning=tuning)
    found = await policy_figures(url, model=save_model(tmp_path / "model"), size=size, say=said.append)
    assert found["trajectories"]["training"] == 12
    assert 1 <= found["trajectories"]["validation"] <= 4
    assert 1 <= found["trajectories"]["test"] <= 4
    before, after = found["before"], found["after"]
    for each in (before, after):
        assert each["action"]["count"] == 3
        assert each["action"]["listed"] == 7
        assert each["written"]["count"] == 2
        assert each["tool"]["count"] >= 1
        assert each["tool"]["listed"] == 3
    assert before["tokens"]["tokens"] == after["tokens"]["tokens"]
    assert after["tokens"]["loss"] < before["tokens"]["loss"]
    assert found["ended"]["steps"] > 0
    assert found["simulated"]
