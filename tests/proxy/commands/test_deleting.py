"""`toolatlas episodes delete` and `prune` as their user runs them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from proxy.commands import deleting
from proxy.errors import ConfigurationError, InvalidArguments
from proxy.store.database import Database
from proxy.store.deletions import deletions_since
from proxy.store.migrating import migrate
from tests.proxy.store.test_deletions import AT, an_episode, there

T = TypeVar("T")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log with three episodes of two agents, in the state folder."""
    monkeypatch.setenv("TOOLATLAS_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("TOOLATLAS_DATABASE", raising=False)
    asyncio.run(migrate(_url(tmp_path)))

    async def fill(database: Database) -> None:
        await an_episode(database, "e_1")
        await an_episode(database, "e_2", began=AT + timedelta(days=2))
        await an_episode(database, "e_3", began=AT + timedelta(days=2), agent="bob")

    _with(tmp_path, fill)
    return tmp_path


def _url(state: Path) -> str:
    return f"sqlite:///{state / 'toolatlas.db'}"


def _with(state: Path, work: Callable[[Database], Awaitable[T]]) -> T:
    async def run() -> T:
        database = Database(_url(state))
        try:
            return await work(database)
        finally:
            await database.close()

    return asyncio.run(run())


def _run(*arguments: str, answer: str | None = None) -> Result:
    family = typer.Typer()
    deleting.register(family)
    return CliRunner().invoke(family, arguments, input=answer)


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        (["e_1", "e_3"], {"e_2"}),
        (["--agent", "alice"], {"e_3"}),
        (["--before", "2026-01-03"], {"e_2", "e_3"}),
        (["--since", "2026-01-03T00:00:00+0000"], {"e_1"}),
        (["--all"], set[str]()),
    ],
)
def test_what_was_chosen_goes_for_good(state: Path, choice: list[str], left: set[str]) -> None:
    result = _run("delete", *choice, "--yes")
    assert result.exit_code == 0, result.output
    assert "No journal here holds anything of it." in result.stdout
    assert _with(state, there) == left


def test_it_says_what_would_go_and_goes_on_only_when_told_to(state: Path) -> None:
    result = _run("delete", "--agent", "alice", answer="n\n")
    assert result.exit_code == 1
    assert "2 episodes with 2 steps" in result.output
    assert _with(state, there) == {"e_1", "e_2", "e_3"}
    assert _with(state, lambda database: deletions_since(database, 0)) == ([], 0)
    assert _run("delete", "--agent", "alice", answer="y\n").exit_code == 0
    assert _with(state, there) == {"e_3"}


@pytest.mark.parametrize("choice", [[], ["--all", "--agent", "alice"], ["e"] * 2_000])
def test_a_choice_that_cannot_be_meant_deletes_nothing(state: Path, choice: list[str]) -> None:
    result = _run("delete", *choice, "--yes")
    if len(choice) > 3:  # Ids that are named twice count once.
        assert result.exit_code == 0
        assert "No episode e is in the database" in result.stderr
    else:
        assert isinstance(result.exception, InvalidArguments)
        assert "Nothing was deleted" in str(result.exception)
    assert _with(state, there) == {"e_1", "e_2", "e_3"}


def test_scripts_are_told_of_unknown_episodes_and_of_journals_that_hold_some(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleting, "JOURNALS_S", 0)
    stream = deleting.journals_in(state) / "stream"
    stream.mkdir(parents=True)
    (stream / "000000000001.journal").write_bytes(b"x")
    result = _run("delete", "e_1", "e_9", "--yes", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "episodes": 1, "steps": 1, "unknown": ["e_9"], "remains": None, "journals": ["stream"],
    }  # fmt: skip
    assert "Journals still hold some of it: stream" in result.stderr


def test_prune_deletes_what_is_old(state: Path) -> None:
    result = _run("prune", "--days", "1", "--yes", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"episodes": 3, "steps": 3}
    assert _with(state, there) == set()
    assert _run("prune", "--days", "1", answer="n\n").exit_code == 1


def test_no_log_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLATLAS_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("TOOLATLAS_DATABASE", raising=False)
    result = _run("delete", "--all", "--yes")
    assert isinstance(result.exception, ConfigurationError)
    assert not list(tmp_path.iterdir())
