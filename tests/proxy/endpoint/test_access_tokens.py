"""A whole gateway beside an authorization server, over real sockets: MCP clients that come with access tokens."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp import types as t
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import AuthorizationCodeResult
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl
from typer.testing import CliRunner

from proxy.app import build
from proxy.cli import build as command_line
from proxy.endpoint.tokens import TokenStore
from proxy.errors import ConfigurationError
from proxy.servers.configfile import parse
from proxy.settings import OAuth, Settings
from tests.end_to_end.test_serve import Place
from tests.fixtures.issuer import LoopbackIssuer
from tests.fixtures.running import InProcessUvicorn, entry, http_server
from tests.proxy.endpoint.conftest import Steps

pytestmark = pytest.mark.anyio
ERAS = ["legacy", "auto"]
ACCEPT = {"accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
WELL_KNOWN = "/.well-known/oauth-protected-resource"


@pytest.fixture
async def issuer() -> AsyncIterator[LoopbackIssuer]:
    async with LoopbackIssuer() as running:
        yield running


@asynccontextmanager
async def serving(
    folder: Path, servers: dict[str, Any], oauth: OAuth | None, **changed: Any
) -> AsyncGenerator[tuple[str, Steps]]:
    """The gateway on a loopback port of this process; yields the address of `/mcp`."""
    listener = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    settings = Settings(
        config=folder / "mcp.json",
        state_dir=folder / "state",
        cache_dir=folder / "cache",
        oauth=oauth,
        **{"public_url": base, **changed},
    )
    steps = Steps()
    app = build(settings, os.environ, configuration=parse({"mcpServers": servers}, os.environ), recorders=(steps,))
    server = InProcessUvicorn(uvicorn.Config(app.http, log_config=None, lifespan="on"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: server.serve(sockets=[listener]))
        with anyio.fail_after(20):
            await server.ready.wait()
        try:
            yield f"{base}/mcp", steps
        finally:
            server.should_exit = True


def trusting(issuer: LoopbackIssuer, *scopes: str) -> OAuth:
    return OAuth(issuers=(issuer.url,), scopes=scopes)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@asynccontextmanager
async def agent(url: str, token: str, era: str = "auto") -> AsyncGenerator[Client]:
    async with (
        httpx2.AsyncClient(headers=bearer(token), timeout=20) as http,
        Client(streamable_http_client(url, http_client=http), mode=era) as client,
    ):
        yield client


async def call(client: Client, name: str, **arguments: Any) -> str:
    with anyio.fail_after(20):
        result = await client.call_tool(name, arguments)
    return "\n".join(item.text for item in result.content if isinstance(item, t.TextContent))


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_with_an_access_token_works_and_is_named(
    tmp_path: Path, issuer: LoopbackIssuer, era: str
) -> None:
    async with serving(tmp_path, {"tools": entry("echo")}, trusting(issuer, "mcp")) as (url, steps):
        async with agent(url, issuer.token("alice", aud=url, scope="mcp"), era) as client:
            assert await call(client, "call_tool", tool="tools.echo", arguments={"text": "hi"}) == "hi"
        assert steps.last.episode.agent == f"{issuer.url} editor alice"
        only = issuer.token("alice", aud=f"{url}/tools", scope="mcp")
        async with agent(f"{url}/tools", only, era) as client:
            assert await call(client, "echo", text="hi") == "hi"
        async with httpx2.AsyncClient(headers=ACCEPT | bearer(only)) as http:
            assert (await http.post(url, json=INITIALIZE)).status_code == 401


@pytest.mark.parametrize("era", ERAS)
async def test_the_token_reaches_neither_a_server_nor_the_log(
    tmp_path: Path, issuer: LoopbackIssuer, caplog: pytest.LogCaptureFixture, era: str
) -> None:
    caplog.set_level(logging.DEBUG)
    async with (
        http_server() as behind,
        serving(tmp_path, {"web": {"url": behind}}, trusting(issuer)) as (url, _),
    ):
        token = issuer.token(aud=url)
        # The client that is an agent here logs in the same process: only the gateway's own words count.
        async with agent(url, token, era) as client:
            caplog.clear()
            seen = json.loads(await call(client, "call_tool", tool="web.headers", arguments={}))
    assert "authorization" not in seen
    assert token not in json.dumps(seen)
    logged = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("httpcore"))
    assert logged
    assert token.rpartition(".")[2] not in logged


async def test_a_session_belongs_to_who_opened_it(tmp_path: Path, issuer: LoopbackIssuer) -> None:
    static = TokenStore(tmp_path / "state" / "tokens.json").create("editor", None)
    async with LoopbackIssuer() as second:
        oauth = OAuth(issuers=(issuer.url, second.url))
        async with serving(tmp_path, {}, oauth) as (url, _), httpx2.AsyncClient(headers=ACCEPT, timeout=20) as http:
            opened = await http.post(url, json=INITIALIZE, headers=bearer(issuer.token("alice", aud=url)))
            assert opened.status_code == 200
            session = {"mcp-session-id": opened.headers["mcp-session-id"]}
            thieves = {
                "another subject": issuer.token("bob", aud=url),
                "another client": issuer.token("alice", aud=url, client_id="other"),
                "another issuer": second.token("alice", aud=url),
                "a static token": static,
            }
            for name, token in thieves.items():
                assert (await http.post(url, json=PING, headers=session | bearer(token))).status_code == 404, name
            assert (await http.post(url, json=PING, headers=session)).status_code == 401
            refreshed = issuer.token("alice", aud=url, jti="2")
            assert (await http.post(url, json=PING, headers=session | bearer(refreshed))).status_code == 200


async def test_a_session_ends_with_the_token(tmp_path: Path, issuer: LoopbackIssuer) -> None:
    async with (
        serving(tmp_path, {}, trusting(issuer)) as (url, _),
        httpx2.AsyncClient(headers=ACCEPT, timeout=20) as http,
    ):
        opened = await http.post(url, json=INITIALIZE, headers=bearer(issuer.token(aud=url)))
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        expired = issuer.token(aud=url, exp=1)
        assert (await http.post(url, json=PING, headers=session | bearer(expired))).status_code == 401


async def test_a_task_of_another_agent_is_unknown(tmp_path: Path, issuer: LoopbackIssuer) -> None:
    async with serving(tmp_path, {"tools": entry("echo")}, trusting(issuer)) as (url, _):
        async with agent(url, issuer.token("alice", aud=url)) as alice, agent(url, issuer.token("bob", aud=url)) as bob:
            begun = await call(alice, "search_tools", query="echo")
            task = begun.partition("[task_id: ")[2].partition(";")[0]
            assert task
            assert f"no running task '{task}'" in await call(bob, "finish_task", task_id=task, outcome="done")
            assert f"Task {task} is closed" in await call(alice, "finish_task", task_id=task, outcome="done")


async def test_a_rotated_key_is_found_under_a_running_session(tmp_path: Path, issuer: LoopbackIssuer) -> None:
    async with (
        serving(tmp_path, {}, trusting(issuer)) as (url, _),
        httpx2.AsyncClient(headers=ACCEPT, timeout=20) as http,
    ):
        opened = await http.post(url, json=INITIALIZE, headers=bearer(old := issuer.token(aud=url)))
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        issuer.rotate()
        assert (await http.post(url, json=PING, headers=session | bearer(issuer.token(aud=url)))).status_code == 200
        assert (await http.post(url, json=PING, headers=session | bearer(old))).status_code == 401


class _Remembered:
    """Where the SDK's client keeps what it was given."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.mark.parametrize("path", ["", "/tools"])
