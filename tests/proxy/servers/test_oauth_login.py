"""Logging in with a browser: what is asked for, what comes back, and what is not believed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from mcp.shared.auth import OAuthClientInformationFull

from proxy.errors import ConfigurationError, ServerDown
from proxy.servers.config import ServerConfig
from proxy.servers.logins import LoginStore
from proxy.servers.oauth_login import log_in
from proxy.servers.outbound import Refused
from proxy.servers.sealing import Sealer
from tests.fixtures.authorization import SCOPE, Recording, protected, serving
from tests.fixtures.running import LOOPBACK, entry, free_port, http_server
from tests.proxy.servers.conftest import LIMIT_S, config

pytestmark = pytest.mark.anyio

Browse = Callable[[str], Awaitable[None]]


def store_in(folder: Path) -> LoginStore:
    return LoginStore(folder / "logins", Sealer(folder / "secret.key", {}))


class Browser:
    """Follows the address as a browser does, and keeps every address that it was at."""

    def __init__(self) -> None:
        self.visited: list[httpx2.URL] = []
        self.page = ""

    async def __call__(self, address: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as client:
            response = await client.get(address)
        self.visited += [step.url for step in (*response.history, response)]
        self.page = response.text


def kept_in(folder: Path) -> list[Path]:
    return list(folder.rglob("*.login"))


async def fails(server: ServerConfig, folder: Path, browse: Browse | None = None) -> str:
    """What a login that does not work says; nothing may be kept of it."""
    with anyio.fail_after(LIMIT_S), pytest.raises((ServerDown, ConfigurationError)) as failed:
        await log_in(server, store_in(folder), browse or Browser())
    assert not kept_in(folder)
    return str(failed.value)


async def test_a_login_asks_with_pkce_for_this_server_alone(tmp_path: Path) -> None:
    browser = Browser()
    async with protected() as pair:
        done = await log_in(config(pair.entry), store_in(tmp_path), browser)
        assert done is not None
        assert (done.issuer, done.scope, done.renewable) == (pair.issuer, SCOPE, True)
        asked = parse_qs(urlsplit(str(browser.visited[0])).query)
        assert asked["code_challenge_method"] == ["S256"]
        assert asked["resource"] == [pair.url]
        assert len(asked["state"][0]) >= 32
        back = browser.visited[-1]
        assert (back.host, back.path) == (LOOPBACK, "/callback")
        assert asked["redirect_uri"] == [f"http://{LOOPBACK}:{back.port}/callback"]
        assert "You are logged in" in browser.page
        (client,) = pair.authorization.clients.values()
        assert (client.client_name, client.token_endpoint_auth_method) == ("toolatlas", "none")
        # Each login has a port and a state of its own.
        again = Browser()
        await log_in(config(pair.entry), store_in(tmp_path), again)
        assert parse_qs(urlsplit(str(again.visited[0])).query)["state"] != asked["state"]


@pytest.mark.parametrize("secret", [None, "client-secret"])
async def test_a_client_registered_by_hand_is_used_with_its_port_and_scopes(tmp_path: Path, secret: str | None) -> None:
    port = free_port()
    async with protected(register=False) as pair:
        pair.authorization.clients["by-hand"] = OAuthClientInformationFull.model_validate(
            {
                "client_id": "by-hand",
                "client_secret": secret,
                "redirect_uris": [f"http://{LOOPBACK}:{port}/callback"],
                "token_endpoint_auth_method": "client_secret_basic" if secret else "none",
                "scope": "tools more",
            }
        )
        oauth = {"client_id": "by-hand", "redirect_port": port, "scopes": ["more"], **pair.entry["oauth"]}
        server = config(pair.entry, oauth=oauth | ({"client_secret": "${SECRET:-client-secret}"} if secret else {}))
        done = await log_in(server, store_in(tmp_path), Browser())
        assert done is not None
        assert done.scope == "more"
        login = store_in(tmp_path).load(server)
        assert login is not None
        assert (login.client_id, login.client_secret) == ("by-hand", None)


async def test_a_server_that_registers_nobody_needs_a_client_in_its_entry(tmp_path: Path) -> None:
    async with protected(register=False) as pair:
        assert "oauth.client_id" in await fails(config(pair.entry), tmp_path)


async def test_a_server_that_wants_no_login_is_left_alone(tmp_path: Path) -> None:
    async with http_server() as url:
        assert await log_in(config({"url": url}), store_in(tmp_path), Browser()) is None
    assert not kept_in(tmp_path)


async def test_an_owner_who_refuses_is_told_so(tmp_path: Path) -> None:
    browser = Browser()
    async with protected() as pair:
        pair.authorization.grant = False
        assert "access_denied" in await fails(config(pair.entry), tmp_path, browser)
        assert "refused" in browser.page


async def test_only_the_answer_with_the_right_state_counts(tmp_path: Path) -> None:
    """A page in the same browser that guesses the port cannot log the gateway in to an account of its own."""
    statuses: list[int] = []

    async def browse(address: str) -> None:
        redirect = parse_qs(urlsplit(address).query)["redirect_uri"][0]
        async with httpx2.AsyncClient(trust_env=False) as client:
            for path in ("?code=evil&state=guess", "?code=evil", "?error=access_denied", "/../favicon.ico"):
                statuses.append((await client.get(redirect + path)).status_code)
            statuses.append((await client.post(redirect, content=b"x")).status_code)
        await Browser()(address)

    async with protected() as pair:
        assert await log_in(config(pair.entry), store_in(tmp_path), browse) is not None
    assert statuses == [400, 400, 400, 404, 404]


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("https://169.254.169.254", "link-local"),
        ("http://169.254.169.254", "not https"),
        ("https://10.0.0.1", "private"),
        ("https://localhost:8443", "loopback"),
    ],
)
async def test_an_authorization_server_in_the_inner_network_is_not_asked(tmp_path: Path, place: str, why: str) -> None:
    async with protected(authorization_server=place) as pair:
        said = await fails(config(pair.entry), tmp_path)
        assert why in said
        assert "oauth.allowed_origins" in said


async def test_a_loopback_authorization_server_needs_to_be_named(tmp_path: Path) -> None:
    async with protected() as pair:
        assert "loopback" in await fails(config({"url": pair.url}), tmp_path)
        assert pair.authorization.clients == {}


def challenging(metadata: str) -> Recording:
    return Recording(401, {"www-authenticate": f'Bearer resource_metadata="{metadata}"'})


async def test_metadata_in_the_inner_network_are_not_fetched(tmp_path: Path) -> None:
    inner, port, inner_port = Recording(200, body={}), free_port(), free_port()
    server = config({"url": f"http://{LOOPBACK}:{port}/mcp", "headers": {"X-Key": "hunter2"}})
    async with serving(challenging(f"http://{LOOPBACK}:{inner_port}/latest"), port), serving(inner, inner_port):
        assert "loopback" in await fails(server, tmp_path)
    assert inner.seen == []


class Metadata(Recording):
    """An MCP server and its own authorization server, whose metadata say what the test wants."""

    def __init__(self, port: int, **changed: Any) -> None:
        self.origin = f"http://{LOOPBACK}:{port}"
        super().__init__(401, {"www-authenticate": "Bearer"})
        self._documents = {
            "/.well-known/oauth-protected-resource/mcp": {
                "resource": changed.pop("resource", f"{self.origin}/mcp"),
                "authorization_servers": [self.origin],
            },
            "/.well-known/oauth-authorization-server": {
                "issuer": self.origin,
                "authorization_endpoint": f"{self.origin}/authorize",
                "token_endpoint": f"{self.origin}/token",
                "registration_endpoint": f"{self.origin}/register",
                "code_challenge_methods_supported": ["S256"],
                **changed,
            },
            "/register": {"client_id": "made", "redirect_uris": []},
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] in self._documents:
            await Recording(200, body=self._documents[scope["path"]])(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"issuer": "https://elsewhere.example"}, "calls itself"),
        ({"resource": "https://elsewhere.example/mcp"}, "another resource"),
        ({"code_challenge_methods_supported": None}, "PKCE"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"authorization_endpoint": "http://login.example/authorize"}, "not https"),
        ({"registration_endpoint": "https://169.254.169.254/register"}, "link-local"),
    ],
)
async def test_metadata_that_cannot_be_right_are_not_believed(
    tmp_path: Path, changed: dict[str, Any], why: str
) -> None:
    port = free_port()
    metadata = Metadata(port, **changed)
    async with serving(metadata, port):
        assert why in await fails(config({"url": f"{metadata.origin}/mcp"}), tmp_path)


async def test_a_token_endpoint_in_the_inner_network_gets_neither_code_nor_secret(tmp_path: Path) -> None:
    port, inner_port = free_port(), free_port()
    inner = Recording(200, body={})
    metadata = Metadata(port, token_endpoint=f"http://{LOOPBACK}:{inner_port}/token")

    async def browse(address: str) -> None:
        asked = parse_qs(urlsplit(address).query)
        async with httpx2.AsyncClient(trust_env=False) as client:
            await client.get(f"{asked['redirect_uri'][0]}?code=right&state={asked['state'][0]}")

    async with serving(metadata, port), serving(inner, inner_port):
        with pytest.raises(Refused, match="loopback"), anyio.fail_after(LIMIT_S):
            await log_in(config({"url": f"{metadata.origin}/mcp"}), store_in(tmp_path), browse)
    assert inner.seen == []


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"headers": {"authorization": "Bearer hunter2"}}, "credentials of its own"),
        ({"url": "https://user:hunter2@mcp.example.com/mcp"}, "credentials of its own"),
        ({"enabled": False}, "switched off"),
        ({"url": "ftp://x"}, "http://"),
    ],
)
async def test_an_entry_with_nothing_to_log_in_to_is_refused(tmp_path: Path, changed: dict[str, Any], why: str) -> None:
    said = await fails(config({"url": "https://mcp.example.com/mcp"} | changed), tmp_path)
    assert why in said
    assert "hunter2" not in said
    assert "program" in await fails(config(entry("echo")), tmp_path)


async def test_a_login_that_cannot_be_read_is_not_written_over(tmp_path: Path) -> None:
    async with protected() as pair:
        server = config(pair.entry)
        await log_in(server, store_in(tmp_path), Browser())
        (file,) = (tmp_path / "logins").glob("*.login")
        file.write_bytes(b"damaged")
        with pytest.raises(ConfigurationError, match="toolatlas servers logout srv"):
            await log_in(server, store_in(tmp_path), Browser())
        assert file.read_bytes() == b"damaged"


async def test_secrets_stand_neither_in_errors_nor_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # httpx2 and uvicorn would log the addresses that the browser of this test visits; serve.py silences them.
    for name in ("toolatlas", "mcp"):
        caplog.set_level(logging.DEBUG, name)
    async with protected() as pair:
        server = config(pair.entry, headers={"X-Key": "hunter2"})
        done = await log_in(server, store_in(tmp_path), Browser())
        pair.authorization.revoke_all()
        said = [str(done), await wrong_code(server, tmp_path)]
        assert any("invalid_grant" in text for text in said)
        log = "\n".join(caplog.messages)
        for secret in [*pair.authorization.issued, "hunter2"]:
            assert secret not in log
            assert not any(secret in text for text in said)


async def wrong_code(server: ServerConfig, folder: Path) -> str:
    """What a login says whose code the token endpoint does not know."""

    async def browse(address: str) -> None:
        asked = parse_qs(urlsplit(address).query)
        async with httpx2.AsyncClient(trust_env=False) as client:
            await client.get(f"{asked['redirect_uri'][0]}?code=wrong-code&state={asked['state'][0]}")

    with anyio.fail_after(LIMIT_S), pytest.raises(ServerDown) as failed:
        await log_in(replace(server), store_in(folder), browse)
    assert "wrong-code" not in str(failed.value)
    return str(failed.value)
