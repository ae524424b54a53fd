"""The gateway as a whole with a process for its router, and without the packages that one needs."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp import types as t
from sqlalchemy import select

from proxy import app as composition
from proxy.app import App, build, check
from proxy.errors import ConfigurationError
from proxy.router.base import Query
from proxy.router.encoder import missing_package
from proxy.router.serving import in_canary
from proxy.servers.configfile import parse
from proxy.settings import Settings
from proxy.sight import NarrowSight
from proxy.store.database import Database
from proxy.store.decisions import decided
from proxy.store.migrating import migrate
from proxy.store.registry import State, roll_back
from proxy.store.tables import DecisionRow
from proxy.store.trajectories import stream
from tests.fixtures import routed
from tests.fixtures.registered import at
from tests.fixtures.routed import LIMIT_S, MODEL_LIMIT_S, until
from tests.fixtures.running import entry
from tests.fixtures.small_language_model import save_small_model
from tests.proxy.router.encoders import tiny_bert

pytestmark = pytest.mark.anyio


def settings(folder: Path, **changed: Any) -> Settings:
    return Settings(config=folder / "mcp.json", state_dir=folder / "state", cache_dir=folder / "cache", **changed)


def patient(folder: Path, router: str) -> Settings:
    """With a budget that no search of these tests exceeds, however busy the machine is."""
    return settings(folder, router=router, router_budget_ms=60_000)


@asynccontextmanager
async def running(chosen: Settings) -> AsyncIterator[App]:
    servers = parse({"mcpServers": {"one": entry("echo"), "two": entry("names")}}, os.environ)
    app = build(chosen, os.environ, configuration=servers, recorders=())
    async with app.http.router.lifespan_context(app.http):
        with anyio.fail_after(LIMIT_S):
            await app.gateway.pool.wait_for_first_listings(LIMIT_S)
        yield app


async def search(client: Client, query: str) -> str:
    with anyio.fail_after(LIMIT_S):
        result = await client.call_tool("search_tools", {"query": query})
    return "\n".join(item.text for item in result.content if isinstance(item, t.TextContent))


@pytest.fixture
def with_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder of tests in place of a model, which not every machine has."""
    monkeypatch.setattr(composition, "missing_package", lambda name: None)
    monkeypatch.setattr(composition, "worker_command", lambda name, cache, *_: routed.command(cache))


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.mark.usefixtures("with_words")
async def test_a_search_is_answered_by_the_process_or_says_why_not(tmp_path: Path) -> None:
    async with (
        running(settings(tmp_path, router="fused", router_budget_ms=60_000)) as app,
        Client(app.server) as client,
    ):
        serving = app.serving
        assert serving is not None
        # Nobody has searched yet: it is made ready by itself.
        await until(lambda: serving.process.health.ready)
        answer = await search(client, "add two whole numbers")
        assert "one.add(" in answer
        assert "The router is" not in answer
        pid = serving.process.health.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not serving.process.health.ready)
        answer = await search(client, "add two whole numbers")
        assert "one.add(" in answer
        assert answer.startswith(("The router is down; this ranking is lexical.", "The router is starting;"))


@pytest.mark.usefixtures("with_words")
async def test_an_agent_held_to_one_server_is_told_of_no_other(tmp_path: Path) -> None:
    async with running(patient(tmp_path, "fused")) as app:
        serving = app.serving
        assert serving is not None
        await until(lambda: serving.process.health.ready)
        built = await NarrowSight(app.gateway, frozenset({"two"})).router(LIMIT_S)
        for query in (Query("add numbers"), Query("add", servers=frozenset({"one", "two"}))):
            ranking = await built.ranker.rank(query, 50)
            assert ranking.policy == "fused"
            assert {found.tool.split(".")[0] for found in ranking.tools} == {"two"}
            assert ranking.servers == ("two",)
        ranking = await built.ranker.rank(Query("add", servers=frozenset({"one"})), 50)
        assert (ranking.tools, ranking.servers) == ((), ())