async def test_the_sdks_client_finds_the_issuer_by_itself(tmp_path: Path, issuer: LoopbackIssuer, path: str) -> None:
    came_back: list[str] = []

    async def visit(url: str) -> None:
        async with httpx2.AsyncClient() as browser:
            came_back.append((await browser.get(url)).headers["location"])

    async def code() -> AuthorizationCodeResult:
        answer = parse_qs(urlsplit(came_back[-1]).query)
        return AuthorizationCodeResult(code=answer["code"][0], state=answer["state"][0])

    metadata = OAuthClientMetadata(
        redirect_uris=[AnyUrl("http://127.0.0.1:1/back")], token_endpoint_auth_method="none", client_name="test"
    )
    async with serving(tmp_path, {"tools": entry("echo")}, trusting(issuer, "mcp")) as (url, steps):
        remembered = _Remembered()
        provider = OAuthClientProvider(url + path, metadata, remembered, visit, code)
        async with (
            httpx2.AsyncClient(auth=provider, timeout=20) as http,
            Client(streamable_http_client(url + path, http_client=http)) as client,
        ):
            tool = "echo" if path else "list_servers"
            assert await call(client, tool, **({"text": "hi"} if path else {}))
        assert steps.last.episode.agent == f"{issuer.url} registered alice"
    assert parse_qs(urlsplit(came_back[0]).query)["code"]
    assert remembered.tokens is not None


async def test_with_static_tokens_alone_there_is_no_oauth_to_be_found(tmp_path: Path) -> None:
    secret = TokenStore(tmp_path / "state" / "tokens.json").create("alice", None)
    async with (
        serving(tmp_path, {}, None, host="0.0.0.0", public_url="https://tools.example.com") as (url, _),
        httpx2.AsyncClient(headers=ACCEPT) as http,
    ):
        base = url.removesuffix("/mcp")
        for path in ("", "/mcp", "/mcp/tools"):
            assert (await http.get(f"{base}{WELL_KNOWN}{path}")).status_code == 404
        for path in ("oauth-authorization-server", "openid-configuration"):
            assert (await http.get(f"{base}/.well-known/{path}")).status_code == 404
        refused = await http.post(url, json=INITIALIZE)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert (await http.post(url, json=INITIALIZE, headers=bearer(secret))).status_code == 200


