"""What goes to a server and to nobody else: headers, cookies and tokens, over redirects and in errors."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from starlette.datastructures import Headers

from proxy.errors import ServerDown
from proxy.servers.authorized import ServerClient
from proxy.servers.config import ServerConfig
from proxy.servers.connection import Terms, connect
from proxy.servers.logins import Login, LoginStore
from proxy.servers.oauth_tokens import Keyring
from proxy.servers.sealing import Sealer
from proxy.servers.transports import open_transport
from tests.fixtures.authorization import Recording, serving
from tests.fixtures.modern import asgi_app
from tests.fixtures.running import LOOPBACK, free_port
from tests.proxy.servers.conftest import LIMIT_S, call, config, text

pytestmark = pytest.mark.anyio

SECRETS = ("access-secret", "hunter2", "cookie-secret")


async def nothing(*_: object) -> None:
    pass


def keyring_with_login(folder: Path, server: ServerConfig) -> Keyring:
    store = LoginStore(folder / "logins", Sealer(folder / "secret.key", {}))
    login = Login(
        access_token="access-secret", obtained_at=0.0, token_endpoint="https://x.example", resource="", client_id="c"
    )
    store.save(server, login)
    return Keyring(store)


def server_at(port: int, path: str = "mcp") -> ServerConfig:
    return config({"url": f"http://{LOOPBACK}:{port}/{path}", "headers": {"X-Key": "hunter2"}})


async def add(server: ServerConfig, keyring: Keyring) -> str:
    with anyio.fail_after(LIMIT_S):
        async with connect(server, partial(open_transport, keyring=keyring), Terms(on_notice=nothing)) as connection:
            return text(await connection.request(call("add", a=2, b=3)))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_another_origin_is_not_followed_and_gets_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    port, other_port = free_port(), free_port()
    other, server = Recording(200, body={}), server_at(port)
    first = Recording(status, {"location": f"http://{LOOPBACK}:{other_port}/mcp", "set-cookie": "s=cookie-secret"})
    async with serving(first, port), serving(other, other_port):
        with pytest.raises(ServerDown) as failed:
            await add(server, keyring_with_login(tmp_path, server))
    assert other.seen == []
    assert {headers["authorization"] for *_, headers in first.seen} == {"Bearer access-secret"}
    assert f"{LOOPBACK}:{other_port}" in str(failed.value)
    assert not any(secret in str(failed.value) or secret in caplog.text for secret in SECRETS)


async def test_a_redirect_within_the_origin_is_followed_with_everything(tmp_path: Path) -> None:
    port = free_port()
    inner, seen = asgi_app(sse=False, legacy_only=False), list[tuple[str, Headers]]()

    async def moved(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append((scope["path"], Headers(scope=scope)))
            if scope["path"] == "/old":
                await Recording(307, {"location": "/mcp"})(scope, receive, send)
                return
        await inner(scope, receive, send)

    server = server_at(port, "old")
    async with serving(moved, port):
        assert await add(server, keyring_with_login(tmp_path, server)) == "5"
    followed = [headers for path, headers in seen if path == "/mcp"]
    assert followed
    assert {(headers["authorization"], headers["x-key"]) for headers in followed} == {
        ("Bearer access-secret", "hunter2")
    }


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1/mcp", "http://127.0.0.1:81/mcp", "http://localhost/mcp", "http://127.0.0.1.:80/mcp"]
)
async def test_the_client_of_a_server_sends_to_no_other_origin(url: str) -> None:
    async with ServerClient(replace(server_at(80)), None) as client:
        with pytest.raises(ServerDown, match="redirects"):
            await client.get(url)


async def test_a_server_that_refuses_a_good_login_says_so_and_not_the_token(tmp_path: Path) -> None:
    port = free_port()
    server, place = server_at(port), Recording(401, {"www-authenticate": "Bearer"})
    async with serving(place, port):
        with pytest.raises(ServerDown, match="toolatlas servers login srv") as failed:
            await add(server, keyring_with_login(tmp_path, server))
    assert not any(secret in str(failed.value) for secret in SECRETS)
    # Without a refresh token there is nothing to try a second time.
    assert len(place.seen) == 1


async def test_a_login_that_cannot_be_read_keeps_the_server_down_with_the_reason(tmp_path: Path) -> None:
    port = free_port()
    server, place = server_at(port), Recording(200)
    keyring = keyring_with_login(tmp_path, server)
    (file,) = (tmp_path / "logins").glob("*.login")
    file.write_bytes(b"damaged")
    async with serving(place, port):
        with pytest.raises(ServerDown, match="cannot be read"):
            await add(server, keyring)
    assert place.seen == []
    assert file.read_bytes() == b"damaged"


async def test_requests_are_not_logged_with_their_secrets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("toolatlas", "mcp"):
        caplog.set_level(logging.DEBUG, name)
    port = free_port()
    server = server_at(port)
    async with serving(asgi_app(sse=False, legacy_only=False), port):
        assert await add(server, keyring_with_login(tmp_path, server)) == "5"
    assert not any(secret in message for secret in SECRETS for message in caplog.messages)


async def test_the_cookies_of_a_server_come_back_to_it(tmp_path: Path) -> None:
    """Load balancers tell by them where a session lives."""
    port, place = free_port(), Recording(200, {"set-cookie": "sticky=1; Path=/"}, {})
    async with serving(place, port), ServerClient(server_at(port), None) as client:
        for _ in range(2):
            await client.post(f"http://{LOOPBACK}:{port}/mcp")
    assert [headers.get("cookie") for *_, headers in place.seen] == [None, "sticky=1"]
    assert isinstance(client, httpx2.AsyncClient)
