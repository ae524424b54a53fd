"""The HTTP client of one server's connection: its headers, its login, and nothing of either for anybody else.

Above: transports.py, whose SDK transports send through it. Below: oauth_tokens.py. The SDK follows redirects only
within the server's origin; that nothing leaves it is held here once more.
"""

from __future__ import annotations

from typing import Any

import anyio
import httpx2
from mcp.types import JSONRPC_VERSION

from proxy.errors import GatewayError, ServerDown
from proxy.servers.config import ServerConfig
from proxy.servers.flights import note_session_lost
from proxy.servers.oauth_tokens import LoginNeeded, Tokens

# Connecting may be slow behind a VPN; reading has no limit here, since calls carry their own.
HTTP_TIMEOUT = httpx2.Timeout(20.0, read=None)
LOGIN_NEEDED = -32011
"""JSON-RPC code of the error in a refused request's place. The transport's own codes mean that the connection ended."""


def has_credentials(config: ServerConfig) -> bool:
    """Whether the entry itself says how the server knows us, so that there is nothing to log in to."""
    return bool(httpx2.URL(config.url).userinfo) or any(name.lower() == "authorization" for name in config.headers)


class ServerClient(httpx2.AsyncClient):
    """Talks to one server only. A refused request is sent again with a renewed token, once.

    Where that does not help, it is told in one of two ways: until the server has accepted something by raising, which
    fails the connection; later by a JSON-RPC error for the one request, since others may be under way. With
    `always_raise` it is the first in any case, and `refused` fires: the SSE transport drops errors of single requests.
    """

    def __init__(self, config: ServerConfig, tokens: Tokens | None, *, always_raise: bool = False) -> None:
        super().__init__(headers=dict(config.headers), timeout=HTTP_TIMEOUT)
        self._config = config
        self._tokens = None if has_credentials(config) else tokens
        self._origin = _key(httpx2.URL(config.url))
        self._accepted = False
        self._always_raise = always_raise
        self.refused = anyio.Event()
        self.failure: GatewayError | None = None

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """As httpx2's.

        Raises:
            ServerDown: The server refuses us, or redirects to another origin in a way that the SDK would follow.
        """
        if _key(request.url) != self._origin:
            raise ServerDown(
                self._config.name,
                f"it redirects from {request.url.host} over http to https; write the https address into its 'url'",
            )
        try:
            response = await self._authorized(request, options)
        except GatewayError as failure:
            return self._fail(request, failure)
        if response.status_code == 401 and request.method == "POST":
            await response.aclose()
            return self._fail(request, self._refusal())
        self._accepted = self._accepted or response.status_code != 401
        if response.status_code == 404 and "mcp-session-id" in request.headers:
            note_session_lost()
        return response

    async def _authorized(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        token = await self._tokens.current() if self._tokens is not None else None
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        response = await super().send(request, **options)
        if response.status_code != 401 or self._tokens is None:
            return response
        await response.aclose()
        request.headers["Authorization"] = f"Bearer {await self._tokens.after_refusal(token)}"
        return await super().send(request, **options)

    def _refusal(self) -> ServerDown:
        if self._tokens is not None:
            return self._tokens.refused_again()
        if has_credentials(self._config):
            return ServerDown(self._config.name, "it refuses the credentials in its entry (401); correct 'headers'")
        return LoginNeeded(self._config.name, "it asks for a login")

    def _fail(self, request: httpx2.Request, failure: GatewayError) -> httpx2.Response:
        if self._always_raise or not self._accepted or request.method != "POST":
            self.failure = failure
            self.refused.set()
            raise failure
        error = {"code": LOGIN_NEEDED, "message": f"server '{self._config.name}': {failure}"}
        return httpx2.Response(401, json={"jsonrpc": JSONRPC_VERSION, "id": None, "error": error}, request=request)


def _key(url: httpx2.URL) -> tuple[str, bytes, int | None]:
    """What makes an origin; httpx2 leaves a scheme's default port out and writes hosts in lower case."""
    return url.scheme, url.raw_host, url.port
