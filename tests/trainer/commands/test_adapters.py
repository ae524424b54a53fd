"""`toolatlas adapters` as people call it: what it prints, what it changes, and its exit codes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from typer.testing import CliRunner, Result

from proxy.cli import build
from proxy.errors import GatewayError
from proxy.router.adapters import MANIFEST
from proxy.store.database import Database
from proxy.store.migrating import migrate
from proxy.store.registry import Entry, InForce, State, entry, in_force, register
from tests.fixtures.registered import adapter, at, named
from tests.trainer.promotion.test_gates import paired
from trainer.promotion.evidence import EVIDENCE, Evidence

OLD, NEW = named("old"), named("new")
T = TypeVar("T")


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    monkeypatch.setenv("TOOLATLAS_DATABASE", url)
    monkeypatch.setenv("TOOLATLAS_STATE_DIR", str(tmp_path / "state"))
    asyncio.run(migrate(url))
    return url


@pytest.fixture
def registry(log: str) -> Callable[[Callable[[Database], Awaitable[Any]]], Any]:
    """Runs something on the log."""

    async def on(work: Callable[[Database], Awaitable[T]]) -> T:
        database = Database(log)
        try:
            return await work(database)
        finally:
            await database.close()

    return lambda work: asyncio.run(on(work))


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(build(), ["adapters", *arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def state(registry: Any, hashed: str) -> State:
    found: Entry = registry(lambda log: entry(log, hashed))
    return found.state


def proposed(hashed: str, mean: float) -> Any:
    """Registers an adapter whose evaluation found so much; its judge is not known in the log."""
    evidence = Evidence(against=None, paired=(paired(mean),), p95_ms=40.0, judges=("checks-1/ab12cd34",))
    return lambda log: register(log, adapter(hashed, metrics={EVIDENCE: evidence.to_json()}), by="learn")


def test_without_adapters_it_says_what_makes_one() -> None:
    assert "toolatlas learn" in run("list", code=3).stderr


def test_adapters_are_listed_with_state_and_reason(registry: Any) -> None:
    registry(lambda log: at(log, OLD, State.ACTIVE))
    registry(lambda log: at(log, NEW, State.CANARY, number=1, share=0.25))
    text = run("list").stdout
    assert text.index(NEW[:12]) < text.index(OLD[:12])
    assert "canary 25%" in text
    listed = json.loads(run("list", "--json").stdout)
    assert [(each["hash"], each["state"]) for each in listed] == [(NEW, "canary"), (OLD, "active")]
    assert listed[0]["history"][0] == {
        "hash": NEW, "state": "candidate", "share": None, "reason": None, "by": "learn",
        "at": listed[0]["history"][0]["at"],
    }  # fmt: skip


def test_a_worse_one_is_refused_with_exit_code_1(registry: Any) -> None:
    registry(proposed(NEW, -0.1))
    result = run("promote", NEW[:12], "--by", "ann", code=1)
    assert "no   slice all, tool_recall@10: -0.100" in result.stdout
    assert f"{NEW[:12]} is retired" in result.stdout
    # Not for ever: it may be tried again.
    run("promote", NEW[:12])
    assert state(registry, NEW) is State.CANDIDATE


def test_one_that_is_held_stays_with_exit_code_3(registry: Any) -> None:
    registry(proposed(NEW, 0.1))
    result = run("promote", NEW[:12], code=3)
    assert "wait judge checks-1/ab12cd34: no batch of it is in the log" in result.stdout
    assert state(registry, NEW) is State.CANDIDATE


def test_a_shadow_waits_for_the_approval_that_is_asked_for(registry: Any) -> None:
    registry(lambda log: at(log, NEW, State.SHADOW))
    asked = ("promote", NEW, "--shadowed", "0", "--require-approval")
    assert f"toolatlas adapters approve {NEW[:12]}" in run(*asked, code=3).stdout
    assert "approved by ann" in run("approve", NEW[:10], "--by", "ann", "--note", "its report").stdout
    run(*asked, "--share", "0.3")
    assert registry(in_force) == InForce(canary=NEW, share=0.3)


def test_nothing_that_is_active_goes_further(registry: Any) -> None:
    registry(lambda log: at(log, NEW, State.ACTIVE))
    run("promote", NEW, code=3)


def test_rolling_back_names_who_is_active_now(registry: Any, tmp_path: Path) -> None:
    registry(lambda log: at(log, OLD, State.ACTIVE))
    registry(lambda log: at(log, NEW, State.ACTIVE))
    result = run("rollback", "--reason", "complaints", "--by", "ann")
    assert f"{NEW[:12]} is retired; active is the adapter {OLD[:12]}" in result.stdout
    change = registry(lambda log: entry(log, NEW)).history[-1]
    assert (change.reason, change.by) == ("complaints", "ann")
    assert json.loads(run("rollback", "--json").stdout) == {"retired": OLD, "active": None}
    assert "no such adapter answers agents" in run("rollback", code=3).stderr


def test_one_whose_folder_is_gone_is_not_gone_back_to(registry: Any, tmp_path: Path) -> None:
    for name in ("first", "second", "third"):
        registry(lambda log, name=name: at(log, named(name), State.ACTIVE))
    folder = tmp_path / "adapters" / named("first")
    folder.mkdir(parents=True)
    (folder / MANIFEST).write_text("{}")
    result = run("rollback", "--adapters", str(tmp_path / "adapters"), "--json")
    assert json.loads(result.stdout) == {"retired": named("third"), "active": named("first")}


def test_what_differs_is_told_against_the_active_one(registry: Any) -> None:
    registry(lambda log: at(log, OLD, State.ACTIVE, metrics={"tool_recall@10": 0.5, "same": 1}))
    changed = {"config": {"algorithm": "awr", "beta": 1.0}, "metrics": {"tool_recall@10": 0.75, "same": 1}}
    registry(lambda log: at(log, NEW, State.CANDIDATE, **changed))
    differing = json.loads(run("diff", NEW, "--json").stdout)
    assert differing == {
        "state": ["candidate", "active"],
        "config.beta": [1.0, 0.5],
        "metrics.tool_recall@10": [0.75, 0.5],
    }
    assert "0.75" in run("diff", NEW, OLD).stdout


@pytest.mark.parametrize("command", [("promote", "abc"), ("rollback", "abc"), ("approve", "abc"), ("diff", "abc")])
def test_a_name_that_fits_nothing_is_an_error_that_says_so(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(build(), ["adapters", *command])
    assert isinstance(result.exception, GatewayError)
    assert "toolatlas adapters list" in str(result.exception) or "no adapter is active" in str(result.exception)


def test_the_watch_moves_what_may_move_and_says_why(registry: Any) -> None:
    registry(proposed(NEW, -0.1))
    told = run("watch", "--once").stderr
    assert f"{NEW[:12]} candidate -> retired" in told
    assert "it is worse" in told
    assert state(registry, NEW) is State.RETIRED


@pytest.mark.parametrize("option", [("--share", "1"), ("--amount", "0"), ("--share", "0")])
def test_settings_that_cannot_be_meant_are_refused(option: tuple[str, str]) -> None:
    result = CliRunner().invoke(build(), ["adapters", "watch", "--once", *option])
    assert isinstance(result.exception, GatewayError)
    assert "cannot be meant" in str(result.exception)
