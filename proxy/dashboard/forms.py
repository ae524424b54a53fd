"""Forms that only this gateway's own pages can send: each carries a token that no other site can know.

Above: signing.py, labelling.py. Below: sessions.py, which makes the token: from the session where there is one, else
from a cookie that came with the form.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from hmac import compare_digest
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response

from proxy.dashboard.guard import Refused, Viewer
from proxy.dashboard.sessions import Sessions

_SECRET = re.compile(r"[A-Za-z0-9_-]{32}")
"""Of a form's cookie, as `secrets.token_urlsafe(24)` writes it."""


class Forms:
    """Makes and checks the tokens.

    Args:
        cookie: Name of the session's cookie; that of forms is made from it.
        secure: Whether people come over https, so that cookies may be held to it.
    """

    def __init__(self, sessions: Sessions, cookie: str, *, secure: bool) -> None:
        self._sessions = sessions
        self._cookie = f"{cookie}-form"
        self._secure = secure

    def secret_of(self, request: Request, viewer: Viewer | None) -> str:
        """What the token of a form for this viewer is made from; a new one where nothing was given yet."""
        if viewer is not None and viewer.session is not None:
            return viewer.session.nonce
        # One that is there stays, so that forms in two tabs both work.
        given = request.cookies.get(self._cookie, "")
        return given if _SECRET.fullmatch(given) else secrets.token_urlsafe(24)

    def token(self, secret: str) -> str:
        """What the form must send back."""
        return self._sessions.form_token(secret)

    def genuine(self, request: Request, viewer: Viewer | None, fields: Mapping[str, str]) -> bool:
        """Whether the form that was sent is one that this viewer was given."""
        session = None if viewer is None else viewer.session
        secret = request.cookies.get(self._cookie, "") if session is None else session.nonce
        sent = fields.get("form_token", "").encode("utf-8", "surrogatepass")
        return bool(secret) and compare_digest(self.token(secret).encode(), sent)

    def give(self, answer: Response, secret: str) -> None:
        """Set the cookie that belongs to a form without a session."""
        answer.set_cookie(self._cookie, secret, path="/", secure=self._secure, httponly=True, samesite="strict")

    def take_back(self, answer: Response) -> None:
        """Delete that cookie."""
        answer.delete_cookie(self._cookie, path="/", secure=self._secure, httponly=True, samesite="strict")


async def fields_of(request: Request, *, max_bytes: int, max_fields: int) -> dict[str, str]:
    """The fields of a form; of several with one name the first. Raises Refused for what is none, or too large."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise Refused(415, "A form is sent as application/x-www-form-urlencoded.")
    body = await body_of(request, max_bytes)
    try:
        fields = parse_qs(body.decode("ascii"), max_num_fields=max_fields)
    except ValueError:
        raise Refused(400, "This is no form.") from None
    return {name: values[0] for name, values in fields.items()}


async def body_of(request: Request, max_bytes: int) -> bytes:
    """The body of a request. Raises Refused where it is too large, without having read more."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise Refused(413, f"At most {max_bytes:,} bytes are expected.")
    return body
