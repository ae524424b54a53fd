"""A cancelled call beside a running one, and a call that takes far longer than its limit but shows that it works."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client

from tests.fixtures.running import Restartable, entry
from tests.lifecycle.conftest import ACCEPT, ERAS, LIMIT_S, StartGateway, text_of

pytestmark = pytest.mark.anyio

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"


@asynccontextmanager
async def server_of(kind: str) -> AsyncGenerator[dict[str, Any]]:
    """The entry of a server; each obeys a cancellation only under the id that the request had for it."""
    if kind == "stdio":
        yield entry("echo")
        return
    async with Restartable(legacy_only=kind == "http with sessions") as server:
        yield server.entry


WAYS_AND_KINDS = [
    ("call_tool", "stdio"),
    ("call_tool", "http with sessions"),
    ("call_tool", "http without sessions"),
    ("direct", "stdio"),
    ("server", "stdio"),
    ("server", "http without sessions"),
]


@pytest.mark.parametrize(("way", "kind"), WAYS_AND_KINDS)
@ERAS
async def test_a_cancelled_call_reaches_its_server_and_leaves_its_sibling_alone(
    gateway: StartGateway, kind: str, way: str, era: str
) -> None:
    paths = {"call_tool": "", "direct": "?mode=direct", "server": "/srv"}
    names = {"call_tool": "call_tool", "direct": "srv__{}", "server": "{}"}

    async with server_of(kind) as server, gateway({"srv": server}) as running:
        async with Client(running.url + paths[way], mode=era) as client:
            # Else it would ask for the tools in the middle.
            await client.list_tools()

            async def call(tool: str, begun: anyio.Event | None = None, **arguments: Any) -> str:
                async def note(progress: float, total: float | None, message: str | None) -> None:
                    assert begun is not None
                    begun.set()

                wrapped = {"tool": f"srv.{tool}", "arguments": arguments} if way == "call_tool" else arguments
                return text_of(
                    await client.call_tool(
                        names[way].format(tool), wrapped, progress_callback=note if begun is not None else None
                    )
                )

            assert await call("counter") == "1"
            to_cancel, doomed, sibling = anyio.CancelScope(), anyio.Event(), anyio.Event()
            slept: list[str] = []

            async def cancelled_call() -> None:
                with to_cancel:
                    await call("slow", doomed, seconds=600)
                    raise AssertionError("it was not cancelled")

            async def sibling_call() -> None:
                slept.append(await call("slow", sibling, seconds=0.5))

            with anyio.fail_after(LIMIT_S):
                async with anyio.create_task_group() as calling:
                    calling.start_soon(cancelled_call)
                    calling.start_soon(sibling_call)
                    await doomed.wait()
                    await sibling.wait()
                    to_cancel.cancel()
                    while await call("cancellations") != "1":
                        await anyio.sleep(0.02)
            assert slept == ["slept 0.5 s"]
            # The same connection, the same process: nobody was evicted.
            assert await call("counter") == "2"
            assert await call("cancellations") == "1"


@asynccontextmanager
async def asking(url: str, era: str) -> AsyncGenerator[Any]:
    """Sends a call with a progress token and yields all messages of its answer, as they are on the wire."""
    headers = dict(ACCEPT)
    meta: dict[str, Any] = {"progressToken": "mine-7"}
    async with httpx2.AsyncClient(timeout=LIMIT_S) as http:
        if era == "legacy":
            about = {"name": "test", "version": "1"}
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about}
            answer = await http.post(
                url, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}, headers=headers
            )
            headers |= {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
            await http.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
        else:
            headers |= {"mcp-protocol-version": MODERN, "mcp-method": "tools/call"}
            about = {"name": "test", "version": "1"}
            meta |= {f"{META}protocolVersion": MODERN, f"{META}clientInfo": about, f"{META}clientCapabilities": {}}

        async def ask(name: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
            params = {"name": name, "arguments": arguments, "_meta": meta}
            body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
            named = {**headers, "mcp-name": name} if era != "legacy" else headers
            answer = await http.post(url, json=body, headers=named)
            assert answer.status_code == 200, answer.text
            if answer.headers["content-type"] == "application/json":
                return [answer.json()]
            return [json.loads(line[5:]) for line in answer.text.splitlines() if line.startswith("data:")]

        yield ask


async def test_progress_carries_a_call_over_its_limit_under_the_callers_own_token(gateway: StartGateway) -> None:
    # Ten notices, and a limit that is longer than the time between two of them but shorter than all.
    seconds, answers = 4.0, dict[tuple[str, str], list[dict[str, Any]]]()
    async with gateway({"srv": entry("echo") | {"timeout_s": 2}}) as running:

        async def call(way: str, era: str) -> None:
            async with asking(running.url + ("/srv" if way == "server" else ""), era) as ask:
                arguments: dict[str, Any] = {"seconds": seconds}
                if way == "call_tool":
                    answers[way, era] = await ask("call_tool", {"tool": "srv.slow", "arguments": arguments})
                else:
                    answers[way, era] = await ask("slow", arguments)

        async with anyio.create_task_group() as calls:
            for way in ("call_tool", "server"):
                for era in ("legacy", "auto"):
                    calls.start_soon(call, way, era)
    assert len(answers) == 4
    for *notices, answer in answers.values():
        assert answer["result"]["content"][0]["text"] == f"slept {seconds} s"
        progress = [each["params"] for each in notices if each["method"] == "notifications/progress"]
        # Each agent chose the same token; none heard another's progress.
        assert {each["progressToken"] for each in progress} == {"mine-7"}
        assert [each["progress"] for each in progress] == list(range(1, 11))


async def test_a_call_without_a_word_ends_at_its_limit(gateway: StartGateway) -> None:
    async with gateway({"srv": entry("echo") | {"timeout_s": 0.5}}) as running:
        async with asking(running.url, "legacy") as ask:
            *_, answer = await ask("call_tool", {"tool": "srv.silent_slow", "arguments": {"seconds": 600}})
            assert answer["result"]["isError"] is True
            assert "timeout_s" in answer["result"]["content"][0]["text"]
            *_, answer = await ask("call_tool", {"tool": "srv.cancellations", "arguments": {}})
            assert answer["result"]["content"][0]["text"] == "1"


async def test_the_first_request_of_all_can_be_a_call_to_a_server_not_listed_yet(gateway: StartGateway) -> None:
    slow = entry("slow_start", SECONDS="0.5")
    async with gateway({"srv": slow}, listed=False) as running, asking(f"{running.url}/srv", "auto") as ask:
        *_, answer = await ask("echo", {"text": "first"})
        assert answer["result"]["content"][0]["text"] == "first"
