"""One MCP session in both protocol eras and over every transport: calls, limits, cancellation, and clear failures."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from proxy.errors import CallTimeout, ProtocolFault, ServerDown
from proxy.servers.connection import ServerConnection
from proxy.servers.flights import Call
from tests.fixtures import plain
from tests.fixtures.plain import BEYOND_DOUBLE, VENDOR, UnknownFields
from tests.fixtures.running import Restartable, dead_port_entry, entry, modern_entry, mute_server
from tests.proxy.servers.conftest import LIMIT_S, call, config, connected, text

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def server_entry(kind: str) -> AsyncIterator[dict[str, Any]]:
    if kind == "stdio, initialize era":
        yield entry("echo")
    elif kind == "stdio, 2026-07-28":
        yield modern_entry()
    else:
        async with Restartable(sse="SSE" in kind, legacy_only="initialize" in kind) as server:
            yield server.entry


ENTRIES = (
    "stdio, initialize era",
    "stdio, 2026-07-28",
    "HTTP, initialize era",
    "HTTP, 2026-07-28",
    "SSE, initialize era",
    "SSE, 2026-07-28",
)


@pytest.mark.parametrize("kind", ENTRIES)
async def test_a_call_works_in_every_era_and_transport(kind: str) -> None:
    async with server_entry(kind) as entry, connected(config(entry)) as connection:
        assert connection.modern is ("2026" in kind)
        assert (connection.protocol_version in MODERN_PROTOCOL_VERSIONS) is connection.modern
        assert connection.server_info["version"] == "1.0"
        assert (connection.instructions or "").startswith("Echoes")
        assert "tools" in connection.capabilities
        assert text(await connection.request(call("add", a=2, b=3))) == "5"
        await connection.ping(LIMIT_S)


@pytest.mark.parametrize("kind", ENTRIES)
async def test_progress_is_relayed_and_moves_the_limit_on(kind: str) -> None:
    relayed: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        relayed.append((progress, total, message))

    async with server_entry(kind) as entry, connected(config(entry)) as connection:
        # A fifth of a second between two notices, and two seconds in all, against a limit of 1.5.
        slow = replace(call("slow", seconds=2, timeout_s=1.5), on_progress=note)
        assert text(await connection.request(slow)).startswith("slept 2")
    assert relayed == [(step, 10, f"step {step}") for step in range(1, 11)]


async def cancellations(connection: ServerConnection, expected: int) -> None:
    while int(text(await connection.request(call("cancellations")))) != expected:
        await anyio.sleep(0.01)


@pytest.mark.parametrize("kind", ENTRIES)
async def test_a_cancelled_caller_cancels_its_own_call_at_the_server_and_no_other(kind: str) -> None:
    begun = anyio.Event()
    finished: list[str] = []

    async def note(*_: object) -> None:
        begun.set()

    async def sibling(connection: ServerConnection) -> None:
        finished.append(text(await connection.request(call("slow", seconds=1))))

    async with server_entry(kind) as entry, connected(config(entry)) as connection:
        async with anyio.create_task_group() as others:
            others.start_soon(sibling, connection)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(connection.request, replace(call("slow", seconds=30), on_progress=note))
                await begun.wait()
                tasks.cancel_scope.cancel()
            await cancellations(connection, 1)
        assert [each[:7] for each in finished] == ["slept 1"]
        await cancellations(connection, 1)


async def test_a_call_without_an_answer_times_out_and_the_server_is_told() -> None:
    async with connected(config(entry("echo"))) as connection:
        with pytest.raises(CallTimeout, match=r"within 0.3 s.*timeout_s") as caught:
            await connection.request(call("silent_slow", seconds=30, timeout_s=0.3))
        assert caught.value.server == "srv"
        await cancellations(connection, 1)


async def test_an_error_answer_keeps_its_code_and_text() -> None:
    async with connected(config(entry("echo"))) as connection:
        with pytest.raises(ProtocolFault, match="Unknown tool: nothing") as caught:
            await connection.request(call("nothing"))
        assert caught.value.code == -32602


async def test_a_server_that_knows_no_ping_has_answered_it() -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(plain.__file__).parent)!r})
from plain import Plain
class NoPing(Plain):
    def receive(self, message):
        super().receive(message | {{"method": "nothing"}} if message.get("method") == "ping" else message)
NoPing().run()
"""
    async with connected(config({"command": sys.executable, "args": ["-I", "-S", "-c", code]})) as connection:
        with pytest.raises(ProtocolFault, match="nothing"):
            await connection.request(Call("ping", {}, LIMIT_S))
        await connection.ping(LIMIT_S)


