"""Three small servers and a gateway in front of them, all in this process: what a tiny model can learn to work with.

Above: bench/online.py and tests of training online. Below: the SDK's servers, in memory; the gateway as
`toolatlas serve` wires it, over HTTP on a loopback port, with its log. What the servers tell is invented.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio
import mcp_types as types
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.shared.memory import create_client_server_memory_streams

from proxy.app import App, build
from proxy.servers.config import ServerConfig
from proxy.servers.configfile import parse
from proxy.servers.process import LastWords
from proxy.servers.transports import Channel
from proxy.settings import Settings
from proxy.store.migrating import migrate
from tests.fixtures.running import InProcessUvicorn, free_port

LISTED_S = 60.0
CITIES = ("Oslo", "Lima", "Kyoto", "Cairo")


@dataclass(frozen=True, slots=True)
class Subject:
    """One server with its only tool."""

    server: str
    tool: str
    description: str
    question: str
    answer: str
    values: Mapping[str, str]
    """By city."""

    @property
    def written(self) -> str:
        return f"{self.server}.{self.tool}"

    def told(self, city: str) -> str:
        return self.answer.format(city=city, value=self.values[city])


SUBJECTS = (
    Subject(
        "census",
        "population",
        "Number of people who live in a city.",
        "How many people live in {city}?",
        "{value} people live in {city}.",
        dict(zip(CITIES, ("712", "10845", "1456", "9923"), strict=True)),
    ),
    Subject(
        "weather",
        "temperature",
        "Temperature in a city now, in degrees.",
        "How warm is it in {city}?",
        "It is {value} degrees in {city}.",
        dict(zip(CITIES, ("7", "19", "23", "34"), strict=True)),
    ),
    Subject(
        "rail",
        "platform",
        "Platform from which the next train leaves a city.",
        "From which platform does the next train leave {city}?",
        "It leaves {city} from platform {value}.",
        dict(zip(CITIES, ("4", "11", "26", "15"), strict=True)),
    ),
)
_BY_SERVER = {each.server: each for each in SUBJECTS}


@dataclass(frozen=True, slots=True)
class Errand:
    """One question."""

    subject: Subject
    city: str

    @property
    def task(self) -> str:
        return self.subject.question.format(city=self.city)

    @property
    def query(self) -> str:
        return f"{self.subject.tool} of a city"


ERRANDS = tuple(Errand(subject, city) for city in CITIES for subject in SUBJECTS)


@dataclass(frozen=True, slots=True)
class SmallWorld:
    """A gateway that serves."""

    app: App
    url: str
    """Of `/mcp`."""
    database: str


@asynccontextmanager
async def small_world(folder: Path) -> AsyncGenerator[SmallWorld]:
    """It listens, and knows all three servers. State, cache and log lie in `folder`."""
    database = f"sqlite:///{folder / 'log.db'}"
    await migrate(database)
    settings = Settings(
        config=folder / "mcp.json",
        state_dir=folder / "state",
        cache_dir=folder / "cache",
        database=database,
        router="lexical",
    )
    # Nobody starts them: the transport below stands for the command.
    configuration = parse({"mcpServers": {name: {"command": "in-memory"} for name in _BY_SERVER}}, os.environ)
    app = build(settings, os.environ, configuration=configuration, recorders=(), transport=_transport)
    port = free_port()
    server = InProcessUvicorn(uvicorn.Config(app.http, host="127.0.0.1", port=port, log_config=None))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve)
        try:
            with anyio.fail_after(LISTED_S):
                await server.ready.wait()
                await app.gateway.pool.wait_for_first_listings(LISTED_S)
            yield SmallWorld(app, f"http://127.0.0.1:{port}/mcp", database)
        finally:
            server.should_exit = True


@asynccontextmanager
async def _transport(config: ServerConfig) -> AsyncGenerator[Channel]:
    server: Any = _server(_BY_SERVER[config.name])
    async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as tasks:
        tasks.start_soon(server.run, *theirs, server.create_initialization_options())
        # The SDK's own streams, of which it says that they take exceptions as well.
        yield Channel(*cast("tuple[Any, Any]", ours), LastWords())
        tasks.cancel_scope.cancel()


def _server(subject: Subject) -> Server[Any]:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = types.Tool(
        name=subject.tool,
        description=subject.description,
        input_schema=schema,
        # Nobody is there to be asked for consent.
        annotations=types.ToolAnnotations(read_only_hint=True),
    )

    async def listed(context: ServerRequestContext[Any, Any], params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool])

    async def called(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        city = (params.arguments or {}).get("city")
        known = city in subject.values
        text = subject.told(str(city)) if known else f"There is no city {city}."
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=not known)

    return Server(subject.server, instructions=subject.description, on_list_tools=listed, on_call_tool=called)
