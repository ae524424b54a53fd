"""Lists of servers and tools: their pages, and what they say of servers that give none."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from proxy.catalog.cache import ListingCache
from proxy.catalog.prior import Prior
from proxy.catalog.records import Listing
from proxy.errors import InvalidArguments, UnknownName
from proxy.gateway import Gateway
from proxy.metatools.base import Caller, MetaTool, Request
from proxy.metatools.finding import (
    CANDIDATES,
    SERVERS_PER_PAGE,
    SURE,
    TOOLS_PER_PAGE,
    UNSURE,
    ListServers,
    ListTools,
    SearchTools,
    Showing,
)
from proxy.router.cutting import Certainty
from proxy.router.exploring import Explorer
from proxy.router.lexical import LexicalRouter
from proxy.servers.configfile import parse
from proxy.servers.pins import PinStore
from proxy.servers.transports import open_transport
from proxy.store.recorder import Decision, Level
from proxy.tasks import Task
from tests.fixtures.origins import agent
from tests.fixtures.running import dead_port_entry, entry
from tests.fixtures.steps import an_episode

pytestmark = pytest.mark.anyio
LIMIT_S = 30.0
ALIKE = {"one": [f"count_{number}" for number in range(9)]}
UNLIKE = {"one": ["send_mail", "add_numbers", "list_files"]}
NEXT = 'Next: describe_tools(["..."]), then call_tool.'


USUAL = Certainty()


def showing(explore: float = 0.0, certainty: Certainty = USUAL) -> Showing:
    return Showing(certainty=certainty, explorer=Explorer(explore, b"k" * 32), prior=Prior())


async def search(
    gateway: Gateway, how: Showing, *, level: Level = Level.FULL, **arguments: Any
) -> tuple[list[str], Decision]:
    """The lines of the answer, and what the log is told of it."""
    task = Task("t0_1", "local", 0.0, an_episode(), level=level)
    caller = Caller(agent="local", origin=agent())
    with anyio.fail_after(LIMIT_S):
        result = await SearchTools(gateway, how, LIMIT_S).run(Request(task, caller, arguments))
    assert caller.target.decision is not None
    return result["content"][0]["text"].split("\n"), caller.target.decision


def found_in(lines: list[str]) -> list[str]:
    """Names, without the server's."""
    return [line.partition("(")[0].partition(".")[2] for line in lines if line.startswith("one.")]


@asynccontextmanager
async def gateway_of(
    folder: Path, servers: dict[str, dict[str, Any]], known: dict[str, list[str]]
) -> AsyncGenerator[Gateway]:
    """A gateway that knows these tools of these servers from an earlier run, and so starts none of them."""
    cache = ListingCache(folder / "listings")
    configuration = parse({"mcpServers": servers}, os.environ)
    for server in configuration.servers:
        if server.name in known:
            tools = [{"name": tool, "description": f"Does {tool}.", "inputSchema": {}} for tool in known[server.name]]
            cache.store(server.identity, Listing(tuple(tools), "2025-11-25"))
    gateway = Gateway(cache, open_transport, LexicalRouter, PinStore(folder / "pins"))
    async with gateway.running(configuration):
        yield gateway


async def ask(metatool: MetaTool, **arguments: Any) -> tuple[list[str], bool]:
    """The lines of an answer, and whether it is an error."""

    caller = Caller(agent="local", origin=agent())
    with anyio.fail_after(LIMIT_S):
        result = await metatool.run(Request(Task("t0_1", "local", 0.0, an_episode()), caller, arguments))
    return result["content"][0]["text"].split("\n"), result.get("isError", False)


async def test_many_servers_come_in_pages_that_lead_to_each_other(tmp_path: Path) -> None:
    names = [f"s{number:03}" for number in range(SERVERS_PER_PAGE + 3)]
    servers = {name: {**entry("echo"), "args": [name]} for name in names}
    async with gateway_of(tmp_path, servers, {name: ["go"] for name in names}) as gateway:
        listing = ListServers(gateway)
        first, _ = await ask(listing)
        assert first[0] == "Page 1 of 2, 53 servers in all; next: list_servers(page=2)"
        last, _ = await ask(listing, page=2)
        assert last[0] == "Page 2 of 2, 53 servers in all"
        assert [line.split(" - ")[0] for line in first[1:] + last[1:]] == names
        assert all(line.endswith("(1 tool)") for line in first[1:])
        for page in (0, 3, -1):
            with pytest.raises(InvalidArguments, match=f"pages 1 to 2, not {page}"):
                await ask(listing, page=page)


