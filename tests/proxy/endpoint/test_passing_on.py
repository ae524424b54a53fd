"""What goes to another gateway with a request that is passed on, what comes back, and for whom it is done at all."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from proxy.endpoint.authentication import BearerGate, agent_label
from proxy.endpoint.replicas import Replicas
from proxy.endpoint.tokens import TokenStore
from tests.fixtures.running import InProcessUvicorn
from tests.proxy.endpoint.test_http import serving

pytestmark = pytest.mark.anyio
TASK = f"tb_{'0' * 24}"
CALL = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "read_result", "arguments": {"id": "r1", "task_id": TASK}},
}
PUBLIC = "https://tools.example.com"


@dataclass
class Peer:
    """Another gateway, of which only what it is asked matters."""

    url: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)
    breaks_off: bool = False
    hangs: bool = False
    left: int = 0
    """How many did not wait for their answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = [(name.decode(), value.decode()) for name, value in scope["headers"]]
        assert len(dict(headers)) == len(headers), "no header comes twice"
        self.asked.append(dict(headers))
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message.get("more_body"):
                break
        answered = [(b"content-type", b"application/json"), (b"set-cookie", b"sticky=b; Path=/")]
        await send({"type": "http.response.start", "status": 200, "headers": answered})
        if self.hangs:
            await send({"type": "http.response.body", "body": b" " * 100, "more_body": True})
            self.left += (await receive())["type"] == "http.disconnect"
            return
        answer = json.dumps({"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": {"answered": "by b"}})
        await send({"type": "http.response.body", "body": answer.encode(), "more_body": self.breaks_off})


@asynccontextmanager
async def peer() -> AsyncIterator[Peer]:
    asked = Peer()
    listener = socket.create_server(("127.0.0.1", 0))
    asked.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = InProcessUvicorn(uvicorn.Config(asked, log_config=None, lifespan="off"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: server.serve(sockets=[listener]))
        with anyio.fail_after(20):
            await server.ready.wait()
        try:
            yield asked
        finally:
            server.should_exit = True


@asynccontextmanager
async def two(folder: Path, **changed: Any) -> AsyncIterator[tuple[str, Peer]]:
    """The address of gateway a, and its peer b."""
    async with peer() as other, serving(folder, {}, replica="a", peers={"b": other.url}, **changed) as (base, _, _):
        yield base, other


async def test_a_request_is_passed_on_as_it_came_and_answered_as_it_was(tmp_path: Path) -> None:
    secret = TokenStore(tmp_path / "state" / "tokens.json").create("alice", None)
    async with two(tmp_path, public_url=PUBLIC) as (base, other), httpx2.AsyncClient() as http:
        for _ in range(2):
            # As few headers as HTTP allows: what is not said here must not be said there.
            request = httpx2.Request(
                "POST",
                f"{base}/mcp",
                json=CALL,
                headers={"host": "tools.example.com", "authorization": f"Bearer {secret}", "x-mine": "1"},
            )
            answer = await http.send(request)
            assert answer.json() == {"jsonrpc": "2.0", "id": 7, "result": {"answered": "by b"}}
            assert len(answer.headers.get_list("date")) == len(answer.headers.get_list("server")) == 1
            http.cookies.clear()
    for headers in other.asked:
        assert headers == {
            "host": "tools.example.com",
            "authorization": f"Bearer {secret}",
            "x-mine": "1",
            "x-toolatlas-passed-on": "1",
            "content-type": "application/json",
            "content-length": headers["content-length"],
        }


async def test_nothing_is_kept_or_passed_on_for_whom_the_gateway_does_not_know(tmp_path: Path) -> None:
    TokenStore(tmp_path / "state" / "tokens.json").create("alice", None)
    async with two(tmp_path, public_url=PUBLIC) as (base, other), httpx2.AsyncClient(timeout=5) as http:
        for headers in ({}, {"authorization": "Bearer ta_wrong"}):
            assert (await http.post(f"{base}/mcp", json=CALL, headers=headers)).status_code == 401
        address = urlsplit(base)
        with anyio.fail_after(5):
            async with await anyio.connect_tcp(address.hostname or "", address.port or 0) as slow:
                # Of a body that never comes to its end.
                await slow.send(b"POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-length: 4000000\r\n\r\n" + b" " * 1_000)
                assert (await slow.receive()).startswith(b"HTTP/1.1 401")
    assert other.asked == []


async def test_a_request_of_a_session_stays_with_the_session(tmp_path: Path) -> None:
    async with two(tmp_path) as (base, other), httpx2.AsyncClient() as http:
        headers = {"mcp-session-id": "gone", "accept": "application/json, text/event-stream"}
        assert (await http.post(f"{base}/mcp", json=CALL, headers=headers)).status_code == 404
    assert other.asked == []


async def test_an_address_that_no_request_can_have_is_an_answer_and_no_defect(tmp_path: Path) -> None:
    async with two(tmp_path) as (base, _), httpx2.AsyncClient() as http:
        # Longer than it was when it is written for the other one.
        answer = await http.post(f"{base}/mcp/{'(' * 30_000}", json=CALL)
        assert (answer.status_code, answer.json()["id"]) == (200, 7)
        assert "cannot be reached" in answer.json()["error"]["message"]


async def test_an_answer_that_breaks_off_there_breaks_off_here(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with two(tmp_path) as (base, other), httpx2.AsyncClient() as http:
        other.breaks_off = True
        with pytest.raises(httpx2.RemoteProtocolError):
            await http.post(f"{base}/mcp", json=CALL)
    assert "broke off" in caplog.text
    assert "Traceback" not in caplog.text


async def test_what_streams_there_streams_here_and_ends_there_with_whoever_waits_here(tmp_path: Path) -> None:
    async with two(tmp_path) as (base, other), httpx2.AsyncClient() as http:
        other.hangs = True
        with anyio.fail_after(10):
            for left in (1, 2):
                async with http.stream("POST", f"{base}/mcp", json=CALL) as answer:
                    assert await anext(answer.aiter_raw()) == b" " * 100
                while other.left < left:
                    await anyio.sleep(0.01)


@pytest.mark.parametrize("peers", [{}, {"b": "http://127.0.0.1:1"}])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_what_is_answered_here_has_no_credential_in_it(
    tmp_path: Path, peers: dict[str, str], method: str
) -> None:
    tokens = TokenStore(tmp_path / "tokens.json")
    secret = tokens.create("alice", None)
    seen: list[tuple[str, str]] = []

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((agent_label(scope), repr(scope)))

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Any) -> None:
        raise AssertionError(message)

    gate = BearerGate(Replicas(answering, "a", peers, 1_000), tokens, required=True)
    headers = [(b"authorization", f"Bearer {secret}".encode())]
    await gate({"type": "http", "method": method, "path": "/mcp", "headers": headers}, receive, send)
    assert seen[0][0] == "alice"
    assert secret not in seen[0][1]
