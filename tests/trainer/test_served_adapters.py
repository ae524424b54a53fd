"""From a log to an adapter that answers searches, for both kinds of LoRA: judged, trained, registered, followed by a
gateway that runs on, exchanged for each other and rolled back. Models are tiny, the router's process is a real one.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp import types as t
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("peft")

from proxy.app import App, build
from proxy.catalog.catalog import Catalog
from proxy.cli import build as commands
from proxy.metatools.finding import CANDIDATES
from proxy.router.adapters import Adapter, Kind, load_adapter
from proxy.router.base import Query
from proxy.router.embeddings import EmbeddingCache
from proxy.router.encoder import load_encoder
from proxy.router.fusion import FusedRouter
from proxy.router.language import LanguageRouter
from proxy.router.language_model import load_language_model
from proxy.servers.configfile import parse
from proxy.settings import Settings
from proxy.store.database import Database
from proxy.store.decisions import decided
from proxy.store.migrating import migrate
from proxy.store.registry import State, entries, roll_back, set_state
from proxy.store.trajectories import stream
from tests.fixtures.registered import WAY
from tests.fixtures.routed import LIMIT_S, MODEL_LIMIT_S, until
from tests.fixtures.running import entry
from tests.fixtures.small_language_model import save_small_model
from tests.proxy.router.encoders import tiny_bert

# peft asks transformers for something under its old name.
pytestmark = [
    pytest.mark.timeout(2 * MODEL_LIMIT_S),
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),
]

TASKS = 30
TRAIN = (
    "train",
    "run",
    "--least",
    "8",
    "--good-episodes",
    "2",
    "--split",
    "time",
    "--near",
    "1",
    "--epochs",
    "1",
    "--batch",
    "32",
)
_LETTERS = str.maketrans("0123456789", "ghijklmnop")
ASKED = "sum up a pair of integers"


@dataclass(frozen=True, slots=True)
class Home:
    """Where all of it lies."""

    folder: Path
    encoder: str
    model: str

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'log.db'}"

    def settings(self, router: str) -> Settings:
        return Settings(
            config=self.folder / "mcp.json",
            state_dir=self.folder / "state",
            cache_dir=self.folder / "cache",
            database=self.url,
            router=router,
            router_model=self.encoder,
            router_budget_ms=60_000,
            follow_s=0.05,
        )

    @property
    def environ(self) -> Mapping[str, str]:
        return {
            "TOOLATLAS_STATE_DIR": str(self.folder / "state"),
            "TOOLATLAS_CACHE_DIR": str(self.folder / "cache"),
            "TOOLATLAS_DATABASE": self.url,
            "TOOLATLAS_ROUTER": f"slm:{self.model}",
            "TOOLATLAS_ROUTER_MODEL": self.encoder,
        }


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path, str(tiny_bert(tmp_path / "tiny")), save_small_model(tmp_path / "small"))


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[App]:
    servers = parse({"mcpServers": {"one": entry("echo"), "many": entry("many", TOOLS="60")}}, os.environ)
    app = build(settings, os.environ, configuration=servers, recorders=())
    async with app.http.router.lifespan_context(app.http):
        with anyio.fail_after(LIMIT_S):
            await app.gateway.pool.wait_for_first_listings(LIMIT_S)
        yield app


async def ask(client: Client, name: str, arguments: Mapping[str, Any]) -> str:
    with anyio.fail_after(LIMIT_S):
        result = await client.call_tool(name, dict(arguments))
    return "\n".join(item.text for item in result.content if isinstance(item, t.TextContent))


async def work(home: Home) -> None:
    """Tasks of an agent, by words alone: most go well, some call what fails."""
    await migrate(home.url)
    async with running(home.settings("lexical")) as app, Client(app.server) as client:
        for number in range(TASKS):
            # Words of its own, or all were near duplicates and on one side.
            words = [sha256(f"{number} {part}".encode()).hexdigest()[:6].translate(_LETTERS) for part in range(9)]
            query, task = " ".join(["add", *words[:3]]), " ".join([*words[3:], f"{number + 3} {2 * number + 5}"])
            found = await ask(client, "search_tools", {"query": query, "task": task})
            assert "one.add(" in found
            named = re.search(r"\[task_id: (\w+);", found)
            assert named is not None
            own, good = {"task_id": named[1]}, number % 4 != 3
            tool, arguments = ("one.add", {"a": number + 3, "b": 2 * number + 5}) if good else ("one.fail", {})
            told = await ask(client, "call_tool", {"tool": tool, "arguments": arguments, **own})
            outcome = "done" if good else "failed"
            await ask(client, "finish_task", {"outcome": outcome, "answer": f"It came to {told}.", **own})
        assert app.logbook is not None
        assert await app.logbook.recorder.flushed(LIMIT_S)


def call(home: Home, *words: str) -> str:
    done = CliRunner().invoke(commands(), list(words), env=dict(home.environ))
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


async def states(home: Home) -> dict[str, State]:
    database = Database(home.url)
    try:
        return {each.adapter.hash: each.state for each in await entries(database)}
    finally:
        await database.close()


def offline(home: Home, catalog: Catalog, adapter: Adapter | None) -> dict[str, float]:
    """What the router with that adapter says of the query, made here and not in the router's process."""
    encoder, cache, model = load_encoder(home.encoder), EmbeddingCache(None), load_language_model(home.model)
    lora, scorer = (
        adapter if adapter is not None and adapter.kind is kind else None for kind in (Kind.LORA, Kind.SCORER)
    )
    found = FusedRouter(catalog.servers, encoder, cache, lora)
    reordered = LanguageRouter(found, catalog.servers, model, adapter=scorer)
    return {each.tool: each.score for each in reordered.rank(Query(ASKED), CANDIDATES)}


