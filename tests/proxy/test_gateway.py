"""The gateway's life: what it knows at its start, and what a changed configuration or server changes."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp import types as t

from proxy.app import build
from proxy.catalog.cache import ListingCache
from proxy.errors import Denied, UnknownName
from proxy.gateway import Gateway
from proxy.router.base import Query
from proxy.router.lexical import LexicalRouter
from proxy.servers.configfile import Configuration, parse
from proxy.servers.flights import Call
from proxy.servers.pins import PinStore
from proxy.servers.supervisor import Phase
from proxy.servers.transports import open_transport
from proxy.settings import Settings
from tests.fixtures.running import entry

pytestmark = pytest.mark.anyio
LIMIT_S = 30.0


def configured(**servers: Any) -> Configuration:
    return parse({"mcpServers": servers}, os.environ)


@asynccontextmanager
async def running(cache: ListingCache, configuration: Configuration) -> AsyncGenerator[Gateway]:
    with TemporaryDirectory() as pins:
        gateway = Gateway(cache, open_transport, LexicalRouter, PinStore(Path(pins)))
        async with gateway.running(configuration):
            yield gateway


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(LIMIT_S):
        while not condition():
            await anyio.sleep(0.01)


async def call(gateway: Gateway, server: str, tool: str) -> str:
    with anyio.fail_after(LIMIT_S):
        result = await gateway.pool.request(server, Call("tools/call", {"name": tool, "arguments": {}}, LIMIT_S))
    return result["content"][0]["text"]


@pytest.fixture
def cache(tmp_path: Path) -> ListingCache:
    return ListingCache(tmp_path / "listings")


@pytest.fixture
async def listed(cache: ListingCache) -> Configuration:
    """A configuration whose servers were listed by an earlier run."""
    configuration = configured(one=entry("echo"), two=entry("names"))
    async with running(cache, configuration) as gateway:
        await gateway.pool.wait_for_first_listings(LIMIT_S)
        assert gateway.catalog.server("two").listing is not None
    return configuration


async def test_what_an_earlier_run_listed_is_known_without_starting_anything(
    cache: ListingCache, listed: Configuration
) -> None:
    async with running(cache, listed) as gateway:
        assert gateway.pool.starting == 0
        assert [server.name for server in gateway.catalog.servers] == ["one", "two"]
        assert gateway.catalog.tool("one.add").description == "Add two whole numbers."
        built = await gateway.router(LIMIT_S)
        assert (await built.ranker.rank(Query("add whole numbers"), 1)).tools[0].tool == "one.add"
        await anyio.wait_all_tasks_blocked()
        assert {gateway.pool.state(name).phase for name in ("one", "two")} == {Phase.ASLEEP}


async def test_an_old_listing_is_used_at_once_and_confirmed_behind_the_scenes(
    cache: ListingCache, listed: Configuration, tmp_path: Path
) -> None:
    identity = listed.servers[0].identity
    os.utime(tmp_path / "listings" / f"{identity}.json", (0, 0))
    async with running(cache, listed) as gateway:
        assert gateway.catalog.tool("one.add").name == "add"
        assert gateway.pool.starting == 0
        await until(lambda: cache.age_s(identity) < 1e6)
        assert gateway.pool.state("two").phase is Phase.ASLEEP


async def test_a_server_that_changes_its_tools_changes_the_catalogue_and_the_cache(cache: ListingCache) -> None:
    configuration = configured(one=entry("grows"))
    async with running(cache, configuration) as gateway:
        changes: list[int] = []
        gateway.on_change(lambda: changes.append(len(gateway.catalog.tools)))
        await gateway.pool.wait_for_first_listings(LIMIT_S)
        before = len(gateway.catalog.tools)
        assert await call(gateway, "one", "grow") == "grown_1"
        await until(lambda: "one.grown_1" in gateway.catalog.tools)
        assert changes[-2:] == [before, before + 1]
        built = await gateway.router(LIMIT_S)
        assert "one.grown_1" in built.catalog.tools
    async with running(cache, configuration) as gateway:
        assert gateway.catalog.tool("one.grown_1").name == "grown_1"


async def test_an_unchanged_configuration_keeps_listings_and_processes(
    cache: ListingCache, listed: Configuration
) -> None:
    async with running(cache, listed) as gateway:
        pid = await call(gateway, "one", "whoami")
        before = gateway.catalog.hash
        await gateway.apply(configured(one=entry("echo"), two=entry("names")))
        assert gateway.pool.starting == 0
        assert gateway.catalog.hash == before
        assert await call(gateway, "one", "whoami") == pid


async def test_a_removed_server_leaves_the_catalogue_and_the_others_stay(
    cache: ListingCache, listed: Configuration
) -> None:
    async with running(cache, listed) as gateway:
        pid = await call(gateway, "one", "whoami")
        await call(gateway, "two", "a-b")
        await gateway.apply(configured(one=entry("echo")))
        assert [server.name for server in gateway.catalog.servers] == ["one"]
        assert {tool.server for tool in gateway.catalog.tools.values()} == {"one"}
        with pytest.raises(UnknownName, match="no server 'two'"):
            gateway.catalog.server("two")
        with pytest.raises(UnknownName, match="not configured any more"):
            await call(gateway, "two", "a-b")
        ranking = await (await gateway.router(LIMIT_S)).ranker.rank(Query("tool number"), 50)
        assert {found.tool for found in ranking.tools} <= set(gateway.catalog.tools)
        assert await call(gateway, "one", "whoami") == pid


async def test_permissions_follow_the_configuration_and_start_nothing(
    cache: ListingCache, listed: Configuration
) -> None:
    async with running(cache, listed) as gateway:
        await gateway.apply(configured(one={**entry("echo"), "tools": {"deny": ["add"]}}))
        with pytest.raises(Denied, match=r"tools\.deny"):
            await gateway.tool("one.add", LIMIT_S)
        assert gateway.catalog.tool("one.echo").name == "echo"
        await gateway.apply(configured(one={**entry("echo"), "tools": {"allow": ["add"]}}))
        assert list(gateway.catalog.tools) == ["one.add"]
        await gateway.apply(configured(one={**entry("echo"), "enabled": False}))
        assert gateway.catalog.servers == ()
        await gateway.apply(configured(one=entry("echo")))
        assert len(gateway.catalog.tools) > 10
        assert gateway.pool.starting == 0
        assert gateway.pool.state("one").phase is Phase.ASLEEP


async def test_the_same_name_with_another_command_is_another_server(cache: ListingCache, listed: Configuration) -> None:
    async with running(cache, listed) as gateway:
        await gateway.apply(configured(one=entry("paged")))
        assert gateway.catalog.server("one").listing is None
        with anyio.fail_after(LIMIT_S):
            assert (await gateway.tool("one.tool_13", LIMIT_S)).server == "one"
        with pytest.raises(UnknownName):
            gateway.catalog.tool("one.add")
        await gateway.apply(configured(one=entry("echo")))
        assert gateway.catalog.tool("one.add").name == "add"  # still in the cache


async def test_a_name_and_a_search_wait_for_servers_that_are_being_listed_for_the_first_time(
    cache: ListingCache, tmp_path: Path
) -> None:
    async with running(cache, configured(one=entry("echo"))) as gateway:
        with pytest.raises(UnknownName):
            gateway.catalog.tool("one.add")
        with anyio.fail_after(LIMIT_S):
            assert (await gateway.tool("one.add", LIMIT_S)).name == "add"
    async with running(ListingCache(tmp_path / "empty"), configured(one=entry("echo"))) as gateway:
        with anyio.fail_after(LIMIT_S):
            assert (await gateway.router(LIMIT_S)).catalog.tool("one.add").name == "add"


async def test_a_known_name_waits_for_nobody_and_an_unknown_one_only_so_long(
    cache: ListingCache, listed: Configuration
) -> None:
    both = configured(one=entry("echo"), silent=entry("silent"))
    async with running(cache, both) as gateway:
        assert gateway.pool.starting == 1
        with anyio.fail_after(LIMIT_S / 2):
            assert (await gateway.tool("one.add", 1e6)).name == "add"
            with pytest.raises(UnknownName):
                await gateway.tool("silent.anything", 0.05)


async def test_a_cache_that_cannot_be_written_costs_a_warning_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "listings").write_text("a file where the folder should be")
    async with running(ListingCache(tmp_path / "listings"), configured(one=entry("echo"))) as gateway:
        with anyio.fail_after(LIMIT_S):
            assert (await gateway.tool("one.add", LIMIT_S)).name == "add"
    assert "cannot be kept on disk" in caplog.text


async def test_an_entry_that_cannot_be_used_is_logged_and_its_tools_are_denied(
    cache: ListingCache, caplog: pytest.LogCaptureFixture
) -> None:
    broken = {**entry("echo"), "env": {"KEY": "${TOOLATLAS_TEST_NOT_SET}"}}
    async with running(cache, configured(one=broken, two=entry("echo"))) as gateway:
        assert "server one cannot be used" in caplog.text
        assert gateway.pool.state("one").phase is Phase.DISABLED
        with anyio.fail_after(LIMIT_S):
            assert (await gateway.tool("two.add", LIMIT_S)).server == "two"
        assert gateway.catalog.server("one").tools == ()


async def test_an_edit_of_the_watched_file_reaches_an_open_session_and_a_broken_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "toolatlas.gateway")
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"one": entry("echo")}}))
    app = build(Settings(config=file, state_dir=tmp_path / "state", cache_dir=tmp_path / "cache"), os.environ)

    async def ask(client: Client, name: str, **arguments: Any) -> str:
        with anyio.fail_after(LIMIT_S):
            result = await client.call_tool(name, arguments)
        return "\n".join(item.text for item in result.content if isinstance(item, t.TextContent))

    async with app.http.router.lifespan_context(app.http), Client(app.server, mode="legacy") as client:
        pid = await ask(client, "call_tool", tool="one.whoami")
        file.write_text(json.dumps({"mcpServers": {"one": entry("echo"), "two": entry("paged")}}))
        await until(lambda: "two.tool_3" in app.gateway.catalog.tools)
        assert "two.tool_3(" in await ask(client, "search_tools", query="tool number 3", limit=20)
        file.write_text('{"mcpServers": {"one": ')
        await until(lambda: "the earlier one stays in force" in caplog.text)
        assert str(file) in caplog.text
        assert "two - " in await ask(client, "list_servers")
        assert await ask(client, "call_tool", tool="one.whoami") == pid
        file.write_text(json.dumps({"mcpServers": {"one": entry("echo")}}))
        await until(lambda: "two.tool_3" not in app.gateway.catalog.tools)
        assert "no tool 'two.tool_3'" in await ask(client, "describe_tools", tools=["two.tool_3"])
        assert await ask(client, "call_tool", tool="one.whoami") == pid
