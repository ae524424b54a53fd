"""What the tests of live servers share: entries made into configurations, calls, bounded waits, and what was listed.

Above: the tests of process.py to pool.py. Below: the real fixture servers of tests/fixtures.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from proxy.catalog.records import Listing
from proxy.servers.config import ServerConfig
from proxy.servers.configfile import parse
from proxy.servers.connection import ServerConnection, Terms, connect
from proxy.servers.flights import Call
from proxy.servers.origin import Origin
from proxy.servers.pool import Pool
from proxy.servers.supervisor import Supervisor
from proxy.servers.transports import Channel, open_transport
from tests.fixtures.origins import agent

LIMIT_S = 40.0
"""What a whole test may take, with much to spare: the machine is shared."""


def config(entry: Mapping[str, Any], name: str = "srv", **changed: Any) -> ServerConfig:
    """A fixture's `mcpServers` entry as the configuration file would give it."""
    (server,) = parse({"mcpServers": {name: {**entry, **changed}}}, {}).servers
    return server


def call(tool: str, *, timeout_s: float = 30.0, origin: Origin | None = None, **arguments: Any) -> Call:
    return Call("tools/call", {"name": tool, "arguments": arguments}, timeout_s, origin)


def text(result: Mapping[str, Any]) -> str:
    return result["content"][0]["text"]


async def until(done: Callable[[], bool]) -> None:
    with anyio.fail_after(LIMIT_S / 2):
        while not done():
            await anyio.sleep(0.01)


def running(pid: int) -> bool:
    """Whether a process still runs; one that only waits for its parent to notice its end does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


async def ignore(method: str, params: Mapping[str, Any]) -> None:
    """For tests in which no change at the server matters."""


@dataclass
class Opening:
    """Opens real transports and counts them."""

    count: int = 0

    def __call__(self, config: ServerConfig) -> AbstractAsyncContextManager[Channel]:
        self.count += 1
        return open_transport(config)


@asynccontextmanager
async def connected(config: ServerConfig) -> AsyncGenerator[ServerConnection]:
    with anyio.fail_after(LIMIT_S):
        async with connect(config, open_transport, Terms(on_notice=ignore)) as connection:
            yield connection


@dataclass(frozen=True)
class Supervised:
    """A supervisor and the transports it opened."""

    supervisor: Supervisor
    opening: Opening

    async def text(self, tool: str, **arguments: Any) -> str:
        return text(await self.supervisor.request(call(tool, **arguments)))


@asynccontextmanager
async def supervised(config: ServerConfig, clock: Callable[[], float] = time.monotonic) -> AsyncGenerator[Supervised]:
    """A supervisor in a task group of its own, which is cancelled in the end as the pool's is."""
    opening = Opening()
    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            yield Supervised(Supervisor(config, tasks, opening, Terms(on_notice=ignore), lambda: None, clock), opening)
            tasks.cancel_scope.cancel()


@dataclass
class Listings:
    """Every listing that a pool handed over, in order, by server."""

    of: dict[str, list[Listing]] = field(default_factory=dict)

    def take(self, config: ServerConfig, listing: Listing) -> None:
        self.of.setdefault(config.name, []).append(listing)

    def names(self, server: str = "srv") -> set[str]:
        """The tools of the last listing."""
        return {tool["name"] for tool in self.of[server][-1].tools} if server in self.of else set()


@dataclass(frozen=True)
class Pooled:
    pool: Pool
    listings: Listings

    async def text(self, server: str, tool: str, *, session: str = "session", **arguments: Any) -> str:
        return text(await self.pool.request(server, call(tool, origin=agent(session), **arguments)))

    async def apply(self, *configs: ServerConfig, unlisted: bool = False) -> None:
        """Take over these configurations; as after a start with a cache unless they are `unlisted`."""
        names = {config.name for config in configs} if unlisted else set[str]()
        await self.pool.apply({config.name: config for config in configs}, names)


@asynccontextmanager
async def pooled(*configs: ServerConfig, unlisted: bool = False) -> AsyncGenerator[Pooled]:
    listings = Listings()
    pool = Pool(open_transport, listings.take)
    pooled = Pooled(pool, listings)
    with anyio.fail_after(LIMIT_S):
        async with pool.running():
            await pooled.apply(*configs, unlisted=unlisted)
            yield pooled
