"""The public keys of one OAuth authorization server: found through its metadata, kept, and fetched again when due.

Above: resource_server.py checks tokens with them. Below: HTTP. It asks only the origin of the configured issuer, or the
JWKS address that the configuration names; redirects are not followed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import anyio
import httpx2
import jwt
from pydantic_core import from_json

from proxy.errors import GatewayError

logger = logging.getLogger(__name__)

FRESH_S = 600.0
"""Keys are fetched again after this, so that one that the issuer withdraws ends."""
KEPT_S = 3600.0
"""How long keys serve on while the issuer cannot be reached."""
RETRY_S = 10.0
"""Least time between two fetches for an unknown key, and after a failure: nobody may make us hammer the issuer."""
FETCH_S = 5.0
MAX_BYTES = 1_000_000


class IssuerUnreachable(GatewayError):
    """The keys of an issuer cannot be had, so its tokens can be neither accepted nor refused."""


class Issuer:
    """One authorization server that is trusted. `url` is compared as a string, as the OAuth documents demand.

    `clock` gives seconds and never goes back.
    """

    def __init__(self, url: str, jwks_url: str | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.url = url
        self._jwks_url = jwks_url
        self._clock = clock
        self._keys: Sequence[Mapping[str, Any]] = ()
        self._read: dict[tuple[int, str], jwt.PyJWK | None] = {}
        """Keys as the library wants them, by position and algorithm."""
        self._fetched_at = -float("inf")
        self._failed_at = -float("inf")
        self._asked_again_at = -float("inf")
        self._problem: str | None = None
        self._fetching = anyio.Lock()

    async def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """The key of that id for that algorithm; None where the issuer has no such key.

        Many that wait for the same fetch share it. A key that is known and fresh is never waited for.

        Raises:
            IssuerUnreachable: The key is not known, and the issuer could not be asked.
        """
        arrived = self._clock()
        found = self._pick(kid, algorithm)
        if found is not None and (arrived < self._fetched_at + FRESH_S or self._fetching.locked()):
            return found
        async with self._fetching:
            if self._due(arrived, known=self._pick(kid, algorithm) is not None):
                await self._refresh()
        found = self._pick(kid, algorithm)
        if found is None and self._problem is not None:
            raise IssuerUnreachable(f"The keys of the issuer {self.url} cannot be read: {self._problem}")
        return found

    async def check(self) -> int:
        """Fetch the keys now and tell how many there are.

        Raises:
            IssuerUnreachable: They cannot be had.
        """
        async with self._fetching:
            await self._refresh()
        if self._problem is not None:
            raise IssuerUnreachable(f"The keys of the issuer {self.url} cannot be read: {self._problem}")
        return len(self._keys)

    def _due(self, arrived: float, *, known: bool) -> bool:
        now = self._clock()
        if self._problem is not None:
            return now >= self._failed_at + RETRY_S
        if now >= self._fetched_at + FRESH_S:
            return True
        if known or self._fetched_at >= arrived or now < self._asked_again_at + RETRY_S:
            return False
        self._asked_again_at = now
        return True

    async def _refresh(self) -> None:
        begun = self._clock()
        try:
            with anyio.fail_after(FETCH_S):
                keys = await self._fetch()
        except TimeoutError:
            self._problem = f"no answer within {FETCH_S:.0f} s"
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            self._problem = str(error) or type(error).__name__
        except _Unusable as error:
            self._problem = str(error)
        else:
            self._keys, self._read = keys, {}
            self._fetched_at, self._problem = begun, None
            return
        self._failed_at = self._clock()
        logger.warning("the keys of the issuer %s cannot be read: %s", self.url, self._problem)

    async def _fetch(self) -> Sequence[Mapping[str, Any]]:
        async with httpx2.AsyncClient(follow_redirects=False, timeout=FETCH_S) as http:
            url = self._jwks_url or await self._find_jwks(http)
            keys = (await _document(http, url)).get("keys")
        if not isinstance(keys, list):
            raise _Unusable(f"{url} is no key set (JWKS)")
        return [cast(dict[str, Any], key) for key in cast(list[Any], keys) if isinstance(key, dict)]

    async def _find_jwks(self, http: httpx2.AsyncClient) -> str:
        problems: list[str] = []
        for url in metadata_urls(self.url):
            try:
                return self._jwks_of(await _document(http, url), url)
            except _Unusable as error:
                problems.append(str(error))
        raise _Unusable("; ".join(problems))

    def _jwks_of(self, metadata: Mapping[str, Any], url: str) -> str:
        """RFC 8414 section 3.3: metadata that names another issuer is not that of ours."""
        if metadata.get("issuer") != self.url:
            raise _Unusable(f"{url} is the metadata of {_quoted(metadata.get('issuer'))}, not of {self.url}")
        jwks = metadata.get("jwks_uri")
        if not isinstance(jwks, str):
            raise _Unusable(f"{url} names no jwks_uri")
        if _origin(jwks) != _origin(self.url):
            raise _Unusable(
                f"{url} names a jwks_uri on another host, {_quoted(jwks)}: if that is right, set --oauth-jwks-url"
            )
        return jwks

    def _pick(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        if self._clock() >= self._fetched_at + KEPT_S:
            return None
        fitting = list(self._fitting(kid, algorithm))
        # A token that names no key is clear only where there is one choice.
        return fitting[0] if fitting and (kid is not None or len(fitting) == 1) else None

    def _fitting(self, kid: str | None, algorithm: str) -> Iterator[jwt.PyJWK]:
        for position, key in enumerate(self._keys):
            if (kid is not None and key.get("kid") != kid) or key.get("use", "sig") != "sig":
                continue
            at = (position, algorithm)
            if at not in self._read:
                self._read[at] = _read_key(key, algorithm)
            if (read := self._read[at]) is not None:
                yield read


def metadata_urls(issuer: str) -> list[str]:
    """Where an issuer's metadata may be: RFC 8414, then OpenID Connect in its own and in RFC 8414's spelling."""
    parts = urlsplit(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    urls = [
        f"{base}/.well-known/oauth-authorization-server{path}",
        f"{base}{path}/.well-known/openid-configuration",
        f"{base}/.well-known/openid-configuration{path}",
    ]
    return list(dict.fromkeys(urls))


class _Unusable(Exception):
    """A document of the issuer is not there, or not what it should be."""


async def _document(http: httpx2.AsyncClient, url: str) -> Mapping[str, Any]:
    body = bytearray()
    async with http.stream("GET", url, headers={"accept": "application/json"}) as answer:
        if answer.status_code != 200:
            raise _Unusable(f"{url} answered {answer.status_code}")
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) > MAX_BYTES:
                raise _Unusable(f"{url} is larger than {MAX_BYTES} bytes")
    try:
        document = from_json(bytes(body))
    except ValueError:
        raise _Unusable(f"{url} is not JSON") from None
    if not isinstance(document, dict):
        raise _Unusable(f"{url} is not a JSON object")
    return cast(dict[str, Any], document)


def _read_key(key: Mapping[str, Any], algorithm: str) -> jwt.PyJWK | None:
    """The key for use with that algorithm; None where it is of another kind, or broken."""
    if key.get("alg", algorithm) != algorithm:
        return None
    try:
        # With the algorithm named here, the library refuses a key of another type, a symmetric one above all.
        return jwt.PyJWK(dict(key), algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None


def _origin(url: str) -> tuple[str, str | None, int | None] | None:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None


def _quoted(value: object) -> str:
    return ascii(value)[:200]
