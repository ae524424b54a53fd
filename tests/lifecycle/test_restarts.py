"""Servers over HTTP that restart or forget their sessions, and agents whose own session is gone."""

from __future__ import annotations

from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client

from tests.fixtures.running import Restartable, entry
from tests.fixtures.sessions import Sessions
from tests.lifecycle.conftest import ACCEPT, ERAS, LIMIT_S, StartGateway, ask, serving, text_of, until

pytestmark = pytest.mark.anyio

KINDS = pytest.mark.parametrize(
    "kind", [{"legacy_only": True}, {}, {"sse": True}], ids=["with sessions", "without sessions", "sse"]
)


@KINDS
async def test_a_server_killed_and_restarted_between_two_calls_is_called_again(
    gateway: StartGateway, kind: dict[str, bool]
) -> None:
    async with Restartable(**kind) as server, gateway({"srv": server.entry}) as running:
        async with Client(running.url, mode="legacy") as client:
            assert await ask(client, "srv.counter") == "1"
            assert await ask(client, "srv.counter") == "2"
            await server.stop()
            await server.start()
            # Its state is lost; that is the server's affair, and no error.
            assert await ask(client, "srv.counter") == "1"


async def test_a_server_that_was_down_for_a_while_is_found_again(gateway: StartGateway) -> None:
    async with Restartable(legacy_only=True) as server, gateway({"srv": server.entry}) as running:
        async with Client(running.url, mode="legacy") as client:
            assert await ask(client, "srv.echo", text="before") == "before"
            await server.stop()
            failed = await client.call_tool("call_tool", {"tool": "srv.echo", "arguments": {"text": "down"}})
            assert failed.is_error
            assert "srv" in failed.content[0].text
            await server.start()

            answers: list[str] = []
            with anyio.fail_after(LIMIT_S / 2):
                while answers != ["after"]:
                    # Until its back-off is over it is said when it will be tried.
                    answer = await client.call_tool("call_tool", {"tool": "srv.echo", "arguments": {"text": "after"}})
                    answers = [answer.content[0].text]
                    assert answers == ["after"] or answer.is_error
                    await anyio.sleep(0.1)


@ERAS
async def test_a_session_forgotten_by_its_server_is_opened_again_without_a_word(
    gateway: StartGateway, era: str
) -> None:
    server = Sessions()
    async with serving(server) as base, gateway({"srv": {"url": f"{base}/mcp"}}) as running:
        async with Client(running.url, mode=era) as client:
            assert await ask(client, "srv.echo", text="one") == "one"
            for turn in range(3):
                opened = server.opened
                server.forget()
                assert await ask(client, "srv.echo", text=f"again {turn}") == f"again {turn}"
                assert server.refused > turn
                assert server.opened == opened + 1
                assert len(server.open) == 1


async def test_calls_at_once_on_a_forgotten_session_open_one_new_session(gateway: StartGateway) -> None:
    server = Sessions()
    async with serving(server) as base, gateway({"srv": {"url": f"{base}/mcp"}}) as running:
        async with Client(running.url, mode="legacy") as client:
            assert await ask(client, "srv.echo", text="one") == "one"
            server.forget()
            opened, answers = server.opened, list[str]()

            async def call(number: int) -> None:
                answers.append(await ask(client, "srv.echo", text=str(number)))

            async with anyio.create_task_group() as calling:
                for number in range(20):
                    calling.start_soon(call, number)
            assert sorted(answers, key=int) == [str(number) for number in range(20)]
            assert server.opened == opened + 1
            assert len(server.open) == 1


async def test_a_call_cut_off_by_the_end_of_its_server_says_that_its_fate_is_unknown(gateway: StartGateway) -> None:
    async with Restartable(legacy_only=True) as server, gateway({"srv": server.entry}) as running:
        async with Client(running.url, mode="legacy") as client:
            begun, failed = anyio.Event(), list[Any]()

            async def note(progress: float, total: float | None, message: str | None) -> None:
                begun.set()

            async def call() -> None:
                arguments = {"tool": "srv.slow", "arguments": {"seconds": 600}}
                failed.append(await client.call_tool("call_tool", arguments, progress_callback=note))

            with anyio.fail_after(LIMIT_S):
                async with anyio.create_task_group() as calling:
                    calling.start_soon(call)
                    await begun.wait()
                    await server.stop()
            assert failed[0].is_error
            assert "not known" in failed[0].content[0].text
            await server.start()
            assert await ask(client, "srv.echo", text="next") == "next"


INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def request(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}


async def test_an_unknown_session_is_told_with_404_whatever_is_asked(gateway: StartGateway) -> None:
    async with gateway({"one": entry("echo")}) as running, httpx2.AsyncClient() as http:
        stale = {**ACCEPT, "mcp-session-id": "0" * 32, "mcp-protocol-version": "2025-11-25"}
        for method in ("tools/list", "tools/call", "ping", "initialise"):
            answer = await http.post(running.url, json=request(method), headers=stale)
            assert answer.status_code == 404
            assert "ession" in answer.json()["error"]["message"]
        assert (await http.get(running.url, headers=stale)).status_code == 404
        assert (await http.delete(running.url, headers=stale)).status_code == 404
        broken = await http.post(running.url, content=b'{"method": "initialize"', headers=stale)
        assert broken.status_code == 404


@pytest.mark.parametrize("path", ["", "?mode=direct", "/one"])
async def test_a_stale_session_id_on_initialize_is_accepted(gateway: StartGateway, path: str) -> None:
    async with gateway({"one": entry("echo")}) as running, httpx2.AsyncClient() as http:
        url, first = (
            running.url + path,
            await http.post(running.url + path, json=request("initialize", INITIALIZE), headers=ACCEPT),
        )
        session = first.headers["mcp-session-id"]
        headers = {**ACCEPT, "mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
        assert (await http.delete(url, headers=headers)).status_code == 200
        assert (await http.post(url, json=request("ping"), headers=headers)).status_code == 404
        again = await http.post(url, json=request("initialize", INITIALIZE), headers=headers)
        assert again.status_code == 200
        assert again.headers["mcp-session-id"] != session
        headers["mcp-session-id"] = again.headers["mcp-session-id"]
        assert (await http.post(url, json=request("ping"), headers=headers)).status_code == 200


async def test_an_agent_that_was_forgotten_starts_over_and_goes_on(gateway: StartGateway) -> None:
    """What clients do on a 404, with the gateway's session ended under them."""
    async with gateway({"one": entry("echo")}) as running:
        for turn in range(2):
            async with Client(running.url, mode="legacy") as client:
                result = await client.call_tool("call_tool", {"tool": "one.counter", "arguments": {}})
                assert text_of(result) == str(turn + 1)
        await until(lambda: len(running.children()) == 1, "one server for both")
