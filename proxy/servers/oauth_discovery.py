"""Finds out how to log in to a server: RFC 9728 metadata of the server, then RFC 8414 metadata of its authorization
server.

Above: oauth_login.py. Below: the SDK, which knows where metadata lie and how they are read, and outbound.py, which
guards the way there. Nothing that is found is believed beyond what the issuer and resource checks allow.
"""

from __future__ import annotations

from dataclasses import dataclass

import httpx2
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    create_oauth_metadata_request,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    get_client_metadata_scopes,
    handle_auth_metadata_response,
    handle_protected_resource_response,
    issuers_match,
)
from mcp.shared.auth import DEFAULT_GRANT_TYPES, OAuthMetadata, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from mcp.types import LATEST_PROTOCOL_VERSION

from proxy.catalog.text import one_line
from proxy.errors import ServerDown
from proxy.servers.config import ServerConfig
from proxy.servers.web import web_origin

PROBE_TIMEOUT_S = 15.0
_PKCE = "S256"


@dataclass(frozen=True, slots=True)
class Discovered:
    """How to log in to one server."""

    metadata: OAuthMetadata
    resource: str
    """What the tokens are for, as RFC 8707 writes it."""
    scope: str | None
    """What the server says that it needs."""


async def discover(config: ServerConfig, http: httpx2.AsyncClient) -> Discovered | None:
    """Ask the server, and those that it names, over the guarded client `http`; None when the server wants no login.

    Raises:
        ServerDown: It cannot be reached, or says nothing of use about its authorization server.
        Refused: It leads to where the gateway does not go.
        httpx2.HTTPError: Metadata cannot be fetched.
    """
    challenge = await _challenge(config)
    if challenge is None:
        return None
    resource = resource_url_from_server_url(config.url)
    protected = await _protected_resource(config, http, challenge)
    if protected is not None:
        named = str(protected.resource)
        if not check_resource_allowed(requested_resource=resource, configured_resource=named):
            raise ServerDown(config.name, f"its metadata are those of another resource, {one_line(named, 200)}")
        resource = named
    metadata = await _authorization_server(config, http, protected)
    # The protocol obliges clients to refuse: without PKCE whoever sees the code can use it.
    if _PKCE not in (metadata.code_challenge_methods_supported or ()):
        raise ServerDown(config.name, f"its authorization server {_host(metadata)} does not say that it supports PKCE")
    scope = get_client_metadata_scopes(
        extract_scope_from_www_auth(challenge), protected, metadata, client_grant_types=DEFAULT_GRANT_TYPES
    )
    return Discovered(metadata, resource, " ".join(config.oauth.scopes) or scope)


async def _challenge(config: ServerConfig) -> httpx2.Response | None:
    """The 401 that the server answers to somebody unknown; None for another answer, which means that it wants no login.

    Sent as MCP requests are, with the configured headers, and to the configured address only.
    """
    probe = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": LATEST_PROTOCOL_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "toolatlas", "version": "login"},
        },
    }
    headers = {**config.headers, "Accept": "application/json, text/event-stream"}
    method, content = ("GET", None) if config.transport == "sse" else ("POST", probe)
    try:
        async with httpx2.AsyncClient(timeout=PROBE_TIMEOUT_S) as client:
            async with client.stream(method, config.url, headers=headers, json=content) as response:
                if response.status_code == 401:
                    return response
                if response.is_success:
                    return None
    except httpx2.HTTPError as error:
        raise ServerDown(config.name, f"nothing answers at its url ({type(error).__name__})") from error
    raise ServerDown(config.name, f"it answers HTTP {response.status_code}, which does not ask for a login")


async def _protected_resource(
    config: ServerConfig, http: httpx2.AsyncClient, challenge: httpx2.Response
) -> ProtectedResourceMetadata | None:
    """None for a server of before RFC 9728, which is its own authorization server."""
    named = extract_resource_metadata_from_www_auth(challenge)
    for place in build_protected_resource_metadata_discovery_urls(named, config.url):
        response = await http.send(create_oauth_metadata_request(place))
        if (found := await handle_protected_resource_response(response)) is not None:
            return found
        if response.status_code >= 500 or response.status_code == 429:
            # It says nothing about whether there are metadata; guessing on would ask the wrong server.
            raise ServerDown(config.name, f"its metadata cannot be had (HTTP {response.status_code}); try again later")
    return None


async def _authorization_server(
    config: ServerConfig, http: httpx2.AsyncClient, protected: ProtectedResourceMetadata | None
) -> OAuthMetadata:
    issuer = str(protected.authorization_servers[0]) if protected is not None else None
    for place in build_oauth_authorization_server_metadata_discovery_urls(issuer, config.url):
        usable, found = await handle_auth_metadata_response(await http.send(create_oauth_metadata_request(place)))
        if not usable:
            break
        if found is None:
            continue
        # RFC 8414, 3.3: a server that speaks for another one gets nothing.
        if not issuers_match(str(found.issuer), issuer or web_origin_as_issuer(config.url)):
            raise ServerDown(config.name, f"its authorization server calls itself {one_line(str(found.issuer), 200)}")
        return found
    where = web_origin(issuer or config.url)
    raise ServerDown(config.name, f"it asks for a login, but {where} does not say how (no RFC 8414 metadata)")


def web_origin_as_issuer(url: str) -> str:
    """The origin of a URL as an issuer writes it, a default port left out."""
    parts = httpx2.URL(url)
    return str(parts.copy_with(userinfo=b"", path="", query=None, fragment=None)).rstrip("/")


def _host(metadata: OAuthMetadata) -> str:
    return web_origin(str(metadata.issuer))
