"""Sessions of people in a browser: a signed cookie that names their token, so that every replica knows it.

Above: guard.py reads them, signing.py begins and ends them. Below: the token file. A session lives no longer than its
token: revoking or replacing that ends it at the next request.
"""

from __future__ import annotations

import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac_digest

from proxy.endpoint.tokens import Scope, TokenInfo, TokenStore

SESSION_S = 8 * 3600
"""How long a session lasts, used or not."""
MAX_ENDED = 10_000
"""Sessions ended before their time that are remembered. The oldest go first."""


@dataclass(frozen=True, slots=True)
class Session:
    """One signed-in browser."""

    label: str
    """Of the token that it signed in with."""
    nonce: str
    expires: int
    """Unix time in s."""


class Sessions:
    """Makes and reads the cookies.

    `key` must be the same in all replicas and secret: whoever knows it and the token file can make a session.
    """

    def __init__(self, key: bytes, tokens: TokenStore, clock: Callable[[], float] = time.time) -> None:
        # The key serves other ends too: what is signed here must be good for nothing there.
        self._key = hmac_digest(key, b"toolatlas dashboard", sha256)
        self._tokens = tokens
        self._clock = clock
        self._ended: OrderedDict[str, None] = OrderedDict()

    def begin(self, info: TokenInfo) -> str:
        """The cookie of a new session of that token, which must be valid."""
        session = Session(info.label, secrets.token_urlsafe(18), int(self._clock()) + SESSION_S)
        return self._sealed(session, self._digest(session.label) or "")

    def read(self, cookie: str) -> Session | None:
        """The session that a cookie stands for; None where it is over, or was never one.

        Raises:
            ConfigurationError: The token file cannot be read.
        """
        try:
            payload = urlsafe_b64decode(cookie.encode("ascii")).decode("ascii")
            label, nonce, expires, _ = payload.split(":")
            session = Session(label, nonce, int(expires))
        except (ValueError, NotBase64):
            return None
        digest = self._digest(label)
        if digest is None or not compare_digest(self._sealed(session, digest), cookie):
            return None
        return None if nonce in self._ended or session.expires <= self._clock() else session

    def end(self, session: Session) -> None:
        """Make its cookie worthless here, also where somebody kept a copy."""
        self._ended[session.nonce] = None
        while len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)

    def form_token(self, secret: str) -> str:
        """What a form must send back. `secret` is known to no other site: the session's nonce, or that of a cookie."""
        return hmac_digest(self._key, f"form:{secret}".encode("utf-8", "surrogatepass"), sha256).hex()

    def _digest(self, label: str) -> str | None:
        found = self._tokens.labelled(label)
        return found[1] if found is not None and found[0].allows(Scope.VIEW) else None

    def _sealed(self, session: Session, token_digest: str) -> str:
        payload = f"{session.label}:{session.nonce}:{session.expires}"
        seal = hmac_digest(self._key, f"session:{payload}:{token_digest}".encode(), sha256).hex()
        return urlsafe_b64encode(f"{payload}:{seal}".encode()).decode()


class Attempts:
    """Bounds how often one address may fail to sign in, and with that what it can have written to the log."""

    def __init__(
        self,
        limit: int = 10,
        window_s: float = 60.0,
        addresses: int = 1_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = limit
        self._window_s = window_s
        self._addresses = addresses
        self._clock = clock
        self._failed: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """Address -> (beginning of its window, failures since)."""

    def wait_s(self, address: str) -> float:
        """How long that address has to wait before it may try again; 0 if not at all."""
        began, count = self._failed.get(address, (0.0, 0))
        left = began + self._window_s - self._clock()
        return left if count >= self._limit and left > 0 else 0.0

    def failed(self, address: str) -> None:
        """Count a failure."""
        now = self._clock()
        began, count = self._failed.pop(address, (now, 0))
        self._failed[address] = (began, count + 1) if now - began < self._window_s else (now, 1)
        while len(self._failed) > self._addresses:
            self._failed.popitem(last=False)
