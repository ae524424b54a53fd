"""A gateway over HTTP in front of a server of each era, shared by the tests of one module, and every way through it.

Above: the tests beside this. Below: tests/fixtures/primitives.py over HTTP in this process, and agent.py.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvicorn
from starlette.types import ASGIApp

from proxy.app import App, build
from proxy.servers.configfile import parse
from proxy.settings import Settings
from tests.fixtures import primitives
from tests.fixtures.primitives import Primitives
from tests.fixtures.running import LOOPBACK, InProcessUvicorn, free_port
from tests.primitives.agent import LIMIT_S, Agent, connect

ERAS = ("2025", "2026")
MODES = ("server", "direct", "search")


@dataclass(frozen=True)
class Way:
    """An agent of an era, in front of a server of an era, in one of the modes."""

    agent: str
    server: str
    mode: str

    def __str__(self) -> str:
        return f"agent={self.agent},server={self.server},mode={self.mode}"

    @property
    def name(self) -> str:
        """What the gateway calls the server."""
        return f"s{self.server}"


WAYS = tuple(Way(agent, server, mode) for agent in ERAS for server in ERAS for mode in MODES)


def ways(**only: str) -> pytest.MarkDecorator:
    """Parametrizes a test over all ways, or those that have what `only` says."""
    chosen = [way for way in WAYS if all(getattr(way, key) == value for key, value in only.items())]
    return pytest.mark.parametrize("way", chosen, ids=str)


def pairs(mode: str = "search") -> pytest.MarkDecorator:
    """Over both eras on both sides, in one mode."""
    return ways(mode=mode)


@asynccontextmanager
async def serving(app: ASGIApp, port: int | None = None) -> AsyncGenerator[str]:
    """An application on a loopback port of this process; yields `http://HOST:PORT`. The end cuts what is in flight.

    In a task of its own, so that it can outlive the test that happens to be the first to want it.
    """
    port = port or free_port()
    server = InProcessUvicorn(uvicorn.Config(app, host=LOOPBACK, port=port, log_config=None))
    task = asyncio.create_task(server.serve())
    task.add_done_callback(lambda _: server.ready.set())
    with anyio.fail_after(LIMIT_S):
        await server.ready.wait()
    try:
        yield f"http://{LOOPBACK}:{port}"
    finally:
        server.should_exit = True
        with anyio.fail_after(LIMIT_S, shield=True):
            await task


def piped(era: str, **changed: Any) -> dict[str, Any]:
    """The configuration entry of a server of that era as a process."""
    arguments = [primitives.__file__, "--era", era, "--stdio"]
    return {"command": sys.executable, "args": arguments, **changed}


@dataclass
class Place:
    """A gateway and what is behind it."""

    base: str
    app: App
    servers: Mapping[str, Primitives] = field(default_factory=dict[str, Primitives])
    """Those that run in this process, by name."""

    def agent(self, way: Way, **more: Any) -> AbstractAsyncContextManager[Agent]:
        return connect(self.base, way.agent, way.mode, way.name, **more)

    def behind(self, way: Way) -> Primitives:
        return self.servers[way.name]


@asynccontextmanager
async def place(folder: Path, entries: Mapping[str, Any] | None = None, **changed: Any) -> AsyncGenerator[Place]:
    """A gateway in front of `s2025` and `s2026` over HTTP, or of `entries`; `changed` are its settings.

    An entry that only changes one of the two gets its address put in.
    """
    async with AsyncExitStack() as stack:
        servers: dict[str, Primitives] = {}
        configured: dict[str, Any] = {}
        for name, given in (entries if entries is not None else {"s2025": {}, "s2026": {}}).items():
            configured[name] = dict(given)
            if "command" not in given and "url" not in given:
                servers[name] = Primitives(name.removeprefix("s"))
                url = await stack.enter_async_context(serving(servers[name].asgi_app()))
                configured[name] |= {"type": "http", "url": f"{url}/mcp"}
        settings = Settings(
            config=folder / "mcp.json", state_dir=folder / "state", cache_dir=folder / "cache", **changed
        )
        configuration = parse({"mcpServers": configured}, os.environ)
        app = build(settings, os.environ, configuration=configuration, recorders=())
        base = await stack.enter_async_context(serving(app.http))
        await app.gateway.pool.wait_for_first_listings(LIMIT_S)
        unlisted = [server.name for server in app.gateway.catalog.servers if server.listing is None]
        assert not unlisted, {name: app.gateway.pool.state(name) for name in unlisted}
        yield Place(base, app, servers)


StartPlace = Callable[..., AbstractAsyncContextManager[Place]]


@pytest.fixture
def start_place(tmp_path: Path) -> StartPlace:
    """`async with start_place(...) as place`: a gateway for one test alone."""
    return lambda *given, **changed: place(tmp_path, *given, **changed)


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Place]:
    """A gateway for the tests of one module, for those that leave nothing behind."""
    async with place(tmp_path_factory.mktemp("shared")) as started:
        yield started
