"""An agent whose token names servers is told nothing of the others either: no change, and no parameter of theirs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from starlette.types import Receive, Scope, Send

from proxy.endpoint.authentication import BearerGate
from proxy.endpoint.shown_schemas import ServedAt, shown_schema
from proxy.endpoint.tokens import TokenStore
from tests.fixtures.running import entry
from tests.proxy.endpoint.conftest import StartGateway
from tests.proxy.endpoint.test_http import ACCEPT, serving
from tests.proxy.endpoint.test_token_servers import agent, ask

pytestmark = pytest.mark.anyio
GROWING = {"open": entry("grows"), "closed": entry("grows")}
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
LISTEN = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "subscriptions/listen",
    "params": {"notifications": {"toolsListChanged": True}, "_meta": META},
}


class Ear:
    """Keeps the changes that an open stream tells of."""

    def __init__(self) -> None:
        self.heard = 0
        self.open = anyio.Event()

    async def listen(self, url: str, token: str) -> None:
        headers = {
            **ACCEPT,
            "authorization": f"Bearer {token}",
            "mcp-protocol-version": VERSION,
            "mcp-method": "subscriptions/listen",
            # With the id of some session, an address is not looked at before the request is.
            "mcp-session-id": "any",
        }
        async with (
            httpx2.AsyncClient(timeout=20) as http,
            http.stream("POST", url, headers=headers, json=LISTEN) as answer,
        ):
            assert answer.status_code == 200
            async for line in answer.aiter_lines():
                if line.startswith("data:"):
                    method = json.loads(line.removeprefix("data:")).get("method")
                    self.heard += method == "notifications/tools/list_changed"
                    self.open.set()

    async def until(self, heard: int) -> None:
        with anyio.fail_after(20):
            while self.heard < heard:
                await anyio.sleep(0.01)


@asynccontextmanager
async def ears(*places: tuple[str, str]) -> AsyncIterator[list[Ear]]:
    listening = [Ear() for _ in places]
    async with anyio.create_task_group() as tasks:
        for ear, (url, token) in zip(listening, places, strict=True):
            tasks.start_soon(ear.listen, url, token)
        with anyio.fail_after(20):
            for ear in listening:
                await ear.open.wait()
        yield listening
        tasks.cancel_scope.cancel()


async def test_changes_of_other_servers_are_not_told(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "state" / "tokens.json")
    whole, narrow = tokens.create("whole", None), tokens.create("narrow", None, servers=("open",))
    async with serving(tmp_path, GROWING, public_url="https://tools.example.com") as (base, app, _):
        await app.gateway.pool.wait_for_first_listings(20)
        places = [
            (f"{base}/mcp?mode=direct", whole),
            (f"{base}/mcp?mode=direct", narrow),
            (f"{base}/mcp/closed", whole),
            (f"{base}/mcp/closed", narrow),
        ]
        async with ears(*places) as (all_of_it, some_of_it, closed, shut), agent(f"{base}/mcp", whole) as growing:
            await ask(growing, "call_tool", tool="closed.grow")
            await all_of_it.until(1)
            await closed.until(1)
            await ask(growing, "call_tool", tool="open.grow")
            await all_of_it.until(2)
            await some_of_it.until(1)
            assert (some_of_it.heard, shut.heard) == (1, 0)


async def test_no_parameter_of_other_servers_shows_in_how_headers_are_checked(
    start_gateway: StartGateway, tmp_path: Path
) -> None:
    tokens = TokenStore(tmp_path / "state" / "tokens.json")
    narrow = tokens.create("narrow", None, servers=("open",))
    async with start_gateway({"open": entry("echo"), "closed": entry("echo")}) as running:
        seen: list[dict[str, Any] | None] = []

        async def looking(scope: Scope, receive: Receive, send: Send) -> None:
            for name in ("open__add", "closed__add") if "server" not in scope["path_params"] else ("add",):
                seen.append(shown_schema(running.app.gateway, name))

        gate = BearerGate(ServedAt(looking), tokens, required=True)
        for server in ({}, {"server": "open"}, {"server": "closed"}):
            headers = [(b"authorization", f"Bearer {narrow}".encode())]
            scope = {"type": "http", "method": "POST", "path_params": server, "headers": headers}
            await gate(scope, _never, _never)
    assert [schema is not None for schema in seen] == [True, False, True, False]


async def _never(*_: Any) -> Any:
    raise AssertionError("nothing is read or answered here")


async def test_a_search_counts_no_other_server_that_starts(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "state" / "tokens.json")
    whole, narrow = tokens.create("whole", None), tokens.create("narrow", None, servers=("open",))
    servers = {"open": entry("echo"), "closed": entry("slow_start", SECONDS="15")}
    async with serving(tmp_path, servers, public_url="https://tools.example.com", search_wait_s=0.1) as (base, app, _):
        with anyio.fail_after(20):
            while app.gateway.pool.starting > 1:
                await anyio.sleep(0.01)
        async with agent(f"{base}/mcp", whole) as client:
            assert "1 of 2 servers still starting" in await ask(client, "search_tools", query="echo")
        async with agent(f"{base}/mcp", narrow) as client:
            assert "still starting" not in await ask(client, "search_tools", query="echo")