async def test_many_tools_come_in_pages_that_lead_to_each_other(tmp_path: Path) -> None:
    tools = [f"tool_{number}" for number in range(2 * TOOLS_PER_PAGE + 1)]
    async with gateway_of(tmp_path, {"my-server": entry("echo")}, {"my-server": tools}) as gateway:
        listing = ListTools(gateway)
        pages = [(await ask(listing, server="my-server", page=page))[0] for page in (1, 2, 3)]
        assert pages[0][0] == "Page 1 of 3, 121 tools in all; next: list_tools(server='my_server', page=2)"
        assert pages[2][0] == "Page 3 of 3, 121 tools in all"
        assert [line for page in pages for line in page[1:]] == [f"my_server.{tool}: Does {tool}." for tool in tools]
        with pytest.raises(InvalidArguments, match="pages 1 to 3, not 4"):
            await ask(listing, server="my_server", page=4)


@pytest.mark.parametrize("count", [1, TOOLS_PER_PAGE])
async def test_what_fits_on_one_page_has_no_heading(tmp_path: Path, count: int) -> None:
    tools = [f"tool_{number}" for number in range(count)]
    async with gateway_of(tmp_path, {"one": entry("echo")}, {"one": tools}) as gateway:
        lines, _ = await ask(ListTools(gateway), server="one")
        assert len(lines) == count
        with pytest.raises(InvalidArguments, match="pages 1 to 1, not 2"):
            await ask(ListTools(gateway), server="one", page=2)


async def test_nothing_to_list_is_said(tmp_path: Path) -> None:
    async with gateway_of(tmp_path, {}, {}) as gateway:
        assert await ask(ListServers(gateway)) == (["There are no servers."], False)
    async with gateway_of(tmp_path, {"one": entry("echo")}, {"one": []}) as gateway:
        assert await ask(ListTools(gateway), server="one") == (["There are no tools."], False)


async def test_an_unknown_server_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    async with gateway_of(tmp_path, {"weather": entry("echo")}, {"weather": ["go"]}) as gateway:
        with pytest.raises(UnknownName, match="did you mean weather"):
            await ask(ListTools(gateway), server="wether")


async def test_a_server_without_listing_says_why_and_only_a_starting_one_is_no_error(tmp_path: Path) -> None:
    servers = {"slow": entry("silent"), "gone": dead_port_entry()}
    async with gateway_of(tmp_path, servers, {}) as gateway:
        with anyio.fail_after(LIMIT_S):
            while gateway.pool.state("gone").reason is None:
                await anyio.sleep(0.01)
        (starting,), failed = await ask(ListTools(gateway), server="slow")
        assert (starting.split(":")[0], failed) == ("slow [starting]", False)
        (down,), failed = await ask(ListTools(gateway), server="gone")
        assert down.startswith("gone [down]: ")
        assert failed
        lines, _ = await ask(ListServers(gateway))
        assert lines[0].endswith("[starting]")
        assert "[down: " in lines[1]


async def test_a_server_that_cannot_be_used_says_why_even_when_its_tools_are_known(tmp_path: Path) -> None:
    # Listed by an earlier run, when the entry was still good.
    broken = {**entry("echo"), "cwd": "${TOOLATLAS_TEST_NOT_SET}"}
    async with gateway_of(tmp_path, {"one": broken}, {"one": ["go"]}) as gateway:
        assert gateway.catalog.server("one").listing is not None
        (line,), failed = await ask(ListTools(gateway), server="one")
        assert line.startswith("one [disabled]: ")
        assert "TOOLATLAS_TEST_NOT_SET" in line
        assert failed


async def test_a_search_is_bounded_and_stays_within_the_servers_named(tmp_path: Path) -> None:
    known = {name: [f"count_{number}" for number in range(30)] for name in ("a", "b")}
    async with gateway_of(tmp_path, {"a": entry("echo"), "b": entry("names")}, known) as gateway:
        search = SearchTools(gateway, showing(), LIMIT_S)
        for limit, shown in ((None, 5), (3, 3), (1000, 20), (-4, 1)):
            asked = {} if limit is None else {"limit": limit}
            lines, _ = await ask(search, query="count", servers=["b"], **asked)
            found = [line for line in lines if line.startswith("b.count_")]
            assert len(found) == shown
            assert not any(line.startswith("a.") for line in lines)
        with pytest.raises(InvalidArguments, match="query"):
            await ask(search, query=" \n")
        with pytest.raises(UnknownName, match="no server 'c'"):
            await ask(search, query="count", servers=["c"])
        lines, failed = await ask(search, query="zzzz")
        assert lines == ["Nothing found. Try other words, or list_servers() and list_tools(server)."]
        assert not failed


