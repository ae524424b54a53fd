"""The gateway as an OAuth resource server: which access tokens it takes, and what it tells clients of where to get one.

Above: authentication.py asks it about each token, http.py serves its metadata. Below: issuer.py has the keys, PyJWT
checks the signatures. Only JWTs with an asymmetric signature are taken (docs/decisions/0010).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import quote, urlsplit

import jwt
from mcp.server.auth.provider import AccessToken
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from proxy.endpoint.issuer import Issuer
from proxy.errors import ConfigurationError
from proxy.settings import Settings

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LEEWAY_S = 30
"""How far the issuer's clock may be from ours."""
MAX_TOKEN_BYTES = 16_384
WELL_KNOWN = "/.well-known/oauth-protected-resource"

# Absent or `JWT` is what most issuers write; the others are RFC 9068. A logout or DPoP token has a type of its own.
_TYPES = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
_REASONS: tuple[tuple[type[jwt.PyJWTError], str], ...] = (
    (jwt.ExpiredSignatureError, "It has expired."),
    (jwt.ImmatureSignatureError, "It is not valid yet."),
    (jwt.InvalidSignatureError, "Its signature is wrong."),
    (jwt.InvalidKeyError, "The key of its issuer is too short."),
    (jwt.MissingRequiredClaimError, "It lacks one of the claims iss, sub, aud and exp."),
)


class TokenRefused(Exception):
    """An access token is not good here. `error` is the code of RFC 6750, `str()` a sentence for the agent in ASCII."""

    def __init__(self, error: str, reason: str) -> None:
        super().__init__(reason)
        self.error = error


