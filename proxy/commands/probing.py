"""Tries whether a model can work tasks: through a whole gateway in this process, over a toy server in memory.

Above: doctor.py. Below: proxy/policy/probe.py, which has the tasks and keeps what came of them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import anyio
from mcp import Client
from mcp.shared.memory import create_client_server_memory_streams

from proxy.app import build
from proxy.policy.base import World
from proxy.policy.client_world import ClientWorld
from proxy.policy.making import opened
from proxy.policy.probe import LIMITS, Probed, probe
from proxy.policy.toy import Toy
from proxy.servers.config import ServerConfig
from proxy.servers.configfile import parse
from proxy.servers.process import LastWords
from proxy.servers.transports import Channel
from proxy.settings import ModelSettings, Settings

NAME = "office"
LISTED_S = 20.0


async def probed(settings: ModelSettings) -> Probed:
    """What the model can do. Takes seconds with a fast endpoint, minutes with a slow one.

    Raises:
        ConfigurationError: A package is missing, or there is no such local model.
        ModelError: It cannot be asked.
    """
    async with opened(settings, LIMITS) as model:
        return await probe(model, toy_gateway)


@asynccontextmanager
async def toy_gateway(toy: Toy) -> AsyncGenerator[World]:
    """A gateway that has nothing but the toy server, seen by one client with a session. What is raised inside comes
    out as it is."""

    @asynccontextmanager
    async def transport(config: ServerConfig) -> AsyncGenerator[Channel]:
        server: Any = toy.server()
        async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as tasks:
            tasks.start_soon(server.run, *theirs, server.create_initialization_options())
            # The SDK's own streams, of which it says that they take exceptions as well.
            yield Channel(*cast("tuple[Any, Any]", ours), LastWords())
            tasks.cancel_scope.cancel()

    # It is started by nobody: the transport above stands for the command.
    configuration = parse({"mcpServers": {NAME: {"command": "in-memory"}}}, _NOTHING)
    failure: Exception | None = None
    with TemporaryDirectory(prefix="toolatlas-probe-") as name:
        folder = Path(name)
        settings = Settings(config=folder / "mcp.json", state_dir=folder / "state", cache_dir=folder / "cache")
        app = build(settings, _NOTHING, configuration=configuration, recorders=(), transport=transport)
        async with app.gateway.running(configuration):
            await app.gateway.pool.wait_for_first_listings(LISTED_S)
            async with Client(app.server, mode="legacy") as client:
                try:
                    yield await ClientWorld.of(client)
                except Exception as error:
                    # Raised outside, for a task group would wrap it.
                    failure = error
    if failure is not None:
        raise failure


_NOTHING: Mapping[str, str] = {}
