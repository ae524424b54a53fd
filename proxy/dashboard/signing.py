"""Signing in with a token and out again: the only routes that change anything, and all they change is a session.

Above: application.py. Below: guard.py, sessions.py. Each form carries a token that no other site can know: made from
the session where there is one, else from a cookie that came with the form.
"""

from __future__ import annotations

import logging
import math
import re
import secrets
from hmac import compare_digest
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proxy.dashboard.guard import Guard, Refused
from proxy.dashboard.sessions import SESSION_S, Attempts, Sessions
from proxy.dashboard.templating import Templates
from proxy.dashboard.ways import place_of
from proxy.endpoint.tokens import Scope, TokenStore
from proxy.errors import ConfigurationError

logger = logging.getLogger("toolatlas.dashboard")

MAX_FORM_BYTES = 8_192
_SECRET = re.compile(r"[A-Za-z0-9_-]{32}")
"""Of a form's cookie, as `secrets.token_urlsafe(24)` writes it."""


class Signing:
    """`/ui/login` and `/ui/logout`."""

    def __init__(
        self,
        tokens: TokenStore,
        sessions: Sessions,
        guard: Guard,
        templates: Templates,
        *,
        secure: bool,
        attempts: Attempts | None = None,
    ) -> None:
        self._tokens = tokens
        self._sessions = sessions
        self._guard = guard
        self._templates = templates
        self._secure = secure
        self._attempts = attempts or Attempts()
        self._form_cookie = f"{guard.cookie}-form"

    async def form(self, request: Request) -> Response:
        """GET /ui/login."""
        await self._guard.check_origin(request)
        return await self._form(request, place_of(request.query_params.get("next", "")))

    async def sign_in(self, request: Request) -> Response:
        """POST /ui/login."""
        await self._guard.check_origin(request)
        fields = await _fields(request)
        place = place_of(fields.get("next", ""))
        if not self._genuine(request.cookies.get(self._form_cookie, ""), fields):
            problem = "This form was out of date, or another site sent it. Nothing was done: try once more."
            return await self._form(request, place, problem, 403)
        try:
            info = self._tokens.verify(fields.get("token", "").strip())
        except ConfigurationError as error:
            logger.error("%s", error)
            problem = "The gateway cannot read its token file, so it admits nobody until its owner repairs it."
            return await self._form(request, place, problem, 503)
        if info is None or not info.allows(Scope.VIEW):
            # Of tokens that are not good alone: behind a reverse proxy all people have one address, and whoever fails
            # again and again must not lock out the others. Guessing 256 bits is not what has to be slowed down.
            address = request.client.host if request.client is not None else ""
            if wait_s := math.ceil(self._attempts.wait_s(address)):
                problem = f"Too many tokens that were not good came from your address: wait {wait_s} s."
                return await self._form(request, place, problem, 429, {"retry-after": str(wait_s)})
            self._attempts.failed(address)
            problem = (
                "This token is unknown, revoked or expired."
                if info is None
                else "This token does not open pages: that takes one of scope view or admin."
            )
            logger.warning("a sign-in from %s was refused", address)
            return await self._form(request, place, problem, 403)
        answer = RedirectResponse(place, 303)
        self._set(answer, self._guard.cookie, self._sessions.begin(info), SESSION_S)
        answer.delete_cookie(self._form_cookie, path="/", secure=self._secure, httponly=True, samesite="strict")
        return answer

    async def sign_out(self, request: Request) -> Response:
        """POST /ui/logout."""
        viewer = await self._guard.viewer(request)
        if viewer.session is None:
            raise Refused(400, "There is no session to end.")
        if not self._genuine(viewer.session.nonce, await _fields(request)):
            raise Refused(403, "This form was out of date, or another site sent it. Nothing was done.")
        self._sessions.end(viewer.session)
        answer = RedirectResponse("login", 303)
        answer.delete_cookie(self._guard.cookie, path="/", secure=self._secure, httponly=True, samesite="strict")
        return answer

    def _genuine(self, secret: str, fields: dict[str, str]) -> bool:
        sent = fields.get("form_token", "").encode("utf-8", "surrogatepass")
        return bool(secret) and compare_digest(self._sessions.form_token(secret).encode(), sent)

    async def _form(
        self,
        request: Request,
        place: str,
        problem: str | None = None,
        status: int = 200,
        headers: dict[str, str] | None = None,
    ) -> Response:
        # One that is there stays, so that forms in two tabs both work.
        given = request.cookies.get(self._form_cookie, "")
        secret = given if _SECRET.fullmatch(given) else secrets.token_urlsafe(24)
        # Browsers send no cookie of ours with a link from another site, so whoever follows one seems signed out.
        from_elsewhere = request.headers.get("sec-fetch-site") == "cross-site"
        answer = await self._templates.page(
            "login.html",
            status,
            up="",
            place=place,
            problem=problem,
            from_elsewhere=from_elsewhere,
            form_token=self._sessions.form_token(secret),
        )
        answer.headers.update(headers or {})
        self._set(answer, self._form_cookie, secret, None)
        return answer

    def _set(self, answer: Response, name: str, value: str, life_s: int | None) -> None:
        answer.set_cookie(name, value, life_s, path="/", secure=self._secure, httponly=True, samesite="strict")


async def _fields(request: Request) -> dict[str, str]:
    """The fields of a form. Raises Refused for what is none, or too large."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise Refused(415, "A form is sent as application/x-www-form-urlencoded.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise Refused(413, f"A form of at most {MAX_FORM_BYTES} bytes is expected.")
    try:
        fields = parse_qs(body.decode("ascii"), max_num_fields=20)
    except ValueError:
        raise Refused(400, "This is no form.") from None
    return {name: values[0] for name, values in fields.items()}