class ResourceServer:
    """`base_url` is where agents reach the gateway, without `/mcp` and without a slash at the end.

    Without an `audience`, a token must be made out to the address that it is used at: `{base_url}/mcp`, which is good
    for all of the gateway, or `{base_url}/mcp/{server}`, which is good for that server alone.
    """

    def __init__(
        self, base_url: str, issuers: Iterable[Issuer], *, audience: str | None = None, scopes: tuple[str, ...] = ()
    ) -> None:
        self._base_url = base_url
        self._issuers: Mapping[str, Issuer] = {issuer.url: issuer for issuer in issuers}
        self._audience = audience
        self._scopes = scopes

    @classmethod
    def of(cls, settings: Settings) -> ResourceServer | None:
        """None where the gateway knows static tokens only.

        Raises:
            ConfigurationError: Nobody can tell under which address agents reach the gateway.
        """
        oauth = settings.oauth
        if oauth is None:
            return None
        base_url = settings.public_url
        if base_url is None:
            if not settings.loopback or settings.port == 0:
                raise ConfigurationError(
                    "Access tokens are made out to the address of this gateway, and that is not known: name it with"
                    " --public-url, without /mcp at the end."
                )
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            base_url = f"http://{host}:{settings.port}"
        issuers = [Issuer(url, oauth.jwks_url) for url in oauth.issuers]
        return cls(base_url, issuers, audience=oauth.audience, scopes=oauth.scopes)

    @property
    def issuers(self) -> tuple[str, ...]:
        return tuple(self._issuers)

    def resource(self, server: str | None) -> str:
        """The address of the gateway, or of one server of it, as an OAuth resource."""
        return f"{self._base_url}/mcp" + (f"/{quote(server, safe='')}" if server is not None else "")

    def audiences(self, server: str | None) -> tuple[str, ...]:
        """What the `aud` of a token may say at this address."""
        if self._audience is not None:
            return (self._audience,)
        resources = dict.fromkeys((self.resource(server), self.resource(None)))
        # Clients ask for a token in the spelling of the address that their user typed.
        return tuple(spelling for resource in resources for spelling in (resource, f"{resource}/"))

    def challenge(self, server: str | None, error: str | None = None, reason: str | None = None) -> bytes:
        """The value of `WWW-Authenticate`."""
        parts = {
            "error": error,
            "error_description": reason,
            "scope": " ".join(self._scopes) or None,
            "resource_metadata": self._metadata_url(server),
        }
        return ("Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)).encode("ascii")

    def metadata(self, server: str | None) -> dict[str, Any]:
        """The document of RFC 9728."""
        document: dict[str, Any] = {
            "resource": self.resource(server),
            "authorization_servers": list(self._issuers),
            "bearer_methods_supported": ["header"],
            "resource_name": "toolatlas",
        }
        if self._scopes:
            document["scopes_supported"] = list(self._scopes)
        return document

    def _metadata_url(self, server: str | None) -> str:
        """RFC 9728 puts the well-known part between the host and the path of the resource."""
        parts = urlsplit(self.resource(server))
        return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path}"

    def routes(self) -> list[Route]:
        """Where the metadata is served, with and without the path that a reverse proxy may put in front."""

        async def metadata(request: Request) -> JSONResponse:
            # Public, and clients inside web pages read it too.
            headers = {"access-control-allow-origin": "*", "cache-control": "max-age=300"}
            return JSONResponse(self.metadata(request.path_params.get("server")), headers=headers)

        prefixes = dict.fromkeys(("", urlsplit(self._base_url).path))
        paths = ("", "/", "/mcp", "/mcp/", "/mcp/{server}", "/mcp/{server}/")
        return [Route(WELL_KNOWN + prefix + path, metadata, methods=["GET"]) for prefix in prefixes for path in paths]

    async def verify(self, token: str, server: str | None) -> AccessToken:
        """Whose token it is, for use at `/mcp` or at one server. The token itself is not in the answer.

        Raises:
            TokenRefused: It is not good here.
            IssuerUnreachable: Nobody can tell, since the issuer's keys cannot be had.
        """
        issuer, kid, algorithm = self._read(token)
        key = await issuer.key(kid, algorithm)
        if key is None:
            raise TokenRefused("invalid_token", "Its issuer has no such key.")
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=issuer.url,
                audience=self.audiences(server),
                leeway=LEEWAY_S,
                options={"require": ["iss", "sub", "aud", "exp"], "enforce_minimum_key_length": True},
            )
        except jwt.InvalidAudienceError:
            raise TokenRefused("invalid_token", f"It is not made out to {self.audiences(server)[0]}.") from None
        except jwt.PyJWTError as error:
            raise TokenRefused("invalid_token", _reason(error)) from None
        return self._identity(claims, issuer)

    def _read(self, token: str) -> tuple[Issuer, str | None, str]:
        """What the token says of itself before anything is proven: only enough to find the key that proves it."""
        if len(token) > MAX_TOKEN_BYTES:
            raise TokenRefused("invalid_token", f"It is longer than {MAX_TOKEN_BYTES} bytes.")
        try:
            unproven = jwt.decode_complete(token, options={"verify_signature": False})
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise TokenRefused("invalid_token", "It is no JWT.") from None
        header, claims = cast(dict[str, Any], unproven["header"]), cast(dict[str, Any], unproven["payload"])
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise TokenRefused("invalid_token", "It is not signed in a way that this gateway takes.")
        if str(header.get("typ", "")).lower() not in _TYPES:
            raise TokenRefused("invalid_token", "It is a JWT, but no access token.")
        named = claims.get("iss")
        issuer = self._issuers.get(named) if isinstance(named, str) else None
        if issuer is None:
            raise TokenRefused("invalid_token", f"Its issuer is not {' or '.join(self._issuers)}.")
        return issuer, kid if isinstance(kid, str) else None, cast(str, algorithm)

    def _identity(self, claims: Mapping[str, Any], issuer: Issuer) -> AccessToken:
        if not claims["sub"]:
            raise TokenRefused("invalid_token", "It names nobody.")
        scopes = _words(claims.get("scope", claims.get("scp")))
        if not set(self._scopes) <= set(scopes):
            raise TokenRefused("insufficient_scope", f"It needs the scope {' '.join(self._scopes)}.")
        # RFC 9068 says `client_id`; issuers that follow OpenID Connect say `azp`.
        client = claims.get("client_id", claims.get("azp"))
        return AccessToken(
            token="withheld",
            client_id=client if isinstance(client, str) else "",
            scopes=scopes,
            subject=claims["sub"],
            claims={"iss": issuer.url},
        )


def _words(scope: object) -> list[str]:
    """Scopes as RFC 9068 has them, in one string, or as some issuers do, in a list."""
    if isinstance(scope, str):
        return scope.split()
    return [word for word in cast(list[Any], scope) if isinstance(word, str)] if isinstance(scope, list) else []


def _reason(error: jwt.PyJWTError) -> str:
    return next((text for kind, text in _REASONS if isinstance(error, kind)), "One of its claims is malformed.")
