"""A whole run as the command makes it: of a model in a folder, through the gateway's address, into another folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.targets.small_world import ERRANDS
from bench.targets.tiny_policy import tiny_model
from judge.checks.library import library
from judge.judging import Judge
from judge.settings import RewardSettings
from proxy.errors import ConfigurationError
from tests.trainer.online.conftest import SETTINGS, Live
from trainer.loop.devices import Device
from trainer.online.running import FACTS, OnlineRun, read_tasks, run_online

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning"),
    pytest.mark.timeout(300),
]


def untold(number: int, figures: Mapping[str, float]) -> None:
    pass


def judge() -> Judge:
    return Judge(library(), RewardSettings())


def run_of(live: Live, folder: Path, **changed: Any) -> OnlineRun:
    model = folder / "model"
    if not model.exists():
        tiny_model(live.tokenizer, 0).save_pretrained(model)
        live.tokenizer.save_pretrained(model)
    return OnlineRun(
        model=str(model),
        tasks=tuple(errand.task for errand in ERRANDS),
        gateway=live.world.url,
        token=None,
        database=live.world.database,
        folder=folder / "out",
        device=Device("cpu"),
        settings=replace(SETTINGS, updates=1, group=2, micro_batch=2, rank=2, save_every=1, **changed),
    )


def test_what_comes_out_is_weights_tokenizer_and_what_was_done(live: Live, tmp_path: Path) -> None:
    run = run_of(live, tmp_path)
    done = run_online(run, judge, told=untold)
    assert done.updates == 1
    facts = json.loads((run.folder / FACTS).read_text("utf-8"))
    assert facts["settings"]["group"] == 2
    assert facts["judge"] == judge().name
    # It knows no actions yet: everything is left out, and there is no reward that would look like one.
    assert facts["rewards"] == [None]
    assert sum(facts["left_out"].values()) == 2
    assert {"adapter_model.safetensors", "tokenizer.json"} <= {each.name for each in run.folder.iterdir()}
    with pytest.raises(ConfigurationError, match="holds a run that has ended"):
        run_online(run, judge, told=untold)


def test_a_run_that_was_begun_is_resumed_only_when_that_is_said(live: Live, tmp_path: Path) -> None:
    run = run_of(live, tmp_path)
    with pytest.raises(ConfigurationError, match="nothing to resume"):
        run_online(run, judge, resume=True, told=untold)
    (run.folder / "checkpoints").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="--resume goes on"):
        run_online(run, judge, told=untold)


def test_a_run_goes_on_from_its_checkpoint(live: Live, tmp_path: Path) -> None:
    run = run_of(live, tmp_path)
    run_online(run, judge, told=untold)
    (run.folder / FACTS).unlink()
    longer = replace(run, settings=replace(run.settings, updates=3))
    done = run_online(longer, judge, resume=True, told=untold)
    assert (done.updates, len(done.rewards)) == (3, 2)


def test_a_gateway_that_does_not_answer_is_said_so(live: Live, tmp_path: Path) -> None:
    run = replace(run_of(live, tmp_path), gateway="http://127.0.0.1:1/mcp")
    with pytest.raises(ConfigurationError, match="no gateway answers at"):
        run_online(run, judge, told=untold)


def test_tasks_are_lines_of_json_or_text_each_once(tmp_path: Path) -> None:
    path = tmp_path / "tasks"
    path.write_text('{"task": "one"}\n\n{"text": "two", "id": 4}\nthree\none\n', "utf-8")
    assert read_tasks(path) == ("one", "two", "three")
    path.write_text('{"query": "one"}\n', "utf-8")
    with pytest.raises(ConfigurationError, match="line 1: it has no `task`"):
        read_tasks(path)
    path.write_text("\n", "utf-8")
    with pytest.raises(ConfigurationError, match="holds 0 tasks"):
        read_tasks(path)
