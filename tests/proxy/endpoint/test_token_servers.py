"""An agent whose token names servers sees, finds and calls nothing of the others, on every path."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp import types as t
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from proxy.endpoint.tokens import TokenStore
from tests.fixtures.running import entry
from tests.fixtures.threads import ThreadBackend
from tests.proxy.endpoint.test_http import serving
from tests.proxy.metatools.conftest import run

pytestmark = pytest.mark.anyio
ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])
SERVERS = {"open": entry("echo"), "closed": entry("echo"), "third": entry("names")}


@asynccontextmanager
async def agent(url: str, token: str, era: str = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=20) as http,
        Client(streamable_http_client(url, http_client=http), mode=era) as client,
    ):
        yield client


async def ask(client: Client, name: str, **arguments: Any) -> str:
    with anyio.fail_after(30):
        result = await client.call_tool(name, arguments)
    return "\n".join(item.text for item in result.content if isinstance(item, t.TextContent))


@asynccontextmanager
async def narrow(folder: Path, *servers: str, **more: Any) -> AsyncIterator[tuple[str, str]]:
    """The gateway's address, and a token held to these servers."""
    token = TokenStore(folder / "state" / "tokens.json").create("narrow", None, servers=servers)
    async with serving(folder, SERVERS, public_url="https://tools.example.com", **more) as (base, app, _):
        await app.gateway.pool.wait_for_first_listings(20)
        yield base, token


@ERAS
async def test_the_index_lists_and_searches_know_only_its_servers(tmp_path: Path, era: str) -> None:
    async with narrow(tmp_path, "open") as (base, token), agent(f"{base}/mcp", token, era) as client:
        shown = [
            client.instructions or "",
            str((await client.list_tools()).tools),
            await ask(client, "list_servers"),
            await ask(client, "search_tools", query="echo a text, add numbers, 工具"),
            await ask(client, "list_tools", server="closed"),
            await ask(client, "describe_tools", tools=["closed.add"]),
            await ask(client, "search_tools", query="add", servers=["closed"]),
        ]
    assert all("open" in each for each in shown[:4])
    assert not any("closed.echo" in each or "closed.add(" in each or "third" in each for each in shown)
    assert "closed" not in "".join(shown[:4])


@ERAS
async def test_no_path_calls_another_server(tmp_path: Path, era: str) -> None:
    async with narrow(tmp_path, "open") as (base, token):
        async with agent(f"{base}/mcp", token, era) as client:
            assert await ask(client, "call_tool", tool="open.add", arguments={"a": 1, "b": 2}) == "3"
            assert "no tool 'closed.add'" in await ask(
                client, "call_tool", tool="closed.add", arguments={"a": 1, "b": 2}
            )
        async with agent(f"{base}/mcp?mode=direct", token, era) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert "open__add" in names
            assert not any(name.startswith(("closed", "third")) for name in names)
            assert "no tool" in await ask(client, "closed__add", a=1, b=2)
        async with agent(f"{base}/mcp/open", token, era) as client:
            assert await ask(client, "add", a=1, b=2) == "3"
        with pytest.raises((MCPError, BaseExceptionGroup)):
            async with agent(f"{base}/mcp/closed", token, era):
                pass


@ERAS
async def test_code_reaches_only_its_servers(tmp_path: Path, era: str) -> None:
    async with (
        narrow(tmp_path, "open", backend=ThreadBackend("")) as (base, token),
        agent(f"{base}/mcp", token, era) as client,
    ):
        assert "\n3" in (await run(client, "print(open.add(a=1, b=2))")).rest
        assert "closed" not in (await run(client, "print(servers())")).rest
        for code in ("closed.add(a=1, b=2)", "help('closed')", "describe('closed.add')"):
            assert (await run(client, code)).failed


async def test_a_token_for_servers_that_are_not_there_sees_none(tmp_path: Path) -> None:
    async with narrow(tmp_path, "gone") as (base, token), agent(f"{base}/mcp", token) as client:
        assert "There are no servers" in await ask(client, "list_servers")
        assert "Nothing found" in await ask(client, "search_tools", query="add")


async def test_two_tokens_have_each_their_own_sight(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "state" / "tokens.json")
    one = tokens.create("one", None, servers=("open",))
    two = tokens.create("two", None, servers=("closed",))
    async with serving(tmp_path, SERVERS, public_url="https://tools.example.com") as (base, app, _):
        await app.gateway.pool.wait_for_first_listings(20)
        async with agent(f"{base}/mcp", one) as first, agent(f"{base}/mcp", two) as second:
            for _ in range(2):
                assert "closed" not in await ask(first, "list_servers")
                assert "open" not in await ask(second, "list_servers")
