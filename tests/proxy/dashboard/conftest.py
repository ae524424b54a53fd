"""The dashboard over a real database, in process."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.dashboard.application import build_dashboard
from proxy.dashboard.servers import ServerLine
from proxy.endpoint.tokens import TokenStore
from proxy.settings import Settings
from proxy.store.database import Database
from proxy.store.migrating import migrate
from tests.fixtures.databases import database, database_url, postgres_server

__all__ = ["database", "database_url", "postgres_server"]

BASE = "http://127.0.0.1:8765"
KEY = b"k" * 32
SERVERS = (
    ServerLine(name="github", written="github", phase="ready", reason=None, tools=41),
    ServerLine(name="mail server", written="mail_server", phase="down", reason="it ended with exit code 1", tools=0),
)
FORM_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')


class _Metrics:
    """Stands where the gateway's metrics will: behind the guard, no part of it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


async def _metrics(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("calls_total 7")(scope, receive, send)


@dataclass
class Site:
    """The dashboard of one gateway."""

    database: Database
    tokens: TokenStore
    folder: Path
    servers: Sequence[ServerLine] = SERVERS
    key: bytes = KEY
    host: str = "127.0.0.1"
    public_url: str | None = None
    servers_host: Path | None = None
    allowed: list[str] = field(default_factory=lambda: ["127.0.0.1:*", "tools.example.com"])

    def app(self) -> Starlette:
        settings = Settings(
            config=self.folder / "mcp.json",
            state_dir=self.folder,
            cache_dir=self.folder,
            host=self.host,
            public_url=self.public_url,
            servers_host=self.servers_host,
        )
        dashboard = build_dashboard(
            self.database, self.tokens, lambda: self.servers, settings, self.security(), self.key
        )
        metrics = Route("/metrics", _Metrics(dashboard.guard.protect(_metrics)))
        return Starlette(routes=[*dashboard.routes, metrics])

    def security(self) -> TransportSecuritySettings:
        origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in self.allowed]
        return TransportSecuritySettings(allowed_hosts=self.allowed, allowed_origins=origins)

    def client(self, **options: Any) -> httpx2.AsyncClient:
        """A new browser, or program, before a new start of the gateway."""
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(self.app()), base_url=BASE, **options)


async def sign_in(http: httpx2.AsyncClient, secret: str, **fields: str) -> httpx2.Response:
    """As a person does: open the form, fill it in, send it."""
    form = await http.get("/ui/login")
    found = FORM_TOKEN.search(form.text)
    assert found is not None, form.text
    return await http.post("/ui/login", data={"token": secret, "form_token": found[1], **fields})


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


@pytest.fixture
def tokens(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "state" / "tokens.json")


@pytest.fixture
async def site(tokens: TokenStore, tmp_path: Path) -> AsyncIterator[Site]:
    """Over SQLite."""
    url = f"sqlite:///{tmp_path / 'log.db'}"
    await migrate(url)
    database = Database(url)
    yield Site(database, tokens, tmp_path)
    await database.close()


@pytest.fixture
def each_site(database: Database, tokens: TokenStore, tmp_path: Path) -> Site:
    """Over SQLite, and over PostgreSQL."""
    return Site(database, tokens, tmp_path)


def request_of(path: str) -> Request:
    """A GET request as uvicorn would hand it over."""
    raw, _, query = path.partition("?")
    return Request(
        {"type": "http", "method": "GET", "path": raw, "raw_path": raw.encode(), "query_string": query.encode()}
    )
