"""Two gateways on one PostgreSQL behind a load balancer that sends every connection to the other one."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp import types as t
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from sqlalchemy import select

from proxy.app import App, build
from proxy.endpoint.tokens import TokenStore
from proxy.sandbox.base import Limits
from proxy.sandbox.embedded import EmbeddedBackend
from proxy.servers.configfile import parse
from proxy.settings import Settings
from proxy.store.migrating import migrate
from proxy.store.tables import EpisodeRow, StepRow
from tests.fixtures.databases import postgres_server
from tests.fixtures.postgres import empty_database
from tests.fixtures.running import LOOPBACK, entry, free_port, http_server
from tests.lifecycle.conftest import StartProcess, gateway_process, serving

__all__ = ["gateway_process", "postgres_server"]
pytestmark = pytest.mark.anyio
NAMES = ("a", "b")
LIMIT_S = 60.0


@dataclass
class Balanced:
    """The replicas, by name, and the address before them."""

    apps: dict[str, App] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)
    stops: dict[str, AsyncExitStack] = field(default_factory=dict)
    base: str = ""
    database: str = ""


@asynccontextmanager
async def balancer(ports: list[int]) -> AsyncGenerator[str]:
    """Hands every new connection to the next port."""
    following = itertools.cycle(ports)

    async def reachable() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        chosen = next(following)
        for port in (chosen, *(other for other in ports if other != chosen)):
            try:
                return await asyncio.open_connection(LOOPBACK, port)
            except OSError:
                continue
        raise ConnectionError("no gateway is left")

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(65536):
                writer.write(chunk)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await reachable()
        await asyncio.gather(carry(reader, back), carry(there, writer))

    server = await asyncio.start_server(connected, LOOPBACK, 0)
    async with server:
        yield f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"


@pytest.fixture
def database_of_all(postgres_server: str) -> Any:
    with empty_database(postgres_server) as url:
        yield url


@asynccontextmanager
async def replicated(folder: Path, database: str, servers: dict[str, Any], **changed: Any) -> AsyncGenerator[Balanced]:
    await migrate(database)
    balanced, ports = Balanced(database=database), {name: free_port() for name in NAMES}
    configuration = parse({"mcpServers": servers}, os.environ)
    with anyio.fail_after(2 * LIMIT_S):
        async with AsyncExitStack() as stack:
            for name in NAMES:
                settings = Settings(
                    config=folder / "mcp.json",
                    state_dir=folder / "state",
                    cache_dir=folder / "cache",
                    database=database,
                    replica=name,
                    peers={other: f"http://{LOOPBACK}:{ports[other]}" for other in NAMES if other != name},
                    **changed,
                )
                app = build(
                    settings, os.environ, configuration=configuration, recorders=(), backend=EmbeddedBackend(Limits())
                )
                own = balanced.stops[name] = await stack.enter_async_context(AsyncExitStack())
                balanced.bases[name] = await own.enter_async_context(serving(app.http, ports[name]))
                balanced.apps[name] = app
                await app.gateway.pool.wait_for_first_listings(LIMIT_S)
            balanced.base = await stack.enter_async_context(balancer(list(ports.values())))
            yield balanced


@asynccontextmanager
async def agent(base: str, token: str | None = None, **more: Any) -> AsyncIterator[Client]:
    """Of the era without sessions; each of its requests is a connection of its own."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    once = httpx2.Limits(max_keepalive_connections=0)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=LIMIT_S, limits=once) as http,
        Client(streamable_http_client(f"{base}/mcp", http_client=http), mode="auto", **more) as client,
    ):
        yield client


async def ask(client: Client, name: str, **arguments: Any) -> str:
    with anyio.fail_after(LIMIT_S):
        result = await client.call_tool(name, arguments)
    return "\n".join(item.text for item in result.content if isinstance(item, t.TextContent))


async def task_of(client: Client) -> str:
    named = re.search(r"\[task_id: (\w+);", await ask(client, "search_tools", query="add"))
    assert named is not None
    return named[1]


