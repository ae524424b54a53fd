"""The HTTP side with real sockets: paths, modes, guards, health, both eras."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from mcp import Client, MCPError
from mcp import types as t
from mcp.client.streamable_http import streamable_http_client

from proxy.app import App, build
from proxy.endpoint.tokens import TokenStore
from proxy.errors import ConfigurationError
from proxy.sandbox.base import Backend
from proxy.servers.configfile import parse
from proxy.settings import Settings
from proxy.store.recorder import Outcome
from tests.fixtures.running import InProcessUvicorn, entry, modern_entry
from tests.proxy.endpoint.conftest import Steps

pytestmark = pytest.mark.anyio
ERAS = ["legacy", "auto"]
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
VALUE = {"value": {"big": 2**60 + 1, "text": "\u2028 Việt 😀", "deep": [[[{"x": None}]]], "😀": True}}
ACCEPT = {"accept": "application/json, text/event-stream"}


@asynccontextmanager
async def serving(
    folder: Path, servers: dict[str, Any], *, backend: Backend | None = None, **changed: Any
) -> AsyncGenerator[tuple[str, App, Steps]]:
    """The gateway on a loopback port of this process; yields its base URL."""
    settings = Settings(config=folder / "mcp.json", state_dir=folder / "state", cache_dir=folder / "cache", **changed)
    steps = Steps()
    configuration = parse({"mcpServers": servers}, os.environ)
    app = build(settings, os.environ, configuration=configuration, recorders=(steps,), backend=backend)
    listener = socket.create_server(("127.0.0.1", 0))
    server = InProcessUvicorn(uvicorn.Config(app.http, log_config=None, lifespan="on"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: server.serve(sockets=[listener]))
        with anyio.fail_after(20):
            await server.ready.wait()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", app, steps
        finally:
            server.should_exit = True


def texts(result: t.CallToolResult) -> str:
    return "\n".join(item.text for item in result.content if isinstance(item, t.TextContent))


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_search_mode_answers_at_both_spellings_of_the_path(tmp_path: Path, era: str, path: str) -> None:
    async with serving(tmp_path, {"tools": entry("echo")}) as (base, _, _), Client(base + path, mode=era) as client:
        with anyio.fail_after(20):
            result = await client.call_tool("call_tool", {"tool": "tools.echo", "arguments": {"text": "hi"}})
        assert texts(result) == "hi"


@pytest.mark.parametrize("era", ERAS)
async def test_one_server_is_passed_through_under_its_own_names(tmp_path: Path, era: str) -> None:
    async with serving(tmp_path, {"my.tools": entry("names")}) as (base, _, steps):
        async with Client(f"{base}/mcp/my.tools", mode=era) as client:
            with anyio.fail_after(20):
                names = [tool.name for tool in (await client.list_tools()).tools]
                assert {"calendar.update", "GET:/x", "工具"} <= set(names)
                await client.call_tool("GET:/x", {})
        assert (steps.last.mode, steps.last.server, steps.last.tool) == ("server", "my.tools", "GET:/x")


@pytest.mark.parametrize("era", ERAS)
async def test_direct_mode_shows_all_tools_prefixed(tmp_path: Path, era: str) -> None:
    servers = {"one": entry("echo"), "two": entry("echo")}
    async with serving(tmp_path, servers) as (base, app, steps):
        await app.gateway.pool.wait_for_first_listings(20)
        async with Client(f"{base}/mcp?mode=direct", mode=era) as client:
            with anyio.fail_after(20):
                names = {tool.name for tool in (await client.list_tools()).tools}
                assert {"one__echo", "two__echo"} <= names
                assert texts(await client.call_tool("two__echo", {"text": "hi"})) == "hi"
        assert (steps.last.mode, steps.last.server) == ("direct", "two")


async def test_a_denied_tool_is_refused_in_the_pass_through_modes_too(tmp_path: Path) -> None:
    servers = {"one": {**entry("echo"), "tools": {"deny": ["add"]}}}
    async with serving(tmp_path, servers) as (base, app, steps):
        await app.gateway.pool.wait_for_first_listings(20)
        for path, name in (("/mcp/one", "add"), ("/mcp?mode=direct", "one__add")):
            async with Client(base + path) as client:
                with anyio.fail_after(20):
                    assert name not in {tool.name for tool in (await client.list_tools()).tools}
                    result = await client.call_tool(name, {"a": 1, "b": 2})
                assert result.is_error
                assert "tools.deny" in texts(result)
                assert steps.last.outcome is Outcome.DENIED


@pytest.mark.parametrize("path", ["/mcp/fields", "/mcp?mode=direct", "/mcp"])
async def test_a_result_arrives_as_the_server_said_it(tmp_path: Path, path: str) -> None:
    async with serving(tmp_path, {"fields": entry("unknown_fields")}) as (base, app, _):
        await app.gateway.pool.wait_for_first_listings(20)
        tool = next(iter(app.gateway.catalog.tools.values()))
        call = {"name": tool.name, "arguments": VALUE}
        if path == "/mcp":
            call = {"name": "call_tool", "arguments": {"tool": tool.written, "arguments": VALUE}}
        elif path != "/mcp/fields":
            call["name"] = next(iter(app.gateway.catalog.exposed))
        through = await _raw_call(base + path, call)
    said = _said_directly(tool.name)
    assert through == said


async def _raw_call(url: str, call: dict[str, Any]) -> Any:
    """The result of a call as bytes said it, without any SDK in between."""
    async with httpx2.AsyncClient(headers=ACCEPT, timeout=20) as http:
        opened = await http.post(url, json=INITIALIZE)
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
        await http.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
        answer = await http.post(
            url, json={"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}, headers=session
        )
    # Not splitlines(): it would cut at the U+2028 that is being tested.
    data = [line.removeprefix("data: ") for line in answer.text.split("\r\n") if line.startswith("data: {")]
    return json.loads(data[-1])["result"]


def _said_directly(tool: str) -> Any:
    """The same call to the fixture server over its own stdin and stdout."""
    asked = [
        INITIALIZE,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": VALUE}},
    ]
    server = entry("unknown_fields")
    done = subprocess.run(
        [server["command"], *server["args"]],
        input="".join(json.dumps(message) + "\n" for message in asked).encode(),
        capture_output=True,
        timeout=20,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.split(b"\n") if line.strip()]
    return next(answer["result"] for answer in answers if answer.get("id") == 2)


async def test_an_unknown_server_is_told_before_a_session_is_opened(tmp_path: Path) -> None:
    async with serving(tmp_path, {"tools": entry("echo")}) as (base, _, _), httpx2.AsyncClient() as http:
        answer = await http.post(f"{base}/mcp/toolz", json=INITIALIZE, headers=ACCEPT)
        assert answer.status_code == 404
        assert "did you mean tools" in answer.json()["error"]["message"]


async def test_a_request_that_is_too_large_is_told_the_limit(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, {"tools": entry("echo")}, max_request_bytes=100_000) as (base, _, _),
        httpx2.AsyncClient() as http,
    ):
        answer = await http.post(f"{base}/mcp", content=b"x" * 200_000, headers=ACCEPT)
        assert answer.status_code == 413
        assert "100000 bytes" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://localhost:3000"}, 200),
    ],
)
async def test_host_and_origin_are_checked(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    async with serving(tmp_path, {"tools": entry("echo")}) as (base, _, _), httpx2.AsyncClient() as http:
        answer = await http.post(f"{base}/mcp", json=INITIALIZE, headers=ACCEPT | headers)
        assert answer.status_code == status


async def test_a_wrong_token_is_refused_even_on_loopback(tmp_path: Path) -> None:
    async with serving(tmp_path, {"tools": entry("echo")}) as (base, _, _), httpx2.AsyncClient() as http:
        answer = await http.post(f"{base}/mcp", json=INITIALIZE, headers=ACCEPT | {"authorization": "Bearer ta_no"})
        assert answer.status_code == 401


async def test_off_loopback_a_token_is_required_and_names_the_agent(tmp_path: Path) -> None:
    secret = TokenStore(tmp_path / "state" / "tokens.json").create("alice", None)
    async with serving(tmp_path, {"tools": entry("echo")}, host="0.0.0.0") as (base, _, steps):
        async with httpx2.AsyncClient() as http:
            assert (await http.post(f"{base}/mcp", json=INITIALIZE, headers=ACCEPT)).status_code == 401
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {secret}"}) as http,
            Client(streamable_http_client(f"{base}/mcp", http_client=http)) as client,
        ):
            await client.call_tool("list_servers", {})
        assert steps.last.episode.agent == "alice"


def test_off_loopback_without_any_token_the_gateway_does_not_start(tmp_path: Path) -> None:
    settings = Settings(config=tmp_path / "mcp.json", host="0.0.0.0", state_dir=tmp_path, cache_dir=tmp_path)
    with pytest.raises(ConfigurationError, match="toolatlas token create"):
        build(settings, {}, configuration=parse({"mcpServers": {}}, {}))


async def test_health_is_told_without_a_session(tmp_path: Path) -> None:
    servers = {"tools": entry("echo"), "broken": entry("exits")}
    async with serving(tmp_path, servers) as (base, app, _), httpx2.AsyncClient() as http:
        await app.gateway.pool.wait_for_first_listings(20)
        assert (await http.get(f"{base}/healthz")).json()["service"] == "toolatlas"
        ready = (await http.get(f"{base}/readyz")).json()
        assert ready["status"] == "ready"
        assert ready["servers"].get("ready") == 1


async def test_an_unknown_session_is_answered_404_so_that_clients_begin_anew(tmp_path: Path) -> None:
    async with serving(tmp_path, {"tools": entry("echo")}) as (base, _, _), httpx2.AsyncClient() as http:
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        answer = await http.post(f"{base}/mcp", json=ping, headers=ACCEPT | {"mcp-session-id": "gone"})
        assert answer.status_code == 404


async def test_the_first_answer_waits_for_no_server(tmp_path: Path) -> None:
    servers = {"slow": entry("slow_start", SECONDS="60"), "silent": entry("silent")}
    async with serving(tmp_path, servers, search_wait_s=0.2) as (base, _, _):
        with anyio.fail_after(5):
            async with Client(f"{base}/mcp") as client:
                assert "slow" in (client.instructions or "")
                found = texts(await client.call_tool("search_tools", {"query": "anything"}))
        assert "2 of 2 servers still starting" in found


@pytest.mark.parametrize("era", ERAS)
async def test_a_modern_and_a_legacy_server_serve_either_agent(tmp_path: Path, era: str) -> None:
    servers = {"old": entry("echo"), "new": modern_entry()}
    async with serving(tmp_path, servers) as (base, app, _):
        await app.gateway.pool.wait_for_first_listings(30)
        async with Client(f"{base}/mcp", mode=era) as client:
            with anyio.fail_after(30):
                for server in servers:
                    called = {"tool": f"{server}.echo", "arguments": {"text": server}}
                    assert texts(await client.call_tool("call_tool", called)) == server


async def test_an_unknown_tool_of_a_passed_through_server_is_a_protocol_error(tmp_path: Path) -> None:
    async with serving(tmp_path, {"tools": entry("echo")}) as (base, _, _), Client(f"{base}/mcp/tools") as client:
        with anyio.fail_after(20), pytest.raises(MCPError, match="did you mean echo") as refused:
            await client.call_tool("ecko", {})
        assert refused.value.error.code == t.INVALID_PARAMS


async def test_a_changed_configuration_is_taken_over_without_dropping_the_session(tmp_path: Path) -> None:
    async with serving(tmp_path, {"one": entry("echo")}) as (base, app, _):
        async with Client(f"{base}/mcp", mode="legacy") as client:
            with anyio.fail_after(30):
                pid = texts(await client.call_tool("call_tool", {"tool": "one.whoami", "arguments": {}}))
                both = parse({"mcpServers": {"one": entry("echo"), "two": entry("names")}}, os.environ)
                await app.gateway.apply(both)
                await app.gateway.pool.wait_for_first_listings(20)
                assert "two - " in texts(await client.call_tool("list_servers", {}))
                again = texts(await client.call_tool("call_tool", {"tool": "one.whoami", "arguments": {}}))
            assert again == pid


async def test_a_call_without_a_name_is_a_protocol_error(tmp_path: Path) -> None:
    async with serving(tmp_path, {"tools": entry("echo")}) as (base, _, _):
        with pytest.raises((KeyError, MCPError)):
            await _raw_call(f"{base}/mcp", {"arguments": {}})
