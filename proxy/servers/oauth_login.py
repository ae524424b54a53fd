"""Logs in to a server with a browser: authorization code with PKCE (S256), for a client registered on the spot or by
hand.

Above: commands/login.py, never the serving gateway. Below: oauth_discovery.py, oauth_callback.py and logins.py. The
SDK's models read what servers answer; docs/decisions/0009 says why its provider does not drive.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from secrets import token_urlsafe

import anyio
import httpx2
from mcp.client.auth import OAuthFlowError, PKCEParameters
from mcp.client.auth.oauth2 import check_registration_usable
from mcp.client.auth.utils import (
    create_client_registration_request,
    handle_registration_response,
    validate_authorization_response_iss,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata
from pydantic import AnyUrl

from proxy.catalog.text import one_line
from proxy.errors import ConfigurationError, ServerDown
from proxy.servers.authorized import has_credentials
from proxy.servers.config import ServerConfig, TransportKind
from proxy.servers.logins import Login, LoginStore
from proxy.servers.oauth_callback import Callback, listening
from proxy.servers.oauth_discovery import Discovered, discover
from proxy.servers.oauth_tokens import ask_token_endpoint, error_code, with_tokens
from proxy.servers.outbound import guarded_client
from proxy.servers.web import is_loopback, web_origin

PERSON_S = 300.0
"""How long the owner may take in the browser."""

Show = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """What may be told of a login."""

    issuer: str
    scope: str | None
    renewable: bool


async def log_in(config: ServerConfig, store: LoginStore, show: Show) -> LoggedIn | None:
    """Log in and keep the tokens; None when the server wants no login. `show` is given the address for the browser.

    Raises:
        ConfigurationError: The entry leaves nothing to log in to, or the login cannot be kept.
        ServerDown: The server, its authorization server or the person in front of the browser did not play along.
    """
    _check_entry(config)
    # A login that cannot be read is not written over; and better said before the person has done the work.
    store.load(config)
    try:
        async with guarded_client(config) as http:
            found = await discover(config, http)
            if found is None:
                return None
            state = token_urlsafe(32)
            async with listening(config.oauth.redirect_port, state) as callback:
                client = _configured(config, found.metadata) or await _register(config, http, found, callback.url)
                pkce = PKCEParameters.generate()
                await show(_address(config, found, client, callback.url, state, pkce.code_challenge))
                code = await _code(config, callback, found.metadata)
            form = {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": callback.url,
                "code_verifier": pkce.code_verifier,
                "resource": found.resource,
            }
            login = await _exchange(config, found, client, form)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ServerDown(config.name, f"its authorization server cannot be reached ({type(error).__name__})") from error
    async with store.locked(config):
        store.save(config, login)
    return LoggedIn(web_origin(str(found.metadata.issuer)), login.scope, login.refresh_token is not None)


def _check_entry(config: ServerConfig) -> None:
    if config.transport is TransportKind.STDIO:
        raise ConfigurationError(f"server '{config.name}' is a program on this machine: there is nothing to log in to")
    if not config.usable:
        raise ConfigurationError(
            f"server '{config.name}' cannot be used: {config.disabled_reason or 'it is switched off (enabled: false)'}"
        )
    if has_credentials(config):
        raise ConfigurationError(
            f"the entry of server '{config.name}' has credentials of its own; to log in instead, remove "
            "'Authorization' from its 'headers', or the user from its 'url'"
        )


def _configured(config: ServerConfig, metadata: OAuthMetadata) -> OAuthClientInformationFull | None:
    if config.oauth.client_id is None:
        return None
    # RFC 6749 has every server take the first, but some list only the second.
    methods = metadata.token_endpoint_auth_methods_supported or ["client_secret_basic"]
    secret = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
    return OAuthClientInformationFull(
        client_id=config.oauth.client_id,
        client_secret=config.oauth.client_secret,
        token_endpoint_auth_method=secret if config.oauth.client_secret else "none",
    )


async def _register(
    config: ServerConfig, http: httpx2.AsyncClient, found: Discovered, redirect: str
) -> OAuthClientInformationFull:
    """A new client each time: its redirect address has the port of this login, which strict servers compare."""
    if found.metadata.registration_endpoint is None:
        raise ConfigurationError(
            f"the authorization server {web_origin(str(found.metadata.issuer))} of server '{config.name}' registers no "
            "clients: register one by hand, and write its id into 'oauth.client_id' of the entry"
        )
    wanted = OAuthClientMetadata(
        client_name="toolatlas",
        redirect_uris=[AnyUrl(redirect)],
        token_endpoint_auth_method="none",
        scope=found.scope,
    )
    response = await http.send(create_client_registration_request(found.metadata, wanted, ""))
    if response.status_code not in (200, 201):
        raise ServerDown(config.name, f"its authorization server does not register us ({error_code(response)})")
    try:
        client = await handle_registration_response(response)
        check_registration_usable(client)
    except OAuthFlowError:
        # Its text quotes the answer, which may hold a secret.
        raise ServerDown(config.name, "its authorization server registered us in a way that cannot be used") from None
    return client


def _address(
    config: ServerConfig,
    found: Discovered,
    client: OAuthClientInformationFull,
    redirect: str,
    state: str,
    challenge: str,
) -> str:
    endpoint = httpx2.URL(str(found.metadata.authorization_endpoint))
    if endpoint.scheme != "https" and not is_loopback(endpoint):
        raise ServerDown(config.name, f"its login page {web_origin(endpoint)} is not https")
    parameters = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "resource": found.resource,
    }
    if found.scope:
        parameters["scope"] = found.scope
        if "offline_access" in found.scope.split():
            # OpenID Connect gives no refresh token otherwise.
            parameters["prompt"] = "consent"
    return str(endpoint.copy_merge_params(parameters))


async def _code(config: ServerConfig, callback: Callback, metadata: OAuthMetadata) -> str:
    answer: Mapping[str, str] = {}
    with anyio.move_on_after(PERSON_S) as limit:
        answer = await callback.answer()
    if limit.cancelled_caught:
        raise ServerDown(config.name, f"nobody logged in within {PERSON_S / 60:.0f} minutes")
    try:
        validate_authorization_response_iss(answer.get("iss"), metadata)
    except OAuthFlowError:
        raise ServerDown(config.name, "the answer to the login came from another authorization server") from None
    code = answer.get("code")
    if not code:
        raise ServerDown(config.name, f"the login was refused ({one_line(answer.get('error', 'no code'), 60)})")
    return code


async def _exchange(
    config: ServerConfig, found: Discovered, client: OAuthClientInformationFull, form: dict[str, str]
) -> Login:
    draft = Login(
        access_token="",
        obtained_at=0.0,
        scope=found.scope,
        token_endpoint=str(found.metadata.token_endpoint),
        resource=found.resource,
        client_id=client.client_id,
        # That of a configured client stays where it is configured.
        client_secret=None if config.oauth.client_id else client.client_secret,
        client_auth=client.token_endpoint_auth_method,
    )
    answer = await ask_token_endpoint(config, draft, form)
    if answer.status_code not in (200, 201):
        raise ServerDown(config.name, f"its authorization server gives no token ({error_code(answer)})")
    return with_tokens(draft, config.name, answer, time.time())