async def test_of_a_sure_ranking_only_the_first_is_shown_and_the_way_to_more(tmp_path: Path) -> None:
    certainty = Certainty(one=9.0, two=9.0)
    async with gateway_of(tmp_path, {"one": entry("echo")}, ALIKE) as gateway:
        lines, decision = await search(gateway, showing(certainty=certainty), query="count")
        assert found_in(lines) == ["count_0"]
        assert lines[-1] == NEXT + SURE
        assert (decision.asked, decision.cut, decision.sure) == (None, 1, True)
        lines, decision = await search(gateway, showing(certainty=Certainty(one=-1.0, two=9.0)), query="count")
        assert found_in(lines) == ["count_0", "count_1"]
        lines, decision = await search(gateway, showing(certainty=certainty), query="count", limit=7)
        assert len(found_in(lines)) == 7
        assert lines[-1] == NEXT
        assert (decision.asked, decision.cut, decision.sure) == (7, 7, True)


async def test_a_search_that_finds_one_thing_clearly_is_sure_of_it(tmp_path: Path) -> None:
    async with gateway_of(tmp_path, {"one": entry("echo")}, UNLIKE) as gateway:
        lines, decision = await search(gateway, showing(), query="send_mail")
        assert found_in(lines) == ["send_mail"]
        assert decision.sure
        assert lines[-1] == NEXT + SURE


async def test_an_unsure_ranking_says_so_and_shows_as_many_as_usual(tmp_path: Path) -> None:
    async with gateway_of(tmp_path, {"one": entry("echo")}, ALIKE) as gateway:
        lines, decision = await search(gateway, showing(), query="count")
        assert lines[-1] == NEXT + UNSURE
        assert len(found_in(lines)) == 5
        assert (decision.asked, decision.cut, decision.sure) == (None, 5, False)
        assert decision.entropy == pytest.approx(2.197, abs=0.001), "nine alike: ln 9"
        alone, _ = await search(gateway, showing(), query="count", limit=1)
        assert alone[-1] == NEXT


async def test_an_explored_order_swaps_two_of_what_is_shown_anyway(tmp_path: Path) -> None:
    async with gateway_of(tmp_path, {"one": entry("echo")}, ALIKE) as gateway:
        ranked = [f"one.count_{number}" for number in range(5)]
        orders: set[tuple[str, ...]] = set()
        for _ in range(60):
            lines, decision = await search(gateway, showing(explore=1.0), query="count")
            assert [tool for tool, _ in decision.candidates][:5] == ranked, "what is logged as ranked is not explored"
            assert sorted(decision.shown) == ranked
            assert [f"one.{name}" for name in found_in(lines)] == list(decision.shown)
            assert decision.explored
            assert decision.propensities is not None
            orders.add(decision.shown)
        assert len(orders) == 4
        assert any(order[0] == "one.count_1" for order in orders), "the first place is explored, too"


@pytest.mark.parametrize(
    ("explore", "level", "limit"), [(0.0, Level.FULL, 5), (1.0, Level.METADATA, 5), (1.0, Level.FULL, 1)]
)
async def test_nothing_is_explored_without_a_share_a_log_or_a_second_tool(
    tmp_path: Path, explore: float, level: Level, limit: int
) -> None:
    async with gateway_of(tmp_path, {"one": entry("echo")}, ALIKE) as gateway:
        _, decision = await search(gateway, showing(explore), level=level, query="count", limit=limit)
        assert decision.shown == tuple(tool for tool, _ in decision.candidates[:limit])
        assert (decision.explored, decision.propensities) == (False, None)


async def test_the_candidates_reach_below_what_is_shown_and_end_somewhere(tmp_path: Path) -> None:
    many = {"one": [f"count_{number}" for number in range(2 * CANDIDATES)]}
    async with gateway_of(tmp_path, {"one": entry("echo")}, many) as gateway:
        _, decision = await search(gateway, showing(), query="count")
        assert (len(decision.candidates), decision.cut) == (CANDIDATES, 5)


async def test_servers_are_named_in_the_order_of_their_use(tmp_path: Path) -> None:
    servers = {name: {**entry("echo"), "args": [name]} for name in ("a", "b", "c")}
    async with gateway_of(tmp_path, servers, {name: ["go"] for name in servers}) as gateway:
        how = showing()
        tool = SearchTools(gateway, how, LIMIT_S)
        assert tool.definition()["description"].endswith("Servers: a, b, c")
        how.prior.learn({"c": 3, "b": 3, "gone": 7})
        assert tool.definition()["description"].endswith("Servers: b, c, a")
