"""`toolatlas train report` over a store and a folder of runs."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from proxy.cli import build
from proxy.errors import ConfigurationError, UnknownName
from proxy.store.database import Database
from proxy.store.migrating import migrate
from proxy.store.training_report import Report
from proxy.store.training_runs import save
from tests.fixtures.training_reports import RUN, report
from trainer.loop.runs import Run, Runs
from trainer.rows import Split
from trainer.settings import TrainingSettings, to_json

FACTS: dict[str, Any] = {
    "settings": to_json(TrainingSettings()),
    "seed": 0,
    "command": "toolatlas train run --seed 0",
    "version": "0.1.0",
    "commit": None,
    "data_hash": "d" * 64,
    "data": {"episodes": 3, "rankings": 4},
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    asyncio.run(migrate(url))
    return url


def kept(url: str, *reports: Report) -> None:
    async def write() -> None:
        database = Database(url)
        for each in reports:
            await save(database, each)
        await database.close()

    asyncio.run(write())


def begun(tmp_path: Path) -> Run:
    return Runs(tmp_path / "runs").create(FACTS, [], (), [Split(training=(), validation=(), test=())])


def call(tmp_path: Path, url: str, *words: str) -> Result:
    done = CliRunner().invoke(build(), ["train", "report", *words, "--database", url, "--runs", str(tmp_path / "runs")])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_a_report_of_another_machine_is_shown_from_the_store(tmp_path: Path, url: str) -> None:
    later = replace(report(), run="20261201-000000-ffffff", made_at=report().made_at + timedelta(days=1))
    kept(url, later, report())
    assert "Run 20261201-000000-ffffff" in call(tmp_path, url).stdout
    assert f"Run {RUN}" in call(tmp_path, url, "20261130").stdout
    said = json.loads(call(tmp_path, url, RUN, "--json").stdout)
    assert Report.of(said["report"]).run == RUN
    with pytest.raises(UnknownName, match="2 runs"):
        call(tmp_path, url, "2026")
    with pytest.raises(UnknownName, match="no run"):
        call(tmp_path, url, "2025")


def test_the_page_is_written_where_it_is_wanted(tmp_path: Path, url: str) -> None:
    kept(url, report())
    file = tmp_path / "out" / "report.html"
    call(tmp_path, url, RUN, "--html", str(file))
    assert file.read_text("utf-8").count("<svg class=") == 8


def test_of_a_run_without_a_report_it_says_how_far_it_is(tmp_path: Path, url: str) -> None:
    run = begun(tmp_path)
    kept(url, report())
    said = call(tmp_path, url).stdout
    assert f"Run {run.id}" in said
    assert f"It has not ended; `toolatlas train run --resume {run.id}` goes on." in said
    with pytest.raises(ConfigurationError, match="was not evaluated yet"):
        call(tmp_path, url, run.id, "--html", str(tmp_path / "page.html"))
    run.end({"failed": "the rows teach nothing"})
    assert "It came to nothing: the rows teach nothing" in call(tmp_path, url, run.id).stdout


def test_a_run_of_this_machine_has_its_facts_beside_its_report(tmp_path: Path, url: str) -> None:
    run = begun(tmp_path)
    kept(url, replace(report(), run=run.id))
    said = json.loads(call(tmp_path, url, "last", "--json").stdout)
    assert said["id"] == said["report"]["run"] == run.id
    assert said["result"] is None
