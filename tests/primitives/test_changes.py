"""What changes at a server is told to the agents that see it: on the session's stream, or on the one they asked for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import psutil
import pytest
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPError

from proxy.endpoint import changes
from proxy.servers import relisting, supervisor
from tests.fixtures.primitives import Primitives
from tests.fixtures.running import LOOPBACK, free_port
from tests.primitives.agent import LIMIT_S, Agent, connect, until
from tests.primitives.conftest import Place, StartPlace, Way, piped, serving, ways

pytestmark = pytest.mark.anyio
KINDS = ("tools", "resources", "prompts")
RESOURCE = "test://static"


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long the gateway waits for further notices before it acts on one is not what is shown here."""
    monkeypatch.setattr(changes, "DEBOUNCE_S", 0.02)
    monkeypatch.setattr(relisting, "DEBOUNCE_S", 0.02)


@asynccontextmanager
async def following(agent: Agent, *, kind: str | None = None, uri: str | None = None) -> AsyncGenerator[None]:
    """The agent is told of changes, as its era has it; what it is told is in `agent.told`."""
    if not agent.modern:
        if uri is not None:
            await agent.request("resources/subscribe", {"uri": uri})
        yield
        return
    wanted: dict[str, Any] = {} if kind is None else {f"{kind}_list_changed": True}
    if uri is not None:
        wanted["resource_subscriptions"] = [uri]
    async with listen(agent.session, **wanted):
        yield


def plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Without the name of the stream, which the newer era puts there."""
    return {key: value for key, value in params.items() if key != "_meta"}


@ways()
@pytest.mark.parametrize("kind", KINDS)
async def test_a_list_that_changed_is_told_and_can_be_listed(shared: Place, way: Way, kind: str) -> None:
    method = f"notifications/{kind}/list_changed"
    async with shared.agent(way) as agent, shared.agent(way) as other:
        async with following(agent, kind=kind):
            await other.call("grow", kind=kind)
            if (way.mode, kind) != ("search", "tools"):
                await until(lambda: bool(agent.of(method)), "the change is told")
            newest = f"grown_{shared.behind(way).grown[kind] - 1}"
            await until_listed(agent, kind, newest)
        if (way.mode, kind) == ("search", "tools"):
            # The seven tools that this agent sees are those that it saw before.
            assert agent.of(method) == []


async def until_listed(agent: Agent, kind: str, newest: str) -> None:
    """The newest tool can be called, the newest prompt or resource is in the list."""
    with anyio.fail_after(LIMIT_S):
        while not await is_listed(agent, kind, newest):
            await anyio.sleep(0.02)


async def is_listed(agent: Agent, kind: str, newest: str) -> bool:
    if kind == "tools":
        try:
            return (await agent.call(newest))["isError"] is False
        except MCPError:
            return False
    listed = (await agent.request(f"{kind}/list", {}))[kind]
    if kind == "resources":
        return agent.uri(newest.replace("grown_", "test://grown/")) in [each["uri"] for each in listed]
    return agent.prompt(newest) in [each["name"] for each in listed]


@ways()
async def test_a_resource_that_is_followed_is_told(shared: Place, way: Way) -> None:
    async with shared.agent(way) as agent, shared.agent(way) as other:
        async with following(agent, uri=agent.uri(RESOURCE)):
            told = await touched(shared, way, agent, other)
        assert plain(told) == {"uri": agent.uri(RESOURCE)}
        assert other.of("notifications/resources/updated") == []


async def touched(place: Place, way: Way, agent: Agent, other: Agent) -> dict[str, Any]:
    """What an agent that follows the resource is told when it changes; a subscription may take a moment to be there."""
    await until(lambda: place.behind(way).follows(RESOURCE), "the gateway follows the resource")
    await other.call("touch", uri=RESOURCE)
    await until(lambda: bool(agent.of("notifications/resources/updated")), "the change is told")
    return agent.of("notifications/resources/updated")[0]


@ways(mode="direct")
async def test_a_resource_that_is_not_followed_any_more_is_left_alone(start_place: StartPlace, way: Way) -> None:
    async with start_place({way.name: {}}) as place, place.agent(way) as agent, place.agent(way) as other:
        async with following(agent, uri=agent.uri(RESOURCE)):
            await touched(place, way, agent, other)
        if not agent.modern:
            await agent.request("resources/unsubscribe", {"uri": agent.uri(RESOURCE)})
        await until(lambda: not place.behind(way).follows(RESOURCE), "the gateway follows it no more")


@ways(mode="search")
async def test_two_agents_follow_one_resource_and_one_leaves(start_place: StartPlace, way: Way) -> None:
    async with start_place({way.name: {}}) as place, place.agent(way) as agent:
        async with following(agent, uri=agent.uri(RESOURCE)):
            async with place.agent(way) as other, following(other, uri=other.uri(RESOURCE)):
                await touched(place, way, other, other)
            told = len(agent.of("notifications/resources/updated"))
            async with place.agent(way) as third:
                await third.call("touch", uri=RESOURCE)
            await until(lambda: len(agent.of("notifications/resources/updated")) > told, "it is told again")


class Restarted:
    """A server over HTTP whose second run knows nothing of its first."""

    def __init__(self, era: str) -> None:
        self._port = free_port()
        self.entry = {"type": "http", "url": f"http://{LOOPBACK}:{self._port}/mcp"}
        self.first, self.second = Primitives(era), Primitives(era)
        self._running = AsyncExitStack()

    async def __aenter__(self) -> Restarted:
        await self._running.enter_async_context(serving(self.first.asgi_app(), self._port))
        return self

    async def restart(self) -> None:
        await self._running.aclose()
        await self._running.enter_async_context(serving(self.second.asgi_app(), self._port))

    async def __aexit__(self, *_: object) -> None:
        await self._running.aclose()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the gateway looks after once in a minute, it looks after at once."""
    monkeypatch.setattr(supervisor, "PING_AFTER_S", 0.2)


