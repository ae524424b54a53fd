"""The access token for one server, renewed before it expires and when the server refuses it, by one caller for all.

Above: authorized.py, which puts it on requests. Below: logins.py keeps it, outbound.py guards the way to the token
endpoint. Nothing here talks to a person: where only a new login helps, `LoginNeeded` says so.
"""

from __future__ import annotations

import logging
import re
import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import anyio
import httpx2
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import ValidationError

from proxy.errors import ConfigurationError, ServerDown
from proxy.servers.config import OAuthConfig, ServerConfig
from proxy.servers.logins import Login, LoginStore, Stamp
from proxy.servers.outbound import guarded_client
from proxy.servers.web import web_origin

logger = logging.getLogger("toolatlas.servers")

RENEWAL_S = 30.0
PAUSE_S = 5.0
"""After a token endpoint did not work, callers are told so for this long before it is asked again."""
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_CODE = re.compile(r"[a-z_]{1,40}")
_FINAL = (400, 401, 403)


class LoginNeeded(ServerDown):
    """Only its owner can make the server usable, by logging in to it."""

    def __init__(self, server: str, why: str) -> None:
        super().__init__(server, f"{why}: run `toolatlas servers login {shlex.quote(server)}`")


class Tokens:
    """The login to one server as its connections use it; shared by all of them in this process."""

    def __init__(self, config: ServerConfig, store: LoginStore, clock: Callable[[], float] = time.time) -> None:
        self._config = config
        self._store = store
        self._clock = clock
        self._turn = anyio.Lock()
        self._stamp: Stamp | None = None
        self._login: Login | None = None
        self._refused = ""
        """A refresh token that the authorization server does not take any more; asking again would not help."""
        self._failure = ""
        self._ask_again_at = 0.0

    async def current(self) -> str | None:
        """The token to send, None without a login.

        Raises:
            LoginNeeded: It has expired and cannot be renewed.
            ServerDown: It has expired and the authorization server does not work.
            ConfigurationError: The login cannot be read.
        """
        login = self._read()
        if login is None or not login.due(self._clock()) or login.refresh_token is None:
            return login.access_token if login else None
        try:
            return (await self._renewed(login.access_token)).access_token
        except ServerDown:
            if login.expired(self._clock()):
                raise
            return login.access_token

    async def after_refusal(self, sent: str | None) -> str:
        """A token to try instead of the one that the server has just refused.

        Raises:
            As `current` does; `LoginNeeded` also where there is no login.
        """
        login = self._read()
        if login is None:
            raise LoginNeeded(self._config.name, "it asks for a login")
        if login.access_token != sent:
            return login.access_token
        return (await self._renewed(login.access_token)).access_token

    def refused_again(self) -> LoginNeeded:
        """For a server that refuses a token which is new."""
        return LoginNeeded(self._config.name, "it refuses the login that there is")

    def _read(self) -> Login | None:
        stamp = self._store.stamp(self._config)
        if stamp is None:
            self._stamp = self._login = None
        elif stamp != self._stamp:
            self._login = self._store.load(self._config)
            self._stamp = stamp
        return self._login

    async def _renewed(self, stale: str) -> Login:
        """The login once its token is another one than `stale`."""
        async with self._turn:
            # Cancelled between the answer and the writing of it, a rotated refresh token would be lost for good.
            with anyio.CancelScope(shield=True):
                return await self._renewed_by_one(stale)
        raise AssertionError("unreachable: the scope is never cancelled")

    async def _renewed_by_one(self, stale: str) -> Login:
        async with self._store.locked(self._config):
            login = self._read()
            if login is None:
                raise LoginNeeded(self._config.name, "it asks for a login")
            return await self._renew(login) if login.access_token == stale else login

    async def _renew(self, login: Login) -> Login:
        if login.refresh_token is None:
            raise LoginNeeded(self._config.name, "its login has expired")
        if self._config.oauth.client_id not in (None, login.client_id):
            raise LoginNeeded(self._config.name, "its login is that of another 'oauth.client_id'")
        if login.refresh_token == self._refused:
            raise LoginNeeded(self._config.name, "its login is no longer valid")
        if self._clock() < self._ask_again_at:
            raise ServerDown(self._config.name, self._failure)
        form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "resource": login.resource}
        try:
            with anyio.fail_after(RENEWAL_S):
                answer = await ask_token_endpoint(self._config, login, form)
        except (httpx2.HTTPError, TimeoutError) as error:
            raise self._not_working(login, type(error).__name__) from error
        if answer.status_code in _FINAL:
            self._refused = login.refresh_token
            raise LoginNeeded(self._config.name, f"its login is no longer valid ({error_code(answer)})")
        if answer.status_code != 200:
            raise self._not_working(login, f"HTTP {answer.status_code}")
        fresh = with_tokens(login, self._config.name, answer, self._clock())
        try:
            self._store.save(self._config, fresh)
            self._stamp = self._store.stamp(self._config)
        except ConfigurationError as error:
            # In memory it still works; what the disk has may be worthless from now on.
            logger.error("%s After a restart the server may need a new login.", error)
        self._login = fresh
        return fresh

    def _not_working(self, login: Login, reason: str) -> ServerDown:
        self._failure = f"its login cannot be renewed now: {web_origin(login.token_endpoint)} does not work ({reason})"
        self._ask_again_at = self._clock() + PAUSE_S
        return ServerDown(self._config.name, self._failure)


