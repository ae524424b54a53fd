"""Streams on which nothing happens stay open behind a proxy with an idle limit, and end when the gateway does."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client
from mcp.server import _streamable_http_modern as modern_leg
from sse_starlette import EventSourceResponse

from tests.fixtures.idle_proxy import IdleProxy, idle_proxy
from tests.fixtures.running import entry
from tests.lifecycle.conftest import ACCEPT, LIMIT_S, StartGateway, StartProcess, ask, text_of, until

pytestmark = pytest.mark.anyio

PING_S = 0.2
IDLE_S = 2.0
LONGER_S = 2.6
ENOUGH = 14
"""So many pings take longer than the proxy's limit, together with the first event."""
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def test_every_kind_of_stream_carries_a_ping_in_less_than_half_of_what_proxies_allow() -> None:
    # The SDK's own intervals, which it offers no setting for: GET and POST of the initialize era, then the newer era.
    assert 0 < EventSourceResponse.DEFAULT_PING_INTERVAL <= 20
    assert 0 < modern_leg._SSE_PING_INTERVAL <= 20


@pytest.fixture
def pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventSourceResponse, "DEFAULT_PING_INTERVAL", PING_S)
    monkeypatch.setattr(modern_leg, "_SSE_PING_INTERVAL", PING_S)


@asynccontextmanager
async def behind_a_proxy(gateway: StartGateway, **changed: Any) -> AsyncGenerator[IdleProxy]:
    servers = {"one": entry("echo"), "grows": entry("grows")}
    async with gateway(servers, **changed) as running:
        async with idle_proxy(int(running.base.rpartition(":")[2]), IDLE_S) as proxy:
            yield proxy


