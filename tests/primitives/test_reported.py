"""Of what users report of gateways, that which belongs to no other part: headers of agents, and finding what is new."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest

from proxy.endpoint.tokens import TokenStore
from tests.primitives.agent import LIMIT_S, Agent, text_of
from tests.primitives.conftest import Place, StartPlace, Way, ways

pytestmark = pytest.mark.anyio


@ways(mode="direct")
async def test_a_server_sees_the_header_that_is_passed_on_of_each_user_and_nothing_else_of_them(
    start_place: StartPlace, tmp_path: Any, way: Way
) -> None:
    store = TokenStore(tmp_path / "state" / "tokens.json")
    users = {name: store.create(name, None) for name in ("alice", "bob")}
    async with start_place({way.name: {"forward_headers": ["X-User-Token"]}}) as place:

        async def see(name: str) -> None:
            own = {"x-user-token": f"token of {name}", "x-other": f"secret of {name}", "cookie": f"cookie of {name}"}
            async with place.agent(way, token=users[name], headers=own) as agent:
                for _ in range(3):
                    seen = await agent.json("headers")
                    assert seen["x-user-token"] == f"token of {name}"
                    rest = " ".join(value for key, value in seen.items() if key != "x-user-token")
                    assert not any(secret in rest for secret in (*users.values(), "secret of", "cookie of", "token of"))

        async with anyio.create_task_group() as tasks:
            for name in users:
                tasks.start_soon(see, name)


async def search(agent: Agent, query: str) -> str:
    return text_of(await agent.request("tools/call", {"name": "search_tools", "arguments": {"query": query}}))


@ways(mode="search")
async def test_a_tool_that_a_server_adds_is_found_in_the_same_session(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        newest = f"grown_{shared.behind(way).grown['tools']}"
        assert f"{way.name}.{newest}" not in await search(agent, newest)
        await agent.call("grow", kind="tools")
        with anyio.fail_after(LIMIT_S):
            while f"{way.name}.{newest}" not in await search(agent, newest):
                await anyio.sleep(0.02)
        assert await agent.text(newest) == f"{newest} works"


@ways(mode="search", server="2026")
async def test_a_search_without_hits_says_how_to_go_on(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        found = await search(agent, "zzzqqq")
        assert "Nothing found" in found
        assert "list_servers" in found


@ways(mode="search", server="2026")
async def test_every_name_that_is_printed_is_accepted_as_it_is(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent:
        listed = await agent.request("tools/call", {"name": "list_tools", "arguments": {"server": way.name}})
        printed = set(re.findall(r"\bs202[56]\.\w+", await search(agent, "ask the user") + text_of(listed)))
        assert {f"{way.name}.echo", "s2025.ask_both"} <= printed
        described = await agent.request(
            "tools/call", {"name": "describe_tools", "arguments": {"tools": sorted(printed)[:20]}}
        )
        assert described.get("isError") is not True
        for name in sorted(printed)[:20]:
            assert f"# {name}" in text_of(described)
        for name in (f"{way.name}.echo", "s2025.echo"):
            params = {"name": "call_tool", "arguments": {"tool": name, "arguments": {"text": "hi"}}}
            assert text_of(await agent.request("tools/call", params)) == "hi"
