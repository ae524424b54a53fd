"""Where simulated traffic plays: servers of a catalogue file, and the real gateway as a process with its router.

Above: running.py, and the bench of learning, which sends traffic to a gateway that follows adapters. Below: canned.py
and targets/gateway.py. The gateway knows all listings from its cache, as after an earlier run; it connects to a server
when one of its tools is called.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from bench.measure import Program, free_port
from bench.routed.routed_gateway import EMBEDDINGS, wait_until_ready
from bench.routed.tasks import read_catalog
from bench.targets.catalog_server import rows_of
from bench.targets.gateway import listings, start_gateway, write_catalog
from bench.traffic.agents import Offer
from bench.traffic.canned import numbered
from bench.traffic.poison import POISONER, stuffed_rows
from proxy.endpoint.tokens import ANONYMOUS, Scope, TokenStore
from proxy.store.migrating import migrate

WATCHER = "watcher"
BUDGET_MS = 10_000
"""A search waits for the router's process: several agents share two processors here, and words alone are not meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A running gateway, and who may come to it."""

    url: str
    """Of `/mcp`."""
    program: Program
    """The gateway."""
    servers: Program
    """All of them."""
    offers: Mapping[str, Offer]
    """All tools of the catalogue by written name."""
    written: Mapping[tuple[str, str], str]
    """Server and tool as files name them -> written name."""
    credentials: Mapping[str, Mapping[str, str]]
    """Agent -> headers that it sends; the last one has no credential."""


@asynccontextmanager
async def stage(
    catalog: Path,
    tasks: Path,
    database: str,
    *,
    agents: int = 8,
    router: str = "fused",
    environ: Mapping[str, str] | None = None,
    stuffed: bool = False,
    folder: Path | None = None,
) -> AsyncIterator[Stage]:
    """Starts servers and gateway, logging into `database`; ends both.

    Args:
        tasks: Of whose worlds the servers know.
        agents: Credentials; one agent more comes without.
        environ: Further settings of the gateway, `TOOLATLAS_ADAPTERS` for instance.
        stuffed: With a server more, which names all words as its own and praises itself.
        folder: For state and logs of the gateway, which are kept then; without it they go at the end.

    Raises:
        Missing: A file is not there, or holds something else.
        RuntimeError: A program did not start.
    """
    known = read_catalog(catalog)
    with TemporaryDirectory(prefix="bench-traffic-") as name, ExitStack() as programs:
        own = folder if folder is not None else Path(name)
        own.mkdir(parents=True, exist_ok=True)
        if stuffed:
            rows = rows_of(catalog)
            catalog = write_catalog(own, [*rows, *stuffed_rows(rows)])
            known = read_catalog(catalog)
        await migrate(database)
        port = free_port()
        canned = [sys.executable, "-m", "bench.traffic.canned", str(catalog), str(tasks), str(port)]
        servers = programs.enter_context(Program(canned, port, own / "servers.log"))
        gateway = own / "gateway"
        gateway.mkdir(exist_ok=True)
        credentials = _credentials(gateway / "state", agents)
        _lend_embeddings(gateway / "cache" / "embeddings.db")
        await anyio.to_thread.run_sync(servers.wait)
        given = {
            "TOOLATLAS_DATABASE": database,
            "TOOLATLAS_ROUTER": router,
            "TOOLATLAS_ROUTER_BUDGET_MS": str(BUDGET_MS),
            **(environ or {}),
        }
        program = programs.enter_context(
            start_gateway(gateway, _entries(catalog, port), listings(catalog), environ=given)
        )
        await anyio.to_thread.run_sync(program.wait)
        if router != "lexical":
            watching = _watcher(gateway / "state")
            await anyio.to_thread.run_sync(partial(wait_until_ready, program, headers=watching))
            _keep_embeddings(gateway / "cache" / "embeddings.db")
        names = {server.name: server.written for server in known.servers}
        yield Stage(
            url=f"http://127.0.0.1:{program.port}/mcp",
            program=program,
            servers=servers,
            offers={
                tool.written: Offer(
                    written=tool.written,
                    server=names[tool.server],
                    configured=tool.server,
                    schema=tool.input_schema,
                    description=tool.description or "",
                )
                for tool in known.tools.values()
            },
            written={(tool.server, tool.name): tool.written for tool in known.tools.values()},
            credentials=credentials,
        )


def _credentials(state: Path, agents: int) -> dict[str, Mapping[str, str]]:
    store = TokenStore(state / "tokens.json")
    kept = state / "agents.json"
    secrets: dict[str, str] = json.loads(kept.read_text("utf-8")) if kept.is_file() else {}
    names = [*(f"agent-{number:02}" for number in range(1, agents + 1)), POISONER]
    secrets |= {name: store.create(name, None) for name in names if name not in secrets}
    kept.write_text(json.dumps(secrets), "utf-8")
    return {**{name: {"Authorization": f"Bearer {secrets[name]}"} for name in names}, ANONYMOUS: {}}


def _watcher(state: Path) -> Mapping[str, str]:
    """Where there are tokens, metrics need one."""
    store = TokenStore(state / "tokens.json")
    if any(token.label == WATCHER for token in store.list()):
        store.revoke(WATCHER)
    return {"Authorization": f"Bearer {store.create(WATCHER, None, (Scope.VIEW,))}"}


def _entries(catalog: Path, port: int) -> dict[str, dict[str, object]]:
    return {
        name: {"url": f"http://127.0.0.1:{port}/{number}/mcp", "approve": "never"}
        for number, (name, _) in enumerate(numbered(rows_of(catalog)))
    }


def _lend_embeddings(target: Path) -> None:
    """Vectors that benches made before, so that nothing is embedded twice."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if EMBEDDINGS.is_file() and not target.is_file():
        _copy(EMBEDDINGS, target)


def _keep_embeddings(made: Path) -> None:
    """What was new, for the next run."""
    if made.is_file() and _count(made) > _count(EMBEDDINGS):
        EMBEDDINGS.parent.mkdir(parents=True, exist_ok=True)
        _copy(made, EMBEDDINGS)


def _copy(source: Path, target: Path) -> None:
    # By SQLite itself, since another bench may write meanwhile.
    with closing(sqlite3.connect(source)) as ours, closing(sqlite3.connect(target)) as theirs:
        ours.backup(theirs)


def _count(path: Path) -> int:
    if not path.is_file():
        return 0
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT count(*) FROM vectors").fetchone()[0]