@asynccontextmanager
async def news(base: str, path: str) -> AsyncGenerator[AsyncIterator[str]]:
    """The lines of the stream of a new initialize-era session."""
    async with httpx2.AsyncClient(timeout=LIMIT_S) as http:
        hello = await http.post(base + path, json=INITIALIZE, headers=ACCEPT)
        session = {"mcp-session-id": hello.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        await http.post(
            base + path, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers={**ACCEPT, **session}
        )
        async with http.stream("GET", base + path, headers={**ACCEPT, **session}) as stream:
            assert stream.status_code == 200
            yield stream.aiter_lines()


async def pinged(lines: AsyncIterator[str], times: int) -> None:
    async for line in lines:
        times -= line.startswith(":")
        if times <= 0:
            return
    raise AssertionError("the stream ended")


async def first_data(lines: AsyncIterator[str]) -> str:
    async for line in lines:
        if line.startswith("data:"):
            return line
    raise AssertionError("the stream ended")


async def grow(base: str) -> None:
    async with Client(f"{base}/mcp", mode="legacy") as client:
        await ask(client, "grows.grow")


@pytest.mark.usefixtures("pings")
async def test_idle_streams_and_silent_calls_outlast_the_limit_of_a_proxy(gateway: StartGateway) -> None:
    passed: list[str] = []
    grown = anyio.Event()
    async with behind_a_proxy(gateway) as proxy:

        async def session_stream() -> None:
            async with news(proxy.base, "/mcp?mode=direct") as lines:
                await pinged(lines, ENOUGH)
                passed.append("GET idle")
                await grown.wait()
                event = await first_data(lines)
                assert json.loads(event.removeprefix("data:"))["method"] == "notifications/tools/list_changed"
                passed.append("GET news")

        async def subscription() -> None:
            async with Client(f"{proxy.base}/mcp?mode=direct") as client:
                async with client.listen(tools_list_changed=True) as events:
                    with anyio.move_on_after(LONGER_S):
                        await anext(aiter(events))
                        raise AssertionError("nothing has changed yet")
                    passed.append("listen idle")
                    await grown.wait()
                    assert type(await anext(aiter(events))).__name__ == "ToolsListChanged"
                    passed.append("listen news")

        async def silent_call(era: str) -> None:
            async with Client(f"{proxy.base}/mcp", mode=era) as client:
                assert await ask(client, "one.silent_slow", seconds=LONGER_S) == f"slept {LONGER_S} s"
                passed.append(f"call {era}")

        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as together:
                together.start_soon(session_stream)
                together.start_soon(subscription)
                together.start_soon(silent_call, "legacy")
                together.start_soon(silent_call, "auto")
                await until(lambda: len(passed) == 4, "all have been idle for longer than the limit")
                await grow(proxy.base)
                grown.set()
    assert sorted(passed) == ["GET idle", "GET news", "call auto", "call legacy", "listen idle", "listen news"]


async def test_without_a_ping_the_proxy_would_have_cut_them(
    gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventSourceResponse, "DEFAULT_PING_INTERVAL", 60)
    monkeypatch.setattr(modern_leg, "_SSE_PING_INTERVAL", 60)
    answers: list[str] = []
    async with behind_a_proxy(gateway) as proxy:

        async def silent_call(era: str) -> None:
            # Each era has errors of its own for a connection that breaks.
            with suppress(Exception):
                async with Client(f"{proxy.base}/mcp", mode=era) as client:
                    answers.append(await ask(client, "one.silent_slow", seconds=600))

        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as together:
                together.start_soon(silent_call, "legacy")
                together.start_soon(silent_call, "auto")
        assert proxy.cut >= 2
    assert answers == []


async def test_a_signal_closes_idle_streams_at_once_and_lets_a_call_end(gateway_process: StartProcess) -> None:
    with gateway_process({"one": entry("echo")}, "--grace", "30") as gateway:
        answers: list[str] = []
        began = [anyio.Event(), anyio.Event()]

        async def call(era: str, begun: anyio.Event) -> None:
            async def note(progress: float, total: float | None, message: str | None) -> None:
                begun.set()

            # Its goodbye finds nobody.
            with suppress(Exception):
                async with Client(gateway.url, mode=era) as client:
                    # Else it would ask for the tool's output schema after the answer.
                    await client.list_tools()
                    arguments = {"tool": "one.slow", "arguments": {"seconds": 2}}
                    answers.append(text_of(await client.call_tool("call_tool", arguments, progress_callback=note)))

        async with news(gateway.base, "/mcp") as lines, anyio.create_task_group() as calling:
            calling.start_soon(call, "legacy", began[0])
            calling.start_soon(call, "auto", began[1])
            with anyio.fail_after(LIMIT_S):
                for begun in began:
                    await begun.wait()
            gateway.process.send_signal(signal.SIGTERM)
            with anyio.fail_after(LIMIT_S / 2):
                # Ends as a stream does, not as a broken connection.
                assert [line async for line in lines if line.startswith("data:")] == []
            assert gateway.process.poll() is None, "the calls are still being answered"
        assert answers == ["slept 2 s"] * 2
        assert await anyio.to_thread.run_sync(gateway.ended) == 0
        assert "Traceback" not in gateway.log.read_text()


async def test_a_signal_ends_a_subscription_and_an_idle_gateway_does_not_wait(gateway_process: StartProcess) -> None:
    with gateway_process({"one": entry("echo")}, "--grace", "30") as gateway:
        async with Client(f"{gateway.base}/mcp?mode=direct") as client:
            async with client.listen(tools_list_changed=True):
                gateway.process.send_signal(signal.SIGTERM)
                with anyio.fail_after(LIMIT_S / 2):
                    assert await anyio.to_thread.run_sync(gateway.ended) == 0
        assert "Traceback" not in gateway.log.read_text()


async def test_a_call_that_does_not_end_in_the_grace_period_is_given_up(gateway_process: StartProcess) -> None:
    with gateway_process({"one": entry("echo")}, "--grace", "0.5") as gateway:
        begun, failed = anyio.Event(), anyio.Event()

        async def call() -> None:
            async def note(progress: float, total: float | None, message: str | None) -> None:
                begun.set()

            try:
                async with Client(gateway.url, mode="legacy") as client:
                    arguments = {"tool": "one.slow", "arguments": {"seconds": 600}}
                    await client.call_tool("call_tool", arguments, progress_callback=note)
            except Exception:
                failed.set()

        async with anyio.create_task_group() as calling:
            calling.start_soon(call)
            with anyio.fail_after(LIMIT_S):
                await begun.wait()
                gateway.process.send_signal(signal.SIGTERM)
                await failed.wait()
        assert await anyio.to_thread.run_sync(gateway.ended) == 0
        assert "Traceback" not in gateway.log.read_text()