class Keyring:
    """The tokens of all servers: one object each, so that connections to the same server share its renewals."""

    def __init__(self, store: LoginStore) -> None:
        self.store = store
        self._tokens: dict[tuple[str, str, OAuthConfig], Tokens] = {}

    def tokens(self, config: ServerConfig) -> Tokens:
        key = (config.name, config.url, config.oauth)
        return self._tokens.setdefault(key, Tokens(config, self.store))


async def ask_token_endpoint(config: ServerConfig, login: Login, form: dict[str, str]) -> httpx2.Response:
    """Post a form to the token endpoint, with what proves who the client is. The answer is read.

    Raises:
        httpx2.HTTPError: It cannot be reached.
        Refused: It lies where the gateway does not go.
    """
    configured = config.oauth.client_id == login.client_id
    client = OAuthClientInformationFull(
        client_id=login.client_id,
        client_secret=config.oauth.client_secret if configured else login.client_secret,
        token_endpoint_auth_method=login.client_auth,
    )
    context = OAuthContext(
        server_url=config.url,
        client_metadata=OAuthClientMetadata(redirect_uris=None),
        storage=cast("Any", None),
        redirect_handler=None,
        callback_handler=None,
        client_info=client,
    )
    data, headers = context.prepare_token_auth({"client_id": login.client_id, **form}, {})
    async with guarded_client(config) as http:
        return await http.post(login.token_endpoint, data=data, headers=headers)


def with_tokens(login: Login, server: str, answer: httpx2.Response, now: float) -> Login:
    """`login` with the tokens of a successful answer of the token endpoint; what the answer leaves out stays.

    Raises:
        ServerDown: They are none that could be used.
    """
    try:
        token = OAuthToken.model_validate_json(answer.content)
    except ValidationError:
        token = None
    # A header cannot carry anything else, and the error of a library that notices would quote it.
    if token is None or not _VISIBLE.fullmatch(token.access_token):
        raise ServerDown(server, f"{web_origin(login.token_endpoint)} answered without a usable access token")
    return replace(
        login,
        access_token=token.access_token,
        refresh_token=token.refresh_token or login.refresh_token,
        obtained_at=now,
        expires_at=None if token.expires_in is None else now + token.expires_in,
        scope=token.scope or login.scope,
    )


def error_code(answer: httpx2.Response) -> str:
    """What an OAuth endpoint says is wrong: the code of RFC 6749 or the HTTP status, never its free text."""
    try:
        body: Any = answer.json()
        code = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
    except ValueError:
        code = None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else f"HTTP {answer.status_code}"
