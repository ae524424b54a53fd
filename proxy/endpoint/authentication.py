"""Who is calling: turns `Authorization: Bearer …` into the user that the MCP SDK binds sessions to, or answers 401.

Above: the HTTP application puts it around the routes that agents reach. Below: tokens.py.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.endpoint.tokens import ANONYMOUS, TokenStore
from proxy.errors import ConfigurationError

logger = logging.getLogger(__name__)

UNAUTHORIZED = -32003
"""JSON-RPC code of a refusal, in MCP's range for implementations; -32000 and -32001 mean something else to the SDK."""

_NO_TOKEN = (
    "This gateway wants a token. Its owner makes one with `toolatlas token create NAME`; "
    "send it as the HTTP header `Authorization: Bearer …`."
)
_BAD_TOKEN = (
    "This token is unknown, revoked or expired. The gateway's owner makes a new one with "
    "`toolatlas token create NAME`; send it as the HTTP header `Authorization: Bearer …`."
)
_UNREADABLE = "The gateway cannot read its token file, so it admits no token until its owner repairs it."


class BearerGate:
    """ASGI middleware. A request with a bad token is refused even where none is required: its sender expects a name."""

    def __init__(self, app: ASGIApp, tokens: TokenStore, required: bool) -> None:
        self._app = app
        self._tokens = tokens
        self._required = required

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if not given:
            if self._required:
                await _refuse(scope, send, 401, _NO_TOKEN, b"Bearer")
            else:
                await self._app(scope, receive, send)
            return
        try:
            label = self._label(given)
        except ConfigurationError as error:
            logger.error("%s", error)
            await _refuse(scope, send, 503, _UNREADABLE, None)
            return
        if label is None:
            await _refuse(scope, send, 401, _BAD_TOKEN, b'Bearer error="invalid_token"')
            return
        user = AuthenticatedUser(AccessToken(token="withheld", client_id=label, scopes=[]))
        await self._app({**scope, "user": user}, receive, send)

    def _label(self, given: list[bytes]) -> str | None:
        """Whose token it is. Two headers are refused: which of them counts would depend on who reads them."""
        scheme, _, secret = given[0].decode("latin-1").partition(" ")
        if len(given) > 1 or scheme.lower() != "bearer":
            return None
        info = self._tokens.verify(secret.strip())
        return info.label if info else None


def agent_label(scope: Mapping[str, Any]) -> str:
    """The label of the token that a request came with, or `local` without one."""
    user = scope.get("user")
    return user.access_token.client_id if isinstance(user, AuthenticatedUser) else ANONYMOUS


async def _refuse(scope: Scope, send: Send, status: int, message: str, challenge: bytes | None) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": "token refused"})
        return
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": UNAUTHORIZED, "message": message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if challenge is not None:
        headers.append((b"www-authenticate", challenge))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
