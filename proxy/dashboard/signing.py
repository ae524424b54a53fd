"""Signing in with a token and out again.

Above: application.py. Below: guard.py, sessions.py, forms.py.
"""

from __future__ import annotations

import logging
import math

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proxy.dashboard.forms import Forms, fields_of
from proxy.dashboard.guard import Guard, Refused
from proxy.dashboard.sessions import SESSION_S, Attempts, Sessions
from proxy.dashboard.templating import Templates
from proxy.dashboard.ways import place_of
from proxy.endpoint.tokens import Scope, TokenStore
from proxy.errors import ConfigurationError

logger = logging.getLogger("toolatlas.dashboard")

MAX_FORM_BYTES = 8_192
MAX_FIELDS = 20


class Signing:
    """`/ui/login` and `/ui/logout`."""

    def __init__(
        self,
        tokens: TokenStore,
        sessions: Sessions,
        guard: Guard,
        forms: Forms,
        templates: Templates,
        *,
        secure: bool,
        attempts: Attempts | None = None,
    ) -> None:
        self._tokens = tokens
        self._sessions = sessions
        self._guard = guard
        self._forms = forms
        self._templates = templates
        self._secure = secure
        self._attempts = attempts or Attempts()

    async def form(self, request: Request) -> Response:
        """GET /ui/login."""
        await self._guard.check_origin(request)
        return await self._form(request, place_of(request.query_params.get("next", "")))

    async def sign_in(self, request: Request) -> Response:
        """POST /ui/login."""
        await self._guard.check_origin(request)
        fields = await fields_of(request, max_bytes=MAX_FORM_BYTES, max_fields=MAX_FIELDS)
        place = place_of(fields.get("next", ""))
        if not self._forms.genuine(request, None, fields):
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
        cookie = self._sessions.begin(info)
        answer.set_cookie(
            self._guard.cookie, cookie, SESSION_S, path="/", secure=self._secure, httponly=True, samesite="strict"
        )
        self._forms.take_back(answer)
        return answer

    async def sign_out(self, request: Request) -> Response:
        """POST /ui/logout."""
        viewer = await self._guard.viewer(request)
        if viewer.session is None:
            raise Refused(400, "There is no session to end.")
        fields = await fields_of(request, max_bytes=MAX_FORM_BYTES, max_fields=MAX_FIELDS)
        if not self._forms.genuine(request, viewer, fields):
            raise Refused(403, "This form was out of date, or another site sent it. Nothing was done.")
        self._sessions.end(viewer.session)
        answer = RedirectResponse("login", 303)
        answer.delete_cookie(self._guard.cookie, path="/", secure=self._secure, httponly=True, samesite="strict")
        return answer

    async def _form(
        self,
        request: Request,
        place: str,
        problem: str | None = None,
        status: int = 200,
        headers: dict[str, str] | None = None,
    ) -> Response:
        secret = self._forms.secret_of(request, None)
        # Browsers send no cookie of ours with a link from another site, so whoever follows one seems signed out.
        from_elsewhere = request.headers.get("sec-fetch-site") == "cross-site"
        answer = await self._templates.page(
            "login.html",
            status,
            up="",
            place=place,
            problem=problem,
            from_elsewhere=from_elsewhere,
            form_token=self._forms.token(secret),
        )
        answer.headers.update(headers or {})
        self._forms.give(answer, secret)
        return answer
