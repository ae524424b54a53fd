"""What goes through the gateway arrives as it was sent, or fails with a clear error: results, arguments, tool objects.

Everything here runs through the real application, agents of both eras before servers of both, over bytes; servers are
processes on stdio and real HTTP. Where JSON has no exact form for something, one call fails and nothing else does.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.app import App, build
from proxy.servers.configfile import parse
from proxy.settings import Settings
from tests.fixtures import generated
from tests.fixtures.mirror import asgi_app
from tests.fixtures.raw_agent import LEGACY, MODERN, Answer, RawAgent, raw_agent
from tests.fixtures.running import InProcessUvicorn

pytestmark = pytest.mark.anyio

MIRROR = Path(__file__).parents[1] / "fixtures" / "mirror.py"
AGENTS = (LEGACY, MODERN)
MODES = ("server", "direct", "search")
OVER_STDIO = ("legacy_stdio", "modern_stdio")
OVER_HTTP = ("legacy_json", "legacy_stream", "modern_json", "modern_stream")
RESERVED = "io.modelcontextprotocol/"

WAYS = (
    *((era, mode, server) for era in AGENTS for mode in MODES for server in OVER_STDIO),
    *zip(AGENTS * 2, ("server", "direct", "search", "server"), OVER_HTTP, strict=True),
)
"""Eras of the agent, modes and servers: all on stdio, and each kind of HTTP server once."""

each_agent = pytest.mark.parametrize("era", AGENTS)
each_way = pytest.mark.parametrize(("era", "mode", "server"), WAYS)
some = settings(deadline=None, max_examples=10, suppress_health_check=[HealthCheck.too_slow])


def stdio_entry(era: str, *files: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", str(MIRROR), era, *files], "timeout_s": 20}


@asynccontextmanager
async def http_entry(era: str, *, streams: bool) -> AsyncIterator[dict[str, Any]]:
    """The mirror over HTTP in this process; its entry in the configuration."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = InProcessUvicorn(uvicorn.Config(asgi_app(era, streams=streams), log_config=None, lifespan="off"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: server.serve(sockets=[listener]))
        with anyio.fail_after(20):
            await server.ready.wait()
        yield {"url": f"http://127.0.0.1:{listener.getsockname()[1]}/", "type": "http", "timeout_s": 20}
        server.should_exit = True


@asynccontextmanager
async def gateway(folder: Path, servers: Mapping[str, Any]) -> AsyncIterator[App]:
    """A running gateway whose result limit nothing here reaches."""
    options = Settings(
        config=folder / "mcp.json", state_dir=folder / "state", cache_dir=folder / "cache", result_limit=50_000_000
    )
    configuration = parse({"mcpServers": servers}, os.environ)
    app = build(options, os.environ, configuration=configuration, recorders=())
    async with app.http.router.lifespan_context(app.http):
        with anyio.fail_after(30):
            await app.gateway.pool.wait_for_first_listings(30)
        yield app


class Agents:
    """One agent in each era at each address of one gateway."""

    def __init__(self, app: App, stack: AsyncExitStack) -> None:
        self._app = app
        self._stack = stack
        self._open: dict[tuple[str, str], RawAgent] = {}

    async def at(self, path: str, era: str) -> RawAgent:
        if (path, era) not in self._open:
            self._open[path, era] = await self._stack.enter_async_context(raw_agent(self._app.http, path, era))
        return self._open[path, era]

    async def call(self, era: str, mode: str, server: str, tool: str, arguments: Any) -> Answer:
        """Call a tool of the mirror as an agent in that mode does."""
        if mode == "search":
            agent = await self.at("/mcp", era)
            return await agent.call("call_tool", {"tool": f"{server}.{tool}", "arguments": arguments})
        if mode == "direct":
            return await (await self.at("/mcp?mode=direct", era)).call(f"{server}__{tool}", arguments)
        return await (await self.at(f"/mcp/{server}", era)).call(tool, arguments)

    async def send(self, era: str, mode: str, server: str, text: str) -> Answer:
        """Call the mirror's `took` with arguments that are written as this text."""
        if mode == "search":
            arguments = f'{{"tool":"{server}.took","arguments":{text}}}'
            name, path = "call_tool", "/mcp"
        else:
            arguments = text
            name = f"{server}__took" if mode == "direct" else "took"
            path = "/mcp?mode=direct" if mode == "direct" else f"/mcp/{server}"
        params = f'{{"name":"{name}","arguments":{arguments}}}'
        return await (await self.at(path, era)).send("tools/call", params, name)


