"""The FastAPI application: `/mcp`, `/mcp/{server}`, `/healthz`, `/readyz`, and what guards them.

Above: uvicorn (commands/serve.py). Below: the SDK's session manager, which speaks both protocol eras on one path.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from proxy import __version__
from proxy.endpoint.authentication import BearerGate, agent_servers
from proxy.endpoint.replicas import Replicas
from proxy.endpoint.resource_server import ResourceServer
from proxy.endpoint.shown_schemas import ServedAt
from proxy.endpoint.stale import SESSION_HEADER, StaleSession
from proxy.endpoint.tokens import TokenStore
from proxy.errors import GatewayError
from proxy.gateway import Gateway
from proxy.servers.supervisor import Phase
from proxy.settings import LOOPBACK, Settings


class Activity:
    """When the gateway was last of use to anybody, for those who started it only for a while."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self._open = 0

    @property
    def idle_s(self) -> float:
        return 0.0 if self._open else self._clock() - self._last

    def watch(self, app: ASGIApp) -> ASGIApp:
        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            self._open += 1
            try:
                await app(scope, receive, send)
            finally:
                self._open -= 1
                self._last = self._clock()

        return watched


def build_http(
    gateway: Gateway,
    server: Server[Any],
    tokens: TokenStore,
    settings: Settings,
    security: TransportSecuritySettings,
    life: Callable[[], AbstractAsyncContextManager[None]],
    activity: Activity,
    resource_server: ResourceServer | None = None,
    pages: Sequence[BaseRoute] = (),
) -> FastAPI:
    """Put the application together; `life` is entered for as long as it runs, `pages` are for people and programs
    other than agents."""
    manager = StreamableHTTPSessionManager(
        server, security_settings=security, max_request_body_size=settings.max_request_bytes
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with life(), replicas.running(), manager.run():
            yield

    app = FastAPI(
        title="toolatlas",
        version=__version__,
        lifespan=lifespan,
        redirect_slashes=False,
        # Its pages of documentation run scripts of another site, here, where the pages of the log are.
        openapi_url=None,
        # FastAPI's spans would stand beside those of proxy/observing, and its logs hold what was sent.
        telemetry={"auto_configure": False, "tracing": False, "metrics": False, "logs": False},
    )
    mcp: ASGIApp = _TellTooLarge(StaleSession(StreamableHTTPASGIApp(manager)), settings.max_request_bytes)
    mcp = _KnownServer(ServedAt(mcp), gateway)
    # Within the gate: nobody without a credential has bodies kept in memory or other gateways asked.
    replicas = Replicas(mcp, settings.replica, settings.peers, settings.max_request_bytes)
    mcp = _Endpoint(BearerGate(replicas, tokens, settings.guarded, resource_server))
    for path in ("/mcp", "/mcp/", "/mcp/{server}", "/mcp/{server}/"):
        app.router.routes.append(Route(path, endpoint=mcp))
    if resource_server is not None:
        # Only then: clients that find OAuth here ignore a static token of their configuration.
        app.router.routes.extend(resource_server.routes())

    app.router.routes.extend(pages)

    async def healthz() -> dict[str, str]:
        """The process is alive."""
        return {"service": "toolatlas", "version": __version__, "status": "ok"}

    async def readyz() -> JSONResponse:
        """Agents can be served. Servers that are down do not make the gateway unready: the others work."""
        states = [gateway.pool.state(name).phase for name in gateway.pool.configs]
        counts = {phase.value: states.count(phase) for phase in Phase if phase in states}
        return JSONResponse({"status": "ready", "servers": counts, "tools": len(gateway.catalog.tools)})

    app.add_api_route("/healthz", healthz)
    app.add_api_route("/readyz", readyz)
    app.add_middleware(_Counted, activity=activity)
    return app


def transport_security(settings: Settings) -> TransportSecuritySettings:
    """Which hosts and origins are the gateway's own: no page of another site gets in under a name that leads here."""
    hosts = {*settings.allowed_hosts, *(LOOPBACK if settings.loopback else {settings.host}), "127.0.0.1", "localhost"}
    if settings.public_url is not None and (public := urlsplit(settings.public_url).hostname) is not None:
        hosts.add(public)
    names = sorted(f"[{host}]" if ":" in host and not host.startswith("[") else host for host in hosts)
    allowed = [name for host in names for name in (host, f"{host}:*")]
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in allowed]
    return TransportSecuritySettings(allowed_hosts=allowed, allowed_origins=origins)


class _Endpoint:
    """Starlette takes an object for an ASGI app and a function for a request handler."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class _Counted:
    """Any request, a health check of a waiting client too, keeps the gateway from exiting for idleness."""

    def __init__(self, app: ASGIApp, activity: Activity) -> None:
        self._app = activity.watch(app)
        # The lifespan is open as long as the process lives.
        self._unwatched = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._app if scope["type"] == "http" else self._unwatched)(scope, receive, send)


class _KnownServer:
    """`/mcp/{server}` of a server that does not exist is told so before a session is opened."""

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app = app
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path_params"].get("server")
        # A session goes on without its server: replies, cancellations and its end still have to arrive.
        if name is not None and not any(header == SESSION_HEADER for header, _ in scope["headers"]):
            try:
                seen = agent_servers(scope)
                catalog = self._gateway.catalog
                (catalog if seen is None else catalog.only(seen)).server(name)
            except GatewayError as error:
                await refuse(404, -32602, str(error), scope, receive, send)
                return
        await self._app(scope, receive, send)


class _TellTooLarge:
    """Gives the SDK's bare 413 a body that says what to do."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = False

        async def send_or_explain(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and message["status"] == 413:
                refused = True
                text = (
                    f"the request is larger than {self._limit} bytes; send less at once, for files a path or URL, "
                    "or raise --max-request-bytes"
                )
                await refuse(413, -32600, text, scope, receive, send)
            elif not refused:
                await send(message)

        await self._app(scope, receive, send_or_explain)


async def refuse(status: int, code: int, message: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer an HTTP request with a JSON-RPC error."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    await JSONResponse(body, status_code=status)(scope, receive, send)


def asked_server(request: Request | None) -> str | None:
    """The server of a `/mcp/{server}` request."""
    return None if request is None else request.path_params.get("server")


def asked_mode(request: Request | None) -> str | None:
    """The mode that `?mode=` asks for."""
    if request is None or not request.scope["query_string"]:
        return None
    return request.query_params.get("mode")