async def test_a_ping_without_an_answer_is_told() -> None:
    async with connected(config(entry("echo"))) as connection:
        pid = json.loads(text(await connection.request(call("whoami"))))["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(CallTimeout):
                await connection.ping(0.3)
        finally:
            os.kill(pid, signal.SIGCONT)
        await connection.ping(LIMIT_S)


async def test_a_tools_own_failure_is_a_result() -> None:
    async with connected(config(entry("echo"))) as connection:
        assert (await connection.request(call("fail")))["isError"] is True


async def test_the_end_of_the_connection_ends_the_call() -> None:
    async with connected(config(entry("echo"))) as connection:
        with pytest.raises(ServerDown):
            await connection.request(call("crash"))
        assert connection.channel.closed.is_set()


async def test_fields_that_no_specification_knows_arrive_as_they_were_sent() -> None:
    value = {"id": BEYOND_DOUBLE, "_meta": {"x": None}, "text": "\u2028é"}
    async with connected(config(entry("unknown_fields"))) as connection:
        listed = await connection.request(Call("tools/list", {}, LIMIT_S))
        assert listed == {"tools": UnknownFields().tools(), **VENDOR}
        result = await connection.request(call("mirror", value=value))
    assert result == UnknownFields().result_of("mirror", {"value": value})
    assert json.loads(text(result)) == value


async def test_a_modern_http_server_is_sent_the_headers_of_the_configuration_and_of_the_era() -> None:
    async with Restartable() as server:
        async with connected(config(server.entry, headers={"X-Key": "k"})) as connection:
            seen = json.loads(text(await connection.request(call("headers"))))
            assert seen["x-key"] == "k"
            assert seen["mcp-method"] == "tools/call"
            assert seen["mcp-name"] == "headers"
            assert seen["mcp-protocol-version"] == connection.protocol_version


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (entry("silent"), r"within 1 s \(start_timeout_s\)"),
        (entry("not_mcp"), r"within 1 s \(start_timeout_s\); .*not MCP.*hello"),
        ({"command": "no-such-program-anywhere"}, r"no-such-program-anywhere.*no such command.*install it"),
        (entry("echo") | {"cwd": "/no/such/folder"}, r"no such folder in `cwd`"),
        (dead_port_entry(), "nothing answers at that address; start the server or correct `url`"),
        (dead_port_entry() | {"type": "sse"}, "nothing answers at that address; start the server or correct `url`"),
    ],
    ids=["silent", "not MCP", "no command", "no folder", "HTTP, dead port", "SSE, dead port"],
)
async def test_a_server_that_cannot_be_connected_says_why(broken: dict[str, Any], words: str) -> None:
    with pytest.raises(ServerDown, match=words) as caught:
        async with connected(config(broken, start_timeout_s=1)):
            pass
    assert caught.value.server == "srv"


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_an_address_that_never_answers_is_given_up(kind: str) -> None:
    async with mute_server() as url:
        with pytest.raises(ServerDown, match="start_timeout_s"):
            async with connected(config({"type": kind, "url": url}, start_timeout_s=1)):
                pass


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_an_endpoint_that_is_not_there_is_told_without_its_url(kind: str) -> None:
    async with Restartable() as server:
        url = server.url.replace("/mcp", "/elsewhere?key=secret")
        with pytest.raises(ServerDown, match=r"404|Not Found") as caught:
            async with connected(config({"type": kind, "url": url}, start_timeout_s=5)):
                pass
    assert "secret" not in str(caught.value)
