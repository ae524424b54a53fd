"""Runs on disk: whole or not there, found by the beginning of their id, the same when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proxy.errors import ConfigurationError, UnknownName
from tests.proxy.router.encoders import server
from tests.trainer.data.made import ranking
from trainer.loop.runs import FACTS, ROWS, Run, Runs
from trainer.rows import Split
from trainer.settings import TrainingSettings, of_json, to_json

SPLIT = Split(training=("e_001",), validation=("e_002",), test=(), dropped={"e_003": "why"})
SERVERS = (server("shop", {"find_item": "Finds it; naïvely."}, purpose="Sells lamps"), server("empty", {}))


def a_run(folder: Path, **facts: Any) -> Run:
    said = {"settings": to_json(TrainingSettings()), "seed": 0, **facts}
    return Runs(folder).create(said, [ranking(1, "shop.find_item"), ranking(2)], SERVERS, [SPLIT])


def test_what_is_frozen_is_read_as_it_was(tmp_path: Path) -> None:
    run = a_run(tmp_path, command="toolatlas train run")
    again = Runs(tmp_path).named(run.id)
    assert again.rows == [ranking(1, "shop.find_item"), ranking(2)]
    assert again.servers == SERVERS
    assert again.split == SPLIT
    assert again.settings == TrainingSettings()
    assert again.facts["command"] == "toolatlas train run"
    assert again.result is None
    again.end({"adapter": "h"})
    assert run.result == {"adapter": "h"}


def test_a_run_that_cannot_be_written_whole_is_not_there(tmp_path: Path) -> None:
    broken = ranking(1, "shop.find_item", advantage=float("nan"))
    with pytest.raises(ValueError, match="JSON"):
        Runs(tmp_path).create({"settings": {}}, [broken], SERVERS, [SPLIT])
    assert Runs(tmp_path).all() == []
    assert list(tmp_path.iterdir()) == []


def test_runs_are_named_by_the_beginning_of_their_id(tmp_path: Path) -> None:
    first, second = a_run(tmp_path), a_run(tmp_path)
    runs = Runs(tmp_path)
    assert {run.id for run in runs.all()} == {first.id, second.id}
    assert runs.named("last").id == second.id
    assert runs.named(first.id).id == first.id
    for said in ("2", "nothing"):
        with pytest.raises(UnknownName, match="train list"):
            runs.named(said)
    with pytest.raises(UnknownName):
        Runs(tmp_path / "none").named("last")


def test_what_is_damaged_is_named(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (run.folder / ROWS).write_text("{}\n")
    with pytest.raises(ConfigurationError, match="line 1"):
        _ = run.rows
    (run.folder / "catalog.jsonl").write_text("[]\n")
    with pytest.raises(ConfigurationError, match="catalogue"):
        _ = run.servers
    (run.folder / FACTS).write_text("{")
    with pytest.raises(ConfigurationError, match=FACTS):
        _ = run.facts


def test_settings_of_another_version_are_refused() -> None:
    said = to_json(TrainingSettings(least_episodes=7))
    assert of_json(said) == TrainingSettings(least_episodes=7)
    with pytest.raises(ConfigurationError, match="least_episodes"):
        of_json({**said, "least_episodes": "many"})
    with pytest.raises(ConfigurationError, match="at least 1"):
        TrainingSettings(least_episodes=0)