@pytest.mark.usefixtures("with_words")
async def test_what_the_shadow_ranked_stands_in_the_log_beside_what_was_shown(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    await migrate(url)
    shadow = routed.head(tmp_path / "shadow", 1)
    async with running(replace(patient(tmp_path, "fused"), database=url)) as app, Client(app.server) as client:
        assert app.serving is not None
        assert app.logbook is not None
        serving = app.serving
        await until(lambda: serving.process.health.ready)
        with anyio.fail_after(LIMIT_S):
            await serving.set_adapters(shadow=shadow.folder)
        searches = 0
        while not serving.shadows:
            # Where the machine lets the process wait for long, a shadow is left out, as it should be.
            await search(client, "add two whole numbers")
            searches += 1
            await until(lambda: serving.shadows + serving.shadows_lost == searches)  # noqa: B023
        assert await app.logbook.recorder.flushed(LIMIT_S)
        reads = [each async for each in stream(app.logbook.database)]
        (one,) = [each for read in reads for each in decided(read) if each.decision.shadow is not None]
        assert one.decision.adapter is None
        assert one.decision.shadow is not None
        assert one.decision.candidates is not None
        assert (one.decision.shadow.policy, one.decision.shadow.adapter) == ("fused", shadow.hash)
        assert {tool for tool, _ in one.decision.shadow.candidates} == {tool for tool, _ in one.decision.candidates}


@pytest.mark.timeout(2 * MODEL_LIMIT_S)
async def test_a_language_model_is_one_setting_and_the_log_says_that_it_ranked(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="a light installation loads no model")
    url = f"sqlite:///{tmp_path / 'log.db'}"
    await migrate(url)
    model, encoder = save_small_model(tmp_path / "small"), tiny_bert(tmp_path / "tiny")
    chosen = replace(patient(tmp_path, f"slm:{model}"), router_model=str(encoder), database=url)
    async with running(chosen) as app, Client(app.server) as client:
        assert app.serving is not None
        assert app.logbook is not None
        serving = app.serving
        process = serving.process
        await until(lambda: process.health.ready or process.health.problem is not None, MODEL_LIMIT_S)
        assert "The router is" not in await search(client, "add two whole numbers")
        assert await app.logbook.recorder.flushed(LIMIT_S)
        (read,) = [each async for each in stream(app.logbook.database)]
        (one,) = decided(read)
    assert (one.decision.policy, one.decision.degraded) == ("slm:small", None)


@pytest.mark.usefixtures("with_words")
async def test_metrics_tell_of_the_process_and_of_searches_that_it_did_not_answer(tmp_path: Path) -> None:
    async with (
        running(settings(tmp_path, router="fused", router_budget_ms=60_000)) as app,
        Client(app.server) as client,
    ):
        serving = app.serving
        assert serving is not None
        await search(client, "add two whole numbers")
        await until(lambda: serving.process.health.ready)
        text = await _metrics(app)
        assert 'toolatlas_router_degraded_total{reason="' in text
        assert "toolatlas_router_ready 1.0" in text
        assert "toolatlas_router_starts_total 1.0" in text


@pytest.mark.usefixtures("with_words")
async def test_what_is_promoted_is_served_without_a_restart_and_named_in_the_log(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    await migrate(url)
    chosen = settings(tmp_path, router="fused", router_budget_ms=60_000, database=url, follow_s=0.05)
    database = Database(url)
    head = routed.head(tmp_path / "draft", 1)
    chosen.adapters_folder.mkdir(parents=True)
    head.folder.rename(chosen.adapters_folder / head.hash)
    try:
        async with running(chosen) as app, Client(app.server) as client:
            serving, following = app.serving, app.following
            assert serving is not None
            assert following is not None
            await until(lambda: serving.process.health.ready)
            await search(client, "add two whole numbers")
            await at(database, head.hash, State.ACTIVE)
            await until(lambda: following.state.serving.active == head.hash)
            await search(client, "add two whole numbers")
            page = await _page(app, "/ui/adapters")
            assert head.hash[:12] in page
            await roll_back(database, "enough", by="ann")
            await until(lambda: following.state.serving.active is None)
            await search(client, "add two whole numbers")
            assert serving.process.health.starts == 1
        async with database.reading() as connection:
            named = (await connection.execute(select(DecisionRow.adapter).order_by(DecisionRow.decided_at))).scalars()
            assert list(named) == [None, head.hash, None]
    finally:
        await database.close()


@pytest.mark.usefixtures("with_words")
async def test_whose_a_task_is_can_be_told_from_its_episode_in_the_log(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    await migrate(url)
    chosen = settings(tmp_path, router="fused", router_budget_ms=60_000, database=url, follow_s=0.05)
    database = Database(url)
    head = routed.head(tmp_path / "draft", 1)
    chosen.adapters_folder.mkdir(parents=True)
    head.folder.rename(chosen.adapters_folder / head.hash)
    await at(database, head.hash, State.CANARY, share=0.5)
    try:
        async with running(chosen) as app, Client(app.server) as client:
            following = app.following
            assert following is not None
            await until(lambda: following.state.serving.canary == head.hash)
            answered = 0
            with anyio.fail_after(LIMIT_S):
                while answered < 20:
                    # A catalogue of a moment ago may have been made ready before the adapter was.
                    answered += "The router is" not in await search(client, "add two whole numbers")
                    await client.call_tool("finish_task", {"outcome": "done"})
        statement = select(DecisionRow.episode_id, DecisionRow.adapter).where(DecisionRow.degraded.is_(None))
        async with database.reading() as connection:
            decisions = (await connection.execute(statement)).all()
    finally:
        await database.close()
    assert len({episode for episode, _ in decisions}) == 20
    assert {adapter for _, adapter in decisions} == {None, head.hash}
    assert [(episode, adapter == head.hash) for episode, adapter in decisions] == [
        (episode, in_canary(head.hash, episode, 0.5)) for episode, _ in decisions
    ]


@pytest.mark.usefixtures("with_words")
async def test_with_an_adapter_that_was_given_by_hand_nothing_is_followed(tmp_path: Path) -> None:
    head = routed.head(tmp_path / "head", 1)
    chosen = settings(tmp_path, router="fused", router_adapter=head.folder, database=f"sqlite:///{tmp_path / 'log.db'}")
    async with running(chosen) as app:
        assert app.serving is not None
        assert app.following is None


@pytest.mark.usefixtures("without_torch")
async def test_a_light_installation_searches_by_words_and_says_what_is_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "toolatlas.app")
    async with running(settings(tmp_path, router="auto")) as app, Client(app.server) as client:
        assert app.serving is None
        answer = await search(client, "add two whole numbers")
        assert "one.add(" in answer
        assert "The router is" not in answer
    assert "torch is not installed" in caplog.text
    assert "pip install 'toolatlas[router]'" in caplog.text


@pytest.mark.usefixtures("without_torch")
def test_a_router_that_was_asked_for_by_name_and_cannot_be_had_is_an_error(tmp_path: Path) -> None:
    chosen = settings(tmp_path, router="fused")
    chosen.config.write_text('{"mcpServers": {}}')
    with pytest.raises(ConfigurationError, match="torch is not installed"):
        check(chosen, os.environ)


@pytest.mark.usefixtures("with_words")
def test_an_adapter_that_is_not_there_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    chosen = settings(tmp_path, router="fused", router_adapter=tmp_path / "none")
    chosen.config.write_text('{"mcpServers": {}}')
    with pytest.raises(ConfigurationError, match=r"--router-adapter names .*none, where there is no manifest.json"):
        check(chosen, os.environ)


def test_no_module_of_the_gateway_imports_what_a_light_installation_lacks() -> None:
    """In a process of its own, where importing them fails."""
    program = """
import sys
for name in ("torch", "transformers", "peft", "safetensors", "huggingface_hub"):
    sys.modules[name] = None
from proxy.cli import main
import proxy.router.fusion, proxy.router.serving, proxy.router.worker
sys.argv = ["toolatlas", "serve", "--help"]
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert "--router-budget-ms" in done.stdout


@pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))
async def test_the_real_encoder_finds_what_no_word_of_the_query_says(tmp_path: Path) -> None:
    async with running(patient(tmp_path, "auto")) as app, Client(app.server) as client:
        serving = app.serving
        assert serving is not None
        await until(lambda: serving.process.health.ready)
        answer = await search(client, "sum up a pair of integers")
        assert "The router is" not in answer
        assert "one.add(" in answer


async def _metrics(app: App) -> str:
    return await _page(app, "/metrics")


async def _page(app: App, path: str) -> str:
    transport = httpx2.ASGITransport(app.http)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as client:
        return (await client.get(path)).text
