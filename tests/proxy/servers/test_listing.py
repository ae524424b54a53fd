"""A listing is complete where the server is in order, and says what is missing where it is not."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.catalog.records import Listing
from proxy.servers.listing import list_server
from tests.fixtures.running import Restartable, entry
from tests.proxy.servers.conftest import config, connected

pytestmark = pytest.mark.anyio


async def listing_of(entry: dict[str, Any]) -> Listing:
    async with connected(config(entry)) as connection:
        return await list_server(connection)


async def test_all_pages_are_read_once_and_in_order() -> None:
    listing = await listing_of(entry("paged"))
    assert [tool["name"] for tool in listing.tools] == [f"tool_{number}" for number in range(14)]
    assert listing.problems == ()


async def test_what_the_server_says_of_itself_is_kept() -> None:
    listing = await listing_of(entry("grows"))
    assert listing.protocol_version == "2025-11-25"
    assert listing.capabilities == {"tools": {"listChanged": True}}
    assert listing.server_info == {"name": "plain-grows", "version": "1.0"}
    assert listing.instructions == "Echoes text, adds numbers, and fails when it is told to."


async def test_a_modern_server_is_listed() -> None:
    async with Restartable() as server:
        listing = await listing_of(server.entry)
    assert listing.protocol_version == "2026-07-28"
    assert {"echo", "grow"} <= {tool["name"] for tool in listing.tools}


async def test_a_cursor_that_repeats_is_cut() -> None:
    listing = await listing_of(entry("cursor_loop"))
    assert [tool["name"] for tool in listing.tools] == ["echo"]
    assert any("repeats its cursor" in problem for problem in listing.problems)


async def test_ten_thousand_tools_are_listed() -> None:
    listing = await listing_of(entry("many"))
    assert len(listing.tools) == 10_000
    assert listing.problems == ()


async def test_a_schema_of_more_than_a_megabyte_arrives_whole() -> None:
    (wide,) = (await listing_of(entry("huge"))).tools
    assert len(wide["inputSchema"]["properties"]) == 7000


async def test_bad_tools_cost_only_themselves_and_are_named() -> None:
    listing = await listing_of(entry("bad_schema"))
    assert [tool["name"] for tool in listing.tools] == [
        *("fine", "list_schema", "empty_schema", "null_schema", "absent_schema", "untyped_output", "remote_reference"),
    ]
    assert listing.tools[0]["description"] == "The only good one."
    assert listing.tools[1]["inputSchema"] == []
    problems = "\n".join(listing.problems)
    for unusable in ("list_schema", "null_schema", "absent_schema"):
        assert f"'{unusable}' has no valid input schema" in problems
    assert "without a name" in problems
    assert "'fine' is listed twice" in problems
    assert len(listing.problems) == 5


async def test_names_are_kept_as_the_server_wrote_them() -> None:
    names = [tool["name"] for tool in (await listing_of(entry("names"))).tools]
    assert names[:6] == ["calendar.update", "GET:/x", "工具", "a-b", "a_b", "class"]
    assert len(names) == 8