@ways(mode="server")
@pytest.mark.usefixtures("impatient")
async def test_a_subscription_outlives_a_restart_of_the_server(start_place: StartPlace, way: Way) -> None:
    async with Restarted(way.server) as server, start_place({way.name: server.entry}) as place:
        async with place.agent(way) as agent, following(agent, uri=agent.uri(RESOURCE)):
            await until(lambda: server.first.follows(RESOURCE), "the gateway follows the resource")
            await server.restart()
            # Nobody calls anything; what the server says next must be heard all the same.
            await until(lambda: server.second.follows(RESOURCE), "the gateway follows it again")
            heard = len(agent.of("notifications/resources/updated"))
            async with place.agent(way) as other:
                await other.call("touch", uri=RESOURCE)
            await until(lambda: len(agent.of("notifications/resources/updated")) > heard, "the change is told")


@ways(mode="direct")
@pytest.mark.usefixtures("impatient")
async def test_a_server_that_restarts_with_other_tools_is_listed_anew(start_place: StartPlace, way: Way) -> None:
    async with Restarted(way.server) as server, start_place({way.name: server.entry}) as place:
        server.second.grown["tools"] = 1
        async with place.agent(way) as agent:
            await agent.call("echo", text="before")
            await server.restart()
            await agent.call("echo", text="after")
            await until_listed(agent, "tools", "grown_0")


@ways(mode="search")
async def test_a_subscription_outlives_the_death_of_the_servers_process(start_place: StartPlace, way: Way) -> None:
    name = f"p{way.server}"
    async with start_place({name: piped(way.server)}) as place:
        async with connect(place.base, way.agent, way.mode, name) as agent:
            async with following(agent, uri=agent.uri(RESOURCE)):
                await agent.call("echo", text="it runs")
                (process,) = servers_of_gateway()
                process.kill()
                told: list[Any] = []
                while not told:
                    # A call may meet the death of the process, and says so.
                    await agent.call("touch", uri=RESOURCE)
                    told = agent.of("notifications/resources/updated")


def servers_of_gateway() -> list[psutil.Process]:
    return [each for each in psutil.Process().children(recursive=True) if "primitives.py" in " ".join(each.cmdline())]
