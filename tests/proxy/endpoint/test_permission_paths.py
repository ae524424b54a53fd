"""A tool that may not be used any more is refused on every path, to agents connected before, in any spelling."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp import types as t

from proxy.app import App
from proxy.catalog.cache import ListingCache
from proxy.servers.config import ServerConfig
from proxy.servers.configfile import parse
from proxy.servers.permission import Permissions
from proxy.servers.pins import PinStore
from proxy.servers.supervisor import Phase
from tests.fixtures.running import entry
from tests.proxy.endpoint.test_http import ACCEPT, INITIALIZE, serving

pytestmark = pytest.mark.anyio
LIMIT_S = 30.0
ADD = {"a": 2, "b": 3}
SPELLINGS = ("tools.add", "tools__add", "Tools.Add", "tools/add", "add", "ADD", "tools-add")
"""All of them name the tool as long as it may be used."""


@dataclass(frozen=True)
class Agents:
    """One agent on each path, connected for as long as the test runs."""

    app: App
    folder: Path
    search: Client
    direct: Client
    server: Client

    async def seen(self) -> dict[str, bool]:
        """Path -> whether the tool can be found, read of, or called there."""
        found = await text(self.search, "search_tools", query="add two whole numbers")
        listed = await text(self.search, "list_tools", server="tools")
        described = await text(self.search, "describe_tools", tools=["tools.add"])
        as_json = await text(self.search, "describe_tools", tools=["tools.add"], format="json")
        direct = {tool.name for tool in (await self.direct.list_tools()).tools}
        server = {tool.name for tool in (await names(self.server))}
        return {
            "search": "tools.add(" in found,
            "list": "tools.add" in listed,
            "describe": "def add(" in described,
            "describe json": '"inputSchema"' in as_json,
            "direct list": "tools__add" in direct,
            "server list": "add" in server,
            "direct call": await text(self.direct, "tools__add", **ADD) == "5",
            "server call": await text(self.server, "add", **ADD) == "5",
            **{f"call {name}": await self.called(name) == "5" for name in SPELLINGS},
        }

    async def called(self, name: str) -> str:
        return await text(self.search, "call_tool", tool=name, arguments=ADD)

    async def apply(self, **servers: Any) -> None:
        await self.app.gateway.apply(parse({"mcpServers": servers}, os.environ))


async def text(client: Client, name: str, /, **arguments: Any) -> str:
    """What an agent reads, whether it is a result or an error."""
    with anyio.fail_after(LIMIT_S):
        try:
            result = await client.call_tool(name, arguments)
        except MCPError as error:
            return error.error.message
    return "\n".join(item.text for item in result.content if isinstance(item, t.TextContent))


async def names(client: Client) -> list[t.Tool]:
    with anyio.fail_after(LIMIT_S):
        try:
            return (await client.list_tools()).tools
        except MCPError:
            return []


@asynccontextmanager
async def connected(folder: Path, **servers: Any) -> AsyncGenerator[Agents]:
    async with serving(folder, servers) as (url, app, _), AsyncExitStack() as stack:
        await app.gateway.pool.wait_for_first_listings(LIMIT_S)
        addresses = ("/mcp", "/mcp?mode=direct", "/mcp/tools")
        clients = [await stack.enter_async_context(Client(f"{url}{address}", mode="legacy")) for address in addresses]
        yield Agents(app, folder, *clients)


async def denied(agents: Agents) -> None:
    await agents.apply(tools={**entry("echo"), "tools": {"deny": ["a*"]}}, other=entry("names"))


async def not_allowed(agents: Agents) -> None:
    await agents.apply(tools={**entry("echo"), "tools": {"allow": ["echo"]}}, other=entry("names"))


async def switched_off(agents: Agents) -> None:
    await agents.apply(tools={**entry("echo"), "enabled": False}, other=entry("names"))


async def removed(agents: Agents) -> None:
    await agents.apply(other=entry("names"))


async def another_server_that_waits(agents: Agents) -> None:
    echo = entry("echo")
    await agents.apply(tools={**echo, "args": [*echo["args"], "again"], "on_new": "ask"}, other=entry("names"))


async def changed(agents: Agents) -> None:
    """What was accepted is another definition than the one that the server gives."""
    strict = {**entry("echo"), "on_change": "block"}
    await agents.apply(tools=strict, other=entry("names"))
    config, listing = listing_of(agents, strict)
    other = tuple({**tool, "description": "Other."} if tool["name"] == "add" else tool for tool in listing.tools)
    PinStore(agents.folder / "state" / "pins").accept(config, replace(listing, tools=other))
    with anyio.fail_after(LIMIT_S):
        while "tools.add" in agents.app.gateway.catalog.tools:
            await anyio.sleep(0.02)


def listing_of(agents: Agents, given: Any) -> tuple[ServerConfig, Any]:
    (config,) = parse({"mcpServers": {"tools": given}}, os.environ).servers
    listing = ListingCache(agents.folder / "cache" / "listings").load(config.identity)
    assert listing is not None
    return config, listing


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (denied, "tools.deny"),
        (not_allowed, "tools.allow"),
        (switched_off, "no tool 'tools.add'"),
        (removed, "no tool 'tools.add'"),
        (another_server_that_waits, "waits until the gateway's owner accepts it"),
        (changed, "its definition changed"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_change_under_open_sessions_holds_on_every_path(
    tmp_path: Path, change: Callable[[Agents], Awaitable[None]], reason: str
) -> None:
    async with connected(tmp_path, tools=entry("echo"), other=entry("names")) as agents:
        before = await agents.seen()
        assert all(before.values()), before
        await change(agents)
        after = await agents.seen()
        assert not any(after.values()), after
        assert reason in await agents.called("tools.add")
        assert reason in await text(agents.search, "describe_tools", tools=["tools.add"])


async def test_a_tool_denied_while_its_user_is_asked_is_not_called(tmp_path: Path) -> None:
    async with connected(tmp_path, tools=entry("echo")) as agents:

        async def allow(context: Any, params: Any) -> t.ElicitResult:
            await agents.apply(tools={**entry("echo"), "tools": {"deny": ["delete_*"]}})
            return t.ElicitResult(action="accept", content={})

        async with Client(agents.app.server, mode="legacy", elicitation_callback=allow) as client:
            arguments = {"tool": "tools.delete_file", "arguments": {"path": "x"}}
            assert "tools.deny" in await text(client, "call_tool", **arguments)


async def test_a_refused_tool_gives_its_name_to_no_other(tmp_path: Path) -> None:
    """`other` has a tool of the same name, and one whose name is the full name of the refused one."""
    servers = {"tools": entry("echo"), "more": entry("echo")}
    async with connected(tmp_path, **servers) as agents:
        assert "could be any of: tools.add, more.add" in await agents.called("add")
        await agents.apply(tools={**entry("echo"), "tools": {"deny": ["add"]}}, more=entry("echo"))
        assert "could be any of: more.add" in await agents.called("add")
        assert "tools.deny" in await agents.called("Tools/Add")
        assert await agents.called("more.add") == "5"


async def test_a_server_that_waits_shows_its_name_and_nothing_else(tmp_path: Path) -> None:
    ask = {**entry("echo"), "on_new": "ask", "description": "Words of the entry"}
    async with serving(tmp_path, {"tools": ask, "other": entry("names")}) as (url, app, steps):
        await app.gateway.pool.wait_for_first_listings(LIMIT_S)
        async with Client(f"{url}/mcp", mode="legacy") as search, Client(f"{url}/mcp?mode=direct") as direct:
            told = [search.instructions or "", direct.instructions or ""]
            assert all("tools - waiting to be accepted" in each for each in told)
            told.append(await text(search, "list_servers"))
            assert "tools [waiting to be accepted]\n" in told[-1]
            told.append(await text(search, "list_tools", server="tools"))
            assert "`toolatlas tools accept tools`" in told[-1]
            told += [await text(search, "search_tools", query=query) for query in ("echo text", "add whole numbers")]
            told += [
                tool.model_dump_json() for client in (search, direct) for tool in (await client.list_tools()).tools
            ]
            for said in ("Echoes", "whole numbers", "tools.add", "tools__add", "counter", "Words of the entry"):
                assert not [each for each in told if said in each]
            assert "waits" in await text(search, "call_tool", tool="tools.add", arguments=ADD)
            assert "3" not in await text(direct, "tools__add", **ADD)
        async with httpx2.AsyncClient() as http:
            answer = (await http.post(f"{url}/mcp/tools", json=INITIALIZE, headers=ACCEPT)).text
        assert "waits until the gateway's owner accepts it" in answer
        assert "Echoes" not in answer
        assert {step.server for step in steps.all} == {None}
        assert app.gateway.pool.state("tools").phase is Phase.DISABLED


@pytest.mark.parametrize("name", ["delet\u0435_note", "delete\u200b_note", "\uff44elete_note", "delete_n\u043ete"])
def test_a_denied_name_is_denied_in_letters_that_look_the_same(name: str) -> None:
    (config,) = parse({"mcpServers": {"s": {**entry("echo"), "tools": {"deny": ["delete_*"]}}}}, os.environ).servers
    assert "tools.deny" in (Permissions({"s": config}).refusal("s", name) or "")