async def test_behind_a_public_address_its_host_is_accepted_and_a_token_required(
    tmp_path: Path, issuer: LoopbackIssuer
) -> None:
    public = "https://tools.example.com"
    async with (
        serving(tmp_path, {}, trusting(issuer), public_url=public) as (url, _),
        httpx2.AsyncClient(headers=ACCEPT | {"host": "tools.example.com", "origin": public}) as http,
    ):
        refused = await http.post(url, json=INITIALIZE)
        assert refused.status_code == 401
        assert f'resource_metadata="{public}{WELL_KNOWN}/mcp"' in refused.headers["www-authenticate"]
        token = issuer.token(aud=f"{public}/mcp")
        assert (await http.post(url, json=INITIALIZE, headers=bearer(token))).status_code == 200
        other_host = bearer(token) | {"host": "evil.example"}
        assert (await http.post(url, json=INITIALIZE, headers=other_host)).status_code == 421


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_serve_off_loopback_with_an_issuer_from_the_environment(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    public, issuers = "https://tools.example.com", ["https://a.example", "https://b.example"]
    monkeypatch.setenv("TOOLATLAS_PUBLIC_URL", f"{public}/")
    monkeypatch.setenv("TOOLATLAS_OAUTH_ISSUER", " ".join(issuers))
    monkeypatch.setenv("TOOLATLAS_OAUTH_SCOPE", "a b")
    place.configure()
    with place.serving("--host", "0.0.0.0") as gateway:
        refused = httpx2.post(f"{gateway.base}/mcp", json=INITIALIZE, headers=ACCEPT, timeout=20)
        assert refused.status_code == 401
        metadata = f"{public}{WELL_KNOWN}/mcp"
        assert refused.headers["www-authenticate"] == f'Bearer scope="a b", resource_metadata="{metadata}"'
        document = httpx2.get(f"{gateway.base}{WELL_KNOWN}/mcp", timeout=20).json()
        assert (document["resource"], document["authorization_servers"]) == (f"{public}/mcp", issuers)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--oauth-scope", "a"), "--oauth-issuer"),
        (("--oauth-issuer", "http://as.example"), "https://"),
        (("--public-url", "https://tools.example.com/mcp"), "before /mcp"),
    ],
)
def test_serve_refuses_what_cannot_be_meant(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    refused = CliRunner().invoke(command_line(), ["serve", "--config", str(tmp_path / "mcp.json"), *arguments])
    assert isinstance(refused.exception, ConfigurationError)
    assert said in str(refused.exception)


async def test_the_doctor_tries_the_issuer(tmp_path: Path, issuer: LoopbackIssuer) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {}}')
    environ = {"TOOLATLAS_STATE_DIR": str(tmp_path / "state"), "TOOLATLAS_CACHE_DIR": str(tmp_path / "cache")}

    async def finding(url: str) -> dict[str, Any]:
        arguments = ["doctor", "--json", "--config", str(tmp_path / "mcp.json"), "--oauth-issuer", url]
        done = await anyio.to_thread.run_sync(lambda: CliRunner().invoke(command_line(), arguments, env=environ))
        return next(each for each in json.loads(done.stdout) if each["what"] == f"issuer {url}")

    assert await finding(issuer.url) == {"what": f"issuer {issuer.url}", "ok": True, "detail": "1 keys", "advice": ""}
    for url, said in [(f"{issuer.url}/other", "answered 404"), ("http://as.example", "begins with https")]:
        wrong = await finding(url)
        assert not wrong["ok"]
        assert said in wrong["detail"]


def test_off_loopback_an_issuer_is_enough(tmp_path: Path) -> None:
    folders = {"config": tmp_path / "mcp.json", "state_dir": tmp_path, "cache_dir": tmp_path}
    public = {"host": "0.0.0.0", "public_url": "https://tools.example.com"}
    nothing = parse({"mcpServers": {}}, {})
    build(Settings(**folders, **public, oauth=OAuth(issuers=("https://as.example",))), {}, configuration=nothing)
    with pytest.raises(ConfigurationError, match="--oauth-issuer"):
        build(Settings(**folders, **public), {}, configuration=nothing)


def test_behind_a_public_address_loopback_needs_a_token_too(tmp_path: Path) -> None:
    settings = Settings(
        config=tmp_path / "mcp.json", state_dir=tmp_path, cache_dir=tmp_path, public_url="https://tools.example.com"
    )
    with pytest.raises(ConfigurationError, match=r"tools\.example\.com can be reached by others"):
        build(settings, {}, configuration=parse({"mcpServers": {}}, {}))