async def test_a_task_goes_on_with_its_interpreter_whichever_gateway_is_asked(
    tmp_path: Path, database_of_all: str
) -> None:
    async with replicated(tmp_path, database_of_all, {"tools": entry("echo")}) as balanced:
        async with agent(balanced.base) as client:
            tasks = [await task_of(client) for _ in range(4)]
            assert {task.partition("_")[0] for task in tasks} == {"ta", "tb"}
            for task in tasks:
                await ask(client, "run_python", code="n = 0", task_id=task)
                for _ in range(3):
                    ran = await ask(client, "run_python", code="n = n + int(tools.add(a=1, b=0))", task_id=task)
                    assert ran.startswith("[ok"), ran
                assert "\n3" in await ask(client, "run_python", code="n", task_id=task)
                await ask(client, "finish_task", outcome="done", task_id=task)
        for app in balanced.apps.values():
            assert app.logbook is not None
            assert await app.logbook.recorder.flushed(LIMIT_S)
        async with balanced.apps["a"].logbook.database.reading() as connection:  # type: ignore[union-attr]
            episodes = (await connection.execute(select(EpisodeRow.id, EpisodeRow.stream))).all()
            steps = (await connection.execute(select(StepRow.episode_id, StepRow.name))).all()
    assert len(episodes) == 4
    assert len({stream for _, stream in episodes}) == 2
    for episode, _ in episodes:
        assert sum(found == episode for found, _ in steps) == 1 + 5 + 3 + 1


async def test_a_reply_to_a_question_reaches_the_call_that_waits_for_it(tmp_path: Path, database_of_all: str) -> None:
    async def blue(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        return t.ElicitResult(action="accept", content={"colour": "blue"})

    async with http_server() as url:
        servers = {"asking": {"type": "http", "url": url}}
        async with (
            replicated(tmp_path, database_of_all, servers) as balanced,
            agent(balanced.base, elicitation_callback=blue) as client,
        ):
            for _ in range(4):
                answer = await ask(client, "call_tool", tool="asking.ask", arguments={"message": "Which?"})
                assert "blue" in answer


async def test_a_passed_on_call_needs_the_credential_that_began_its_task(tmp_path: Path, database_of_all: str) -> None:
    tokens = TokenStore(tmp_path / "state" / "tokens.json")
    alice, bob = tokens.create("alice", None), tokens.create("bob", None)
    servers = {"tools": entry("echo")}
    async with replicated(tmp_path, database_of_all, servers, public_url="https://tools.example.com") as balanced:
        async with agent(balanced.base, alice) as hers, agent(balanced.base, bob) as his:
            task = await task_of(hers)
            for _ in range(2):
                assert "no running task" in await ask(his, "run_python", code="1", task_id=task)
                assert "[ok" in await ask(hers, "run_python", code="1", task_id=task)
        async with httpx2.AsyncClient() as http:
            for base in balanced.bases.values():
                body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"arguments": {"task_id": task}}}
                assert (await http.post(f"{base}/mcp", json=body)).status_code == 401


async def test_the_tasks_of_a_gateway_that_is_gone_are_said_to_be_and_new_ones_work(
    tmp_path: Path, database_of_all: str
) -> None:
    async with replicated(tmp_path, database_of_all, {"tools": entry("echo")}) as balanced:
        async with agent(balanced.bases["b"]) as client:
            task = await task_of(client)
        await balanced.stops["b"].aclose()
        async with agent(balanced.bases["a"]) as client:
            with pytest.raises(MCPError, match="gateway 'b' that runs this task cannot be reached"):
                await ask(client, "run_python", code="1", task_id=task)
            assert (await task_of(client)).startswith("ta_")


async def test_when_one_of_two_is_killed_the_next_requests_go_on_and_none_is_executed_twice(
    gateway_process: StartProcess, database_of_all: str
) -> None:
    await migrate(database_of_all)
    logged = ("--database", database_of_all)
    async with http_server() as url:
        servers = {"counting": {"type": "http", "url": url}}
        with (
            gateway_process(servers, *logged, "--replica", "a") as first,
            gateway_process(servers, *logged, "--replica", "b") as second,
        ):
            ports = [int(each.base.rpartition(":")[2]) for each in (first, second)]
            async with balancer(ports) as base:
                answered, failed = 0, 0
                for call in range(30):
                    if call == 10:
                        first.process.kill()
                        first.process.wait()
                    try:
                        async with agent(base) as client:
                            await ask(client, "call_tool", tool="counting.counter")
                        answered += 1
                    except Exception:
                        failed += 1
                assert failed == 0
            async with agent(second.base) as client:
                count = int(await ask(client, "call_tool", tool="counting.counter"))
    assert count == answered + 1


async def test_gateways_that_disagree_about_a_task_do_not_pass_it_to_and_fro(
    tmp_path: Path, database_of_all: str
) -> None:
    async with replicated(tmp_path, database_of_all, {"tools": entry("echo")}) as balanced:
        async with agent(balanced.base) as client:
            for name in NAMES:
                assert "no running task" in await ask(client, "run_python", code="1", task_id=f"t{name}_{'0' * 24}")
            assert "no running task" in await ask(client, "run_python", code="1", task_id=f"tc_{'0' * 24}")
