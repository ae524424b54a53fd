"""Adapters that were trained exchanged for each other in a gateway that runs, and rolled back one after the other.

Above: kinds.py. Below: bench/traffic/stage.py and the registry. The gateway reorders with the language model, so that
it serves every kind. What answered is read in the decision log, which names the adapter's hash.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from sqlalchemy import Row, select

from bench.lean import Era, HttpWire, LeanClient
from bench.learned.logs import Say
from bench.traffic.stage import Stage, stage
from proxy.router.adapters import Adapter
from proxy.store.database import Database
from proxy.store.registry import Registered, State, register, roll_back, set_state
from proxy.store.tables import DecisionRow

ANSWER_S = 120.0
"""Of one search: on a CPU the language model reads for seconds."""
FOLLOWED_S = 180.0
"""Until the gateway serves with another adapter."""
LOGGED_S = 30.0
POLL_S = 0.2
WAY = (State.SHADOW, State.CANARY, State.ACTIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """One state of the registry, and the searches that were made until one was answered in it."""

    adapter: str | None
    """Hash of the one that is in force, as the decision log names what answered."""
    kind: str
    first: tuple[str, ...]
    """Five tools, best first, of the answer."""
    searches: int
    seconds: float
    """From the change in the registry to that answer."""
    search_ms: int
    """Of the router, for that search."""


async def swapped(
    catalog: Path,
    tasks: Path,
    model: str,
    adapters: Sequence[Adapter],
    query: str,
    *,
    router_environ: Mapping[str, str] | None = None,
    say: Say = print,
) -> list[dict[str, Any]]:
    """Without any, with each in turn, and back through all of them to none.

    Raises:
        RuntimeError: A search was late, and answered by words.
        TimeoutError: An adapter never answered.
    """
    with TemporaryDirectory(prefix="bench-swaps-") as name:
        folder = Path(name)
        place = folder / "adapters"
        for adapter in adapters:
            shutil.copytree(adapter.folder, place / adapter.hash)
        url = f"sqlite:///{folder / 'log.db'}"
        environ = {
            "TOOLATLAS_ADAPTERS": str(place),
            "TOOLATLAS_FOLLOW": "0.5",
            "TOOLATLAS_ROUTER_BUDGET_MS": str(int(1000 * ANSWER_S)),
            **(router_environ or {}),
        }
        async with stage(catalog, tasks, url, router=f"slm:{model}", environ=environ, folder=folder / "gateway") as its:
            database = Database(url)
            try:
                return [asdict(each) async for each in _through(its, database, adapters, query, say)]
            finally:
                await database.close()


async def _through(
    running: Stage, database: Database, adapters: Sequence[Adapter], query: str, say: Say
) -> AsyncIterator[Swap]:
    async def under(adapter: Adapter | None) -> Swap:
        found = await _answered(running, database, adapter, query)
        say(f"    {found}")
        return found

    yield await under(None)
    for adapter in adapters:
        await register(database, _row(adapter), by="bench")
        for state in WAY:
            share = 0.5 if state is State.CANARY else None
            await set_state(database, adapter.hash, state, "a swap", by="bench", share=share)
        yield await under(adapter)
    for back in (*adapters[-2::-1], None):
        if await roll_back(database, "and back", by="bench") is None:
            raise RuntimeError("there was nothing to roll back")
        yield await under(back)


async def _answered(running: Stage, database: Database, adapter: Adapter | None, query: str) -> Swap:
    """Searches until one is answered by it. Those before may be of what was in force until then."""
    began, searches = time.perf_counter(), 0
    with anyio.fail_after(FOLLOWED_S):
        while True:
            await _search(running, query)
            searches += 1
            decision = await _newest(database)
            if decision.degraded is not None:
                raise RuntimeError(f"a search was answered by words: {decision.degraded}")
            if decision.adapter == (None if adapter is None else adapter.hash):
                return Swap(
                    adapter=decision.adapter,
                    kind="none" if adapter is None else adapter.kind.value,
                    first=tuple(tool for tool, _ in decision.candidates[:5]),
                    searches=searches,
                    seconds=round(time.perf_counter() - began, 1),
                    search_ms=round(decision.duration_ms),
                )


async def _search(running: Stage, query: str) -> None:
    wire = HttpWire(running.url, answer_s=ANSWER_S)
    try:
        client = LeanClient(wire, Era.SESSION, next(iter(running.credentials.values())))
        await client.open()
        # A task of its own: an adapter stays with a task from its beginning.
        await client.request("tools/call", {"name": "search_tools", "arguments": {"query": query}})
        await wire.leave()
    finally:
        wire.close()


async def _newest(database: Database) -> Row[Any]:
    """The decision of the last search: nobody else asks. It is logged after the answer, so that an older one may be
    seen for a moment, which makes for a search more."""
    with anyio.fail_after(LOGGED_S):
        while True:
            async with database.reading() as connection:
                statement = select(DecisionRow.__table__).order_by(DecisionRow.decided_at.desc()).limit(1)
                if (found := (await connection.execute(statement)).first()) is not None:
                    return found
            await anyio.sleep(POLL_S)


def _row(adapter: Adapter) -> Registered:
    return Registered(
        hash=adapter.hash,
        kind=adapter.kind.value,
        base_hash=adapter.base_hash,
        data_hash=str(adapter.facts.get("data_hash", "")),
        config=dict(adapter.facts.get("settings", {})),
        metrics=None,
        run=None,
        created_at=datetime.now(UTC),
    )
