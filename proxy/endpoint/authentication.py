"""Who is calling: turns `Authorization: Bearer …` into the user that the MCP SDK binds sessions to, or refuses.

Above: the HTTP application puts it around the routes that agents reach. Below: tokens.py knows static tokens,
resource_server.py access tokens of OAuth.
"""

from __future__ import annotations

import json
import logging
import string
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken, principal_components
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.endpoint.issuer import RETRY_S, IssuerUnreachable
from proxy.endpoint.resource_server import ResourceServer, TokenRefused
from proxy.endpoint.tokens import ANONYMOUS, PREFIX, TokenInfo, TokenStore
from proxy.endpoint.tokens import Scope as TokenScope
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
_NO_AGENT = (
    "This token is not for agents: it has another scope, and can call no tools. The gateway's owner makes one that can "
    "with `toolatlas token create NAME`."
)
_SERVERS = "toolatlas.servers"
"""Where a request keeps the servers that its token is held to."""
_CREDENTIAL = "toolatlas.credential"
"""Where a request keeps the value of the header that was taken from it."""
_TWO_TOKENS = "This request has two `Authorization` headers: send one."
_ISSUER_AWAY = (
    "The gateway cannot read the keys of the authorization server that made this access token, so it can neither take"
    f" nor refuse it. Try again in {RETRY_S:.0f} s; if it stays so, the gateway's owner finds the reason in its log."
)
# Spaces part a label, and a percent sign begins what is escaped in it.
_READABLE = string.punctuation.replace("%", "")


class BearerGate:
    """ASGI middleware. A request with a bad token is refused even where none is required: its sender expects a name.

    The token ends here: what lies behind does not get the header, so it can neither be logged nor passed to a server.
    Only another gateway is sent it, with a request that is passed on to it (replicas.py).
    """

    def __init__(
        self, app: ASGIApp, tokens: TokenStore, required: bool, resource_server: ResourceServer | None = None
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._required = required
        self._resource_server = resource_server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        server = scope.get("path_params", {}).get("server")
        try:
            admitted = await self._admit(scope, server)
        except _Refusal as refusal:
            await self._refuse(refusal, server, scope, send)
            return
        if admitted is not None:
            user, servers = admitted
            headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
            given = next(value for name, value in scope["headers"] if name == b"authorization")
            scope = {**scope, "headers": headers, "user": user, _SERVERS: servers, _CREDENTIAL: given}
        await self._app(scope, receive, send)

    async def _admit(self, scope: Scope, server: str | None) -> tuple[AuthenticatedUser, frozenset[str] | None] | None:
        """Who it is, and to which servers the token is held."""
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if not given:
            if self._required:
                raise _Refusal(401, self._no_token(server))
            return None
        if len(given) > 1:
            # Which of them counts would depend on who reads them.
            raise _Refusal(400, _TWO_TOKENS, "invalid_request")
        scheme, _, secret = given[0].decode("latin-1").partition(" ")
        secret = secret.strip()
        if scheme.lower() != "bearer":
            raise _Refusal(401, _BAD_TOKEN, "invalid_token")
        if self._resource_server is None or secret.startswith(PREFIX):
            info = self._known(secret)
            user = AuthenticatedUser(AccessToken(token="withheld", client_id=info.label, scopes=[]))
            return user, None if info.servers is None else frozenset(info.servers)
        return AuthenticatedUser(await self._verified(self._resource_server, secret, server)), None

    def _known(self, secret: str) -> TokenInfo:
        try:
            info = self._tokens.verify(secret)
        except ConfigurationError as error:
            logger.error("%s", error)
            raise _Refusal(503, _UNREADABLE) from None
        if info is None:
            raise _Refusal(401, _BAD_TOKEN, "invalid_token")
        if not info.allows(TokenScope.AGENT):
            raise _Refusal(403, _NO_AGENT, "insufficient_scope")
        return info

    async def _verified(self, resource_server: ResourceServer, token: str, server: str | None) -> AccessToken:
        try:
            return await resource_server.verify(token, server)
        except IssuerUnreachable:
            raise _Refusal(503, _ISSUER_AWAY, retry_after_s=RETRY_S) from None
        except TokenRefused as refused:
            status = 403 if refused.error == "insufficient_scope" else 401
            message = f"This access token is not good here. {refused} {self._how_to_get_one(resource_server, server)}"
            raise _Refusal(status, message, refused.error, str(refused)) from None

    def _no_token(self, server: str | None) -> str:
        if self._resource_server is None:
            return _NO_TOKEN
        return f"{_NO_TOKEN} Access tokens are taken too. {self._how_to_get_one(self._resource_server, server)}"

    def _how_to_get_one(self, resource_server: ResourceServer, server: str | None) -> str:
        audience, issuers = resource_server.audiences(server)[0], " or ".join(resource_server.issuers)
        return f"A client that knows OAuth gets one for {audience} from {issuers}."

    async def _refuse(self, refusal: _Refusal, server: str | None, scope: Scope, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "token refused"})
            return
        error = {"code": UNAUTHORIZED, "message": refusal.message}
        body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if refusal.status != 503:
            headers.append((b"www-authenticate", self._challenge(refusal, server)))
        if refusal.retry_after_s is not None:
            headers.append((b"retry-after", f"{refusal.retry_after_s:.0f}".encode()))
        await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _challenge(self, refusal: _Refusal, server: str | None) -> bytes:
        if self._resource_server is not None:
            return self._resource_server.challenge(server, refusal.error, refusal.reason)
        return f'Bearer error="{refusal.error}"'.encode() if refusal.error else b"Bearer"


class _Refusal(Exception):
    """`message` is for whoever reads the body; `error` and `reason`, in ASCII, are for the challenge."""

    def __init__(
        self,
        status: int,
        message: str,
        error: str | None = None,
        reason: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.error = error
        self.reason = reason
        self.retry_after_s = retry_after_s


def agent_label(scope: Mapping[str, Any]) -> str:
    """Who came with a request: the label of a static token; issuer, client and subject of an access token, with a space
    between; `local` without either. A label has no space, so none can be taken for a subject, and the other way round.
    """
    user = scope.get("user")
    if not isinstance(user, AuthenticatedUser):
        return ANONYMOUS
    client, issuer, subject = principal_components(user.access_token)
    if issuer is None or subject is None:
        return client
    return " ".join((issuer, quote(client, _READABLE), quote(subject, _READABLE)))


def agent_servers(scope: Mapping[str, Any]) -> frozenset[str] | None:
    """Configured names of the servers that whoever came with a request may use; None means all."""
    return scope.get(_SERVERS)


def take_credential(scope: Scope) -> bytes | None:
    """The value of the `Authorization` header that a request came with, for another gateway to check again. The request
    has it no more then."""
    return scope.pop(_CREDENTIAL, None)
