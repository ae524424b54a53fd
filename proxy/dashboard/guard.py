"""Who may see pages, REST and metrics, and the headers that every answer bears.

Above: application.py puts it around all of them. Below: sessions.py, the token file, and the SDK's check of Host and
Origin.

Three ways in: a token of scope `view` or `admin` as `Authorization: Bearer …`; a session that was begun with such a
token; or, where the gateway asks agents for no token, runs the servers itself and has no token, being on this machine.
A token of an agent is refused everywhere. Without a token in the header, Host must be a name of this gateway: a page of
another site, whose name was made to lead here, gets nothing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from proxy.dashboard.sessions import Session, Sessions
from proxy.endpoint.tokens import ANONYMOUS, TokenInfo, TokenStore
from proxy.endpoint.tokens import Scope as TokenScope
from proxy.errors import ConfigurationError

logger = logging.getLogger("toolatlas.dashboard")

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: browsers would then hide the Origin of our own forms too.
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}

_UNREADABLE = "The gateway cannot read its token file, so it admits nobody until its owner repairs it."
_BAD_TOKEN = "This token is unknown, revoked or expired."
_NO_SCOPE = "This token does not open pages, REST or metrics: that takes one of scope view or admin."
NO_LABELS = (
    "This needs a token that may label: of scope label, or admin; for the pages, of scopes view and label. The owner "
    "makes one with `toolatlas token create NAME --scope view --scope label`."
)
_TWO_TOKENS = "This request has two `Authorization` headers: send one."
_NO_TOKEN = (
    "This needs a token of scope view or admin, sent as `Authorization: Bearer …`. The gateway's owner makes one with "
    "`toolatlas token create NAME --scope view`."
)


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who is looking."""

    label: str
    may_label: bool
    """Whether what they say of an episode is taken."""
    session: Session | None = None
    """None for a program with a token, and where pages are open."""


class Refused(Exception):
    """`str` of it says why, and what to do."""

    def __init__(self, status: int, message: str, challenge: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.challenge = challenge
        """For WWW-Authenticate."""


class Guard:
    """Tells who comes with a request.

    Args:
        open_to_all: Whether pages need no token, as long as there is none.
        secure: Whether people come over https, so that cookies may be held to it.
    """

    def __init__(
        self,
        tokens: TokenStore,
        sessions: Sessions,
        security: TransportSecuritySettings,
        *,
        open_to_all: bool,
        secure: bool,
    ) -> None:
        self._tokens = tokens
        self._sessions = sessions
        self._security = TransportSecurityMiddleware(security)
        self._open_to_all = open_to_all
        self.cookie = "__Host-toolatlas" if secure else "toolatlas"

    async def viewer(self, request: Request, scope: TokenScope = TokenScope.VIEW) -> Viewer:
        """Who is looking, with a token of that scope.

        Raises:
            Refused: Nobody who may.
        """
        given = request.headers.getlist("authorization")
        try:
            if given:
                info = self._bearer(given, scope)
                return Viewer(info.label, info.allows(TokenScope.LABEL))
            await self.check_origin(request)
            session = self._sessions.read(request.cookies.get(self.cookie, ""))
            if session is not None:
                return self._signed_in(session, scope)
            if self._open_to_all and self._tokens.empty:
                return Viewer(ANONYMOUS, may_label=True)
        except ConfigurationError as error:
            logger.error("%s", error)
            raise Refused(503, _UNREADABLE) from None
        raise Refused(401, _NO_TOKEN, "Bearer")

    async def check_origin(self, request: Request) -> None:
        """Raises Refused where Host or Origin is of another site."""
        answer = await self._security.validate_request(request)
        if answer is not None:
            text = bytes(answer.body).decode()
            raise Refused(
                answer.status_code,
                f"{text}: this is no address of the gateway. Its owner names more with --allowed-host or --public-url.",
            )

    def _signed_in(self, session: Session, scope: TokenScope) -> Viewer:
        found = self._tokens.labelled(session.label)
        viewer = Viewer(session.label, found is not None and found[0].allows(TokenScope.LABEL), session)
        if scope is TokenScope.LABEL and not viewer.may_label:
            raise Refused(403, NO_LABELS)
        return viewer

    def _bearer(self, given: list[str], scope: TokenScope) -> TokenInfo:
        if len(given) > 1:
            raise Refused(400, _TWO_TOKENS, 'Bearer error="invalid_request"')
        scheme, _, secret = given[0].partition(" ")
        info = self._tokens.verify(secret.strip()) if scheme.lower() == "bearer" else None
        if info is None:
            raise Refused(401, _BAD_TOKEN, 'Bearer error="invalid_token"')
        if not info.allows(scope):
            raise Refused(
                403, _NO_SCOPE if scope is TokenScope.VIEW else NO_LABELS, 'Bearer error="insufficient_scope"'
            )
        return info

    def protect(self, app: ASGIApp) -> ASGIApp:
        """`app` for those who may see it, with JSON for the others; for `/metrics`, say."""

        async def protected(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await self.viewer(Request(scope, receive))
            except Refused as refused:
                await refusal(refused)(scope, receive, send)
                return
            await app(scope, receive, send)

        return Hardened(protected)


class Hardened:
    """ASGI middleware: every answer bears HEADERS, errors and redirections too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_hardened)


def refusal(refused: Refused) -> JSONResponse:
    """The answer to a program."""
    headers = {} if refused.challenge is None else {"www-authenticate": refused.challenge}
    return JSONResponse({"error": str(refused)}, refused.status, headers)
