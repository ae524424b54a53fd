"""The gate before the agent-facing routes: who passes, under which name, and what a refusal says."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.types import Message, Receive, Scope, Send

from proxy.endpoint.authentication import UNAUTHORIZED, BearerGate, agent_label, agent_servers
from proxy.endpoint.tokens import Scope as TokenScope
from proxy.endpoint.tokens import TokenStore

pytestmark = pytest.mark.anyio


async def _who(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps([agent_label(scope), "user" in scope]).encode()})


@pytest.fixture
def tokens(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "tokens.json")


def _client(gate: BearerGate) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(gate), base_url="http://127.0.0.1")


def _bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


async def test_without_a_token_where_none_is_required_one_is_local(tokens: TokenStore) -> None:
    async with _client(BearerGate(_who, tokens, required=False)) as http:
        assert (await http.get("/")).json() == ["local", False]


@pytest.mark.parametrize("required", [True, False])
async def test_a_good_token_gives_its_label(tokens: TokenStore, required: bool) -> None:
    secret = tokens.create("alice", None)
    async with _client(BearerGate(_who, tokens, required)) as http:
        assert (await http.get("/", headers=_bearer(secret))).json() == ["alice", True]
        assert (await http.get("/", headers={"Authorization": f"bearer  {secret}"})).json() == ["alice", True]


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("scope", [TokenScope.VIEW, TokenScope.LABEL, TokenScope.ADMIN])
async def test_a_token_of_a_person_calls_no_tools(tokens: TokenStore, required: bool, scope: TokenScope) -> None:
    secret = tokens.create("eve", None, [scope])
    async with _client(BearerGate(_who, tokens, required)) as http:
        answer = await http.get("/", headers=_bearer(secret))
    assert answer.status_code == 403
    assert answer.headers["www-authenticate"] == 'Bearer error="insufficient_scope"'
    assert "not for agents" in answer.json()["error"]["message"]


async def test_the_servers_of_a_token_come_with_its_request(tokens: TokenStore) -> None:
    async def servers(scope: Scope, receive: Receive, send: Send) -> None:
        held = agent_servers(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        body = json.dumps(None if held is None else sorted(held)).encode()
        await send({"type": "http.response.body", "body": body})

    held, free = tokens.create("held", None, servers=["mail", "github"]), tokens.create("free", None)
    async with _client(BearerGate(servers, tokens, required=False)) as http:
        assert (await http.get("/", headers=_bearer(held))).json() == ["github", "mail"]
        assert (await http.get("/", headers=_bearer(free))).json() is None
        assert (await http.get("/")).json() is None
    assert agent_servers({"type": "http"}) is None


async def test_a_required_token_that_is_missing_is_asked_for(tokens: TokenStore) -> None:
    tokens.create("alice", None)
    async with _client(BearerGate(_who, tokens, required=True)) as http:
        answer = await http.get("/")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    body = answer.json()
    assert (body["jsonrpc"], body["id"], body["error"]["code"]) == ("2.0", None, UNAUTHORIZED)
    assert "toolatlas token create NAME" in body["error"]["message"]
    assert "Authorization: Bearer" in body["error"]["message"]


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("header", ["Bearer ta_wrong", "Bearer", "", "Basic dTpw", "Bearer \xff"])
async def test_a_bad_token_is_refused_and_never_repeated(tokens: TokenStore, required: bool, header: str) -> None:
    tokens.create("alice", None)
    async with _client(BearerGate(_who, tokens, required)) as http:
        answer = await http.get("/", headers=[("authorization", header.encode("latin-1"))])
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'
    assert "unknown, revoked or expired" in answer.json()["error"]["message"]
    assert "ta_wrong" not in answer.text


async def test_two_tokens_in_one_request_are_refused(tokens: TokenStore) -> None:
    good = f"Bearer {tokens.create('alice', None)}"
    async with _client(BearerGate(_who, tokens, required=True)) as http:
        answer = await http.get("/", headers=[("authorization", good), ("authorization", good)])
    assert answer.status_code == 400
    assert answer.headers["www-authenticate"] == 'Bearer error="invalid_request"'


async def test_a_revoked_token_is_refused_at_the_next_request(tokens: TokenStore) -> None:
    secret = tokens.create("alice", None)
    async with _client(BearerGate(_who, tokens, required=False)) as http:
        assert (await http.get("/", headers=_bearer(secret))).status_code == 200
        tokens.revoke("alice")
        assert (await http.get("/", headers=_bearer(secret))).status_code == 401


async def test_a_damaged_token_file_admits_nobody_who_shows_a_token(tokens: TokenStore, tmp_path: Path) -> None:
    secret = tokens.create("alice", None)
    (tmp_path / "tokens.json").write_text("{")
    async with _client(BearerGate(_who, tokens, required=False)) as http:
        answer = await http.get("/", headers=_bearer(secret))
    assert answer.status_code == 503
    assert str(tmp_path) not in answer.text


async def test_a_websocket_without_a_required_token_is_closed(tokens: TokenStore) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    await BearerGate(_who, tokens, required=True)({"type": "websocket", "headers": []}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


@contextlib.asynccontextmanager
async def _sessions(tokens: TokenStore) -> AsyncIterator[httpx2.AsyncClient]:
    manager = StreamableHTTPSessionManager(Server("gateway"), json_response=True)
    async with manager.run(), _client(BearerGate(StreamableHTTPASGIApp(manager), tokens, required=False)) as http:
        http.headers |= {"accept": "application/json, text/event-stream"}
        yield http


async def test_a_session_belongs_to_the_token_that_opened_it(tokens: TokenStore) -> None:
    alice, bob = tokens.create("alice", None), tokens.create("bob", None)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    async with _sessions(tokens) as http:
        opened = await http.post(
            "/", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}, headers=_bearer(alice)
        )
        assert opened.status_code == 200
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        assert (await http.post("/", json=ping, headers=session | _bearer(alice))).status_code == 200
        assert (await http.post("/", json=ping, headers=session | _bearer(bob))).status_code == 404
        assert (await http.post("/", json=ping, headers=session)).status_code == 404