@pytest.fixture(scope="module")
async def agents(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Agents]:
    async with AsyncExitStack() as stack:
        entries = {name: stdio_entry(name.partition("_")[0]) for name in OVER_STDIO}
        for name in OVER_HTTP:
            era, _, form = name.partition("_")
            entries[name] = await stack.enter_async_context(http_entry(era, streams=form == "stream"))
        app = await stack.enter_async_context(gateway(tmp_path_factory.mktemp("gateway"), entries))
        yield Agents(app, stack)


def same(one: Any, other: Any) -> bool:
    """Equal as JSON, in which 1, 1.0 and true are three things."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def own(answer: Answer, mode: str, era: str) -> Any:
    """A result without what the era and the gateway's tasks add to it, which is documented."""
    result = dict(answer.result)
    if era == MODERN:
        assert result.pop("resultType") == "complete"
    if mode == "search" and era == MODERN:
        meta = dict(result["_meta"])
        del meta["toolatlas/task_id"]
        result["_meta"] = meta
    return result


def as_in(sent: dict[str, Any], mode: str, era: str) -> dict[str, Any]:
    return {"_meta": {}, **sent} if mode == "search" and era == MODERN else sent


@each_way
@some
@given(sent=generated.results)
async def test_a_result_arrives_as_the_server_sent_it(
    agents: Agents, era: str, mode: str, server: str, sent: dict[str, Any]
) -> None:
    # It travels as an argument first, so this holds for arguments of any shape as well.
    answer = await agents.call(era, mode, server, "give", {"result": sent})
    assert same(own(answer, mode, era), as_in(sent, mode, era))


@each_way
@some
@given(arguments=generated.objects)
async def test_arguments_reach_the_server_as_the_agent_sent_them(
    agents: Agents, era: str, mode: str, server: str, arguments: dict[str, Any]
) -> None:
    sent = {"value": arguments, "other": None}
    answer = await agents.call(era, mode, server, "took", sent)
    assert same(json.loads(answer.result["content"][0]["text"])["arguments"], sent)


@each_agent
@pytest.mark.parametrize("mode", ["server", "direct"])
@pytest.mark.parametrize("server", OVER_STDIO)
async def test_further_parameters_of_a_call_reach_the_server(agents: Agents, era: str, mode: str, server: str) -> None:
    agent = await agents.at(f"/mcp/{server}" if mode == "server" else "/mcp?mode=direct", era)
    more = {"x-vendor": [9007199254740993], "_meta": {"vendor.example/trace": {"😀": 2**70}}}
    answer = await agent.call("took" if mode == "server" else f"{server}__took", {}, **more)
    took = json.loads(answer.result["content"][0]["text"])
    assert took["x-vendor"] == more["x-vendor"]
    meta = {key: value for key, value in took["_meta"].items() if not key.startswith(RESERVED)}
    assert meta == more["_meta"]