async def serve(home: Home, first: Adapter, second: Adapter) -> None:
    """A gateway that runs on while what it is to serve with changes in the registry."""
    database = Database(home.url)
    before = {each.id async for each in stream(database)}
    answered: list[str | None] = []
    try:
        async with running(home.settings(f"slm:{home.model}")) as app, Client(app.server) as client:
            serving, following = app.serving, app.following
            assert serving is not None
            assert following is not None
            process = serving.process
            await until(lambda: process.health.ready or process.health.problem is not None, MODEL_LIMIT_S)

            async def search_under(adapter: Adapter | None) -> None:
                hashed = None if adapter is None else adapter.hash
                await until(lambda: following.state.serving.active == hashed, MODEL_LIMIT_S)
                assert following.state.refused == {}
                # A task of its own: who names none begins one.
                assert "The router is" not in await ask(client, "search_tools", {"query": ASKED})
                answered.append(hashed)

            await search_under(None)
            for adapter in (first, second):
                for state in WAY:
                    share = 0.5 if state is State.CANARY else None
                    await set_state(database, adapter.hash, state, "for a test", by="ann", share=share)
                await search_under(adapter)
            assert await roll_back(database, "enough", by="ann") == (second.hash, first.hash)
            await search_under(first)
            assert await roll_back(database, "enough", by="ann") == (first.hash, None)
            await search_under(None)
            assert process.health.starts == 1
            assert app.logbook is not None
            assert await app.logbook.recorder.flushed(LIMIT_S)
            catalog = app.gateway.catalog
        decisions = [one.decision async for each in stream(database) if each.id not in before for one in decided(each)]
    finally:
        await database.close()
    assert [each.adapter for each in decisions] == answered
    expected = {each and each.hash: offline(home, catalog, each) for each in (None, first, second)}
    for one, other in combinations(expected.values(), 2):
        assert one != pytest.approx(other, abs=0.01)
    for decision in decisions:
        assert (decision.policy, decision.degraded) == ("slm:small", None)
        assert dict(decision.candidates or ()) == pytest.approx(expected[decision.adapter], abs=1e-3)


def test_both_kinds_of_lora_are_trained_served_exchanged_and_rolled_back(home: Home) -> None:
    asyncio.run(work(home))
    call(home, "judge", "run", "--processes", "1")
    trained = {
        kind: json.loads(call(home, *TRAIN, "--kind", kind, "--learning-rate", "0.05", "--json"))
        for kind in (Kind.LORA, Kind.SCORER)
    }
    settings = home.settings(f"slm:{home.model}")
    adapters = {kind: load_adapter(settings.adapters_folder / said["adapter"]) for kind, said in trained.items()}
    assert [(adapter.kind, adapter.servers) for adapter in adapters.values()] == [
        (Kind.LORA, {"one"}),
        (Kind.SCORER, {"one"}),
    ]
    for said in trained.values():
        assert 1 <= said["training"]["steps"] <= 2
        assert {"lexical", "fused", "adapter"} <= said["figures"].keys()
    assert asyncio.run(states(home)) == {adapter.hash: State.CANDIDATE for adapter in adapters.values()}
    asyncio.run(serve(home, adapters[Kind.LORA], adapters[Kind.SCORER]))