@settings(deadline=None, max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(tools=generated.tool_lists, server_era=st.sampled_from(("legacy", "modern")))
async def test_valid_tool_objects_are_passed_through_as_the_server_sent_them(
    tools: list[dict[str, Any]], server_era: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tools.json").write_text(json.dumps(tools), "utf-8")
        entry = stdio_entry(server_era, str(folder / "tools.json"))
        async with gateway(folder, {"srv": entry}) as app:
            for era in AGENTS:
                async with raw_agent(app.http, "/mcp/srv", era) as agent:
                    assert same((await agent.request("tools/list", {})).result["tools"], tools)


CASES = {
    "19a structured only": {"content": [], "structuredContent": {"celsius": 21.5}},
    "19b not as its schema says": {"content": [], "structuredContent": {"celsius": "warm", "more": None}},
    "19c isError beside structured": {"content": [], "structuredContent": {"why": 1}, "isError": True},
    "19d text only": {"content": [{"type": "text", "text": "21.5"}]},
    "23 beyond a double": {"content": [], "v": [9007199254740993, -9007199254740993, 2**200]},
    "23 line separators": {"content": [{"type": "text", "text": "a\u2028b\u2029c\x85d"}]},
    "23 Vietnamese": {"content": [{"type": "text", "text": "Đường phố Hà Nội"}], "Tiếng": "Việt"},
    "23 emoji keys": {"content": [], "👩\u200d👧": {"😀": True}},
    "NUL": {"content": [{"type": "text", "text": "a\0b"}], "\0": "\0"},
    "180 levels": {"content": [], "v": generated.nested(180)},
    "no content at all": {"structuredContent": {"a": 1}},
    "null everywhere": {"content": [], "structuredContent": None, "isError": False, "x": None},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@each_way
async def test_a_known_hard_case_arrives_exactly(
    agents: Agents, era: str, mode: str, server: str, case: dict[str, Any]
) -> None:
    answer = await agents.call(era, mode, server, "give", {"result": case})
    assert same(own(answer, mode, era), as_in(case, mode, era))


@each_agent
@pytest.mark.parametrize("mode", MODES)
async def test_a_meta_that_is_no_object_is_the_servers_matter(agents: Agents, era: str, mode: str) -> None:
    sent = {"content": [{"type": "text", "text": "fine"}], "_meta": [1]}
    answer = await agents.call(era, mode, "legacy_stdio", "give", {"result": sent})
    assert answer.result["content"] == sent["content"]


UNREADABLE = {
    "number beyond a double": '{"content":[],"v":1e400}',
    "NaN": '{"content":[],"v":NaN}',
    "infinity": '{"content":[],"v":-Infinity}',
    "lone surrogate": '{"content":[],"v":"\\ud800"}',
    "10,000 levels": f'{{"content":[],"v":{"[" * 10_000}{"]" * 10_000}}}',
    "300 levels": f'{{"content":[],"v":{"[" * 300}{"]" * 300}}}',
    "5,000 digits": f'{{"content":[],"v":{"1" * 5_000}}}',
    "no JSON": '{"content":[],}',
    "null for a result": "null",
    "a list for a result": "[1]",
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE.keys())
@each_way
async def test_an_answer_that_cannot_be_exact_is_a_clear_error_and_the_next_call_works(
    agents: Agents, era: str, mode: str, server: str, text: str
) -> None:
    answer = await agents.call(era, mode, server, "write", {"text": text})
    assert "cannot be handed on" in answer.error or "Failed to parse" in answer.error
    assert (await agents.call(era, mode, server, "give", {"result": {"content": []}})).result["content"] == []


@each_agent
@pytest.mark.parametrize("server", OVER_STDIO)
async def test_an_answer_in_another_encoding_is_a_clear_error(agents: Agents, era: str, server: str) -> None:
    text = '{"content":[{"type":"text","text":"café"}]}'
    answer = await agents.call(era, "direct", server, "write", {"text": text, "encoding": "latin-1"})
    assert "cannot be handed on" in answer.error


DEEP = "[" * 5_000 + "]" * 5_000


@pytest.mark.parametrize(
    "line",
    [
        f'{{"jsonrpc":"2.0","id":%s,"result":{{"v":{DEEP}}}}}',
        f'{{"id": %s, "jsonrpc": "2.0", "result": {{"v": {DEEP}}}}}',
        f'{{"result":{{"v":{DEEP},"id":1}},"jsonrpc":"2.0","id":%s}}',
        f'{{"jsonrpc":"2.0","result":{{"v":{DEEP}}},"id":%s}}',
    ],
    ids=["id before", "id first", "id last", "id at the end"],
)
async def test_the_call_that_a_too_deep_answer_belongs_to_is_found(agents: Agents, line: str) -> None:
    answer = await agents.call(LEGACY, "direct", "legacy_stdio", "line", {"text": line})
    assert "recursion limit" in answer.error


@pytest.mark.parametrize(
    "noise",
    [
        '{"level":"info","id":%s}',
        '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","te',
        "[1, %s]",
        "log: {'id': %s}",
        '{"jsonrpc":"2.0","id":%s,"method":"x","params":[}',
    ],
)
async def test_a_line_that_is_no_answer_does_not_fail_a_call(agents: Agents, noise: str) -> None:
    line = noise + '\n{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}'
    answer = await agents.call(LEGACY, "direct", "legacy_stdio", "line", {"text": line})
    assert answer.result["content"] == []


UNSENDABLE = {
    "number beyond a double": '{"v":1e400}',
    "NaN": '{"v":NaN}',
    "lone surrogate": '{"v":"\\ud800"}',
    "surrogate key": '{"\\udfff":1}',
    "300 levels": f'{{"v":{"[" * 300}{"]" * 300}}}',
    "10,000 levels": f'{{"v":{"[" * 10_000}{"]" * 10_000}}}',
    "5,000 digits": f'{{"v":{"1" * 5_000}}}',
}


@pytest.mark.parametrize("text", UNSENDABLE.values(), ids=UNSENDABLE.keys())
@each_way
async def test_arguments_that_cannot_be_exact_are_refused_and_the_next_call_works(
    agents: Agents, era: str, mode: str, server: str, text: str
) -> None:
    answer = await agents.send(era, mode, server, text)
    assert "Parse error" in answer.error or "cannot be sent" in answer.error
    assert (await agents.call(era, mode, server, "give", {"result": {"content": []}})).result["content"] == []


async def test_one_agents_bad_arguments_do_not_hurt_another_agents_call(agents: Agents) -> None:
    answers: list[Answer] = []

    async def good() -> None:
        answers.append(await agents.call(LEGACY, "direct", "legacy_stdio", "give", {"result": {"content": []}}))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(good)
            tasks.start_soon(agents.send, MODERN, "server", "legacy_stdio", '{"v":"\\ud800"}')
    assert [answer.result["content"] for answer in answers] == [[]] * 5
