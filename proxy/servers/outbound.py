"""Guards requests to addresses that a server, not the configuration, named: authorization servers and their metadata.

Above: oauth_login.py and oauth_tokens.py. Below: httpx2. What the configuration names is connected to as it stands; the
rest must be https and public, is looked up once, and is connected to at the very address that was checked.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.request import getproxies, proxy_bypass

import anyio
import httpx2

from proxy.errors import ServerDown
from proxy.servers.config import ServerConfig
from proxy.servers.web import DEFAULT_PORTS, is_loopback, web_origin

TIMEOUT_S = 15.0
MAX_ANSWER_BYTES = 1024 * 1024
"""Metadata, registrations and tokens are small; more is no answer of theirs."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# No connection is kept: one that was checked for one name must not carry a request for another.
_LIMITS = httpx2.Limits(max_keepalive_connections=0)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Refused(ServerDown):
    """A server led to where the gateway does not go on its word. The text says where, and what would allow it."""


@asynccontextmanager
async def guarded_client(config: ServerConfig) -> AsyncGenerator[httpx2.AsyncClient]:
    """For requests about the login to a server: nothing configured for the server goes along, no cookie is kept, and no
    redirect is followed."""
    cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    async with httpx2.AsyncClient(transport=Guard(config), timeout=TIMEOUT_S, cookies=cookies) as client:
        yield client


class Guard(httpx2.AsyncBaseTransport):
    """Sends what it may and raises `Refused` for the rest. Answers are read whole."""

    def __init__(self, config: ServerConfig) -> None:
        self._name = config.name
        self._named = config.oauth.allowed_origins | {web_origin(config.url)}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        if url.scheme != "https" and not (url.scheme == "http" and is_loopback(url)):
            raise self._refused(url, "that is not https, so that others could read what is sent there")
        addresses: tuple[str | None, ...] = (None,)
        if web_origin(url) not in self._named:
            addresses = await self._checked(url)
        return await self._send(request, addresses)

    async def _checked(self, url: httpx2.URL) -> tuple[str | None, ...]:
        """The addresses of a host, all of which are public; None where a proxy does the looking up."""
        host = url.raw_host.decode("ascii")
        try:
            found = await anyio.getaddrinfo(host, url.port or DEFAULT_PORTS[url.scheme], type=socket.SOCK_STREAM)
        except OSError as error:
            if _proxy(url) is not None:
                return (None,)
            raise ServerDown(self._name, f"its login leads to {web_origin(url)}, a host that is not known") from error
        addresses = tuple(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
        # One forbidden address is enough: it is for the name's owner to choose, at each lookup anew.
        for address in addresses:
            if kind := forbidden(ipaddress.ip_address(address)):
                raise self._refused(url, f"that is {kind}")
        return (None,) if _proxy(url) is not None else addresses

    async def _send(self, request: httpx2.Request, addresses: tuple[str | None, ...]) -> httpx2.Response:
        for address in addresses[:-1]:
            try:
                return await self._exchange(request, address)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        return await self._exchange(request, addresses[-1])

    async def _exchange(self, request: httpx2.Request, address: str | None) -> httpx2.Response:
        """Send to that address, with the name of the host in the request and in the check of the certificate."""
        at = request
        if address is not None:
            at = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": request.url.raw_host.decode("ascii")},
            )
        proxy = None if address is not None else _proxy(request.url)
        async with httpx2.AsyncHTTPTransport(proxy=proxy, limits=_LIMITS) as transport:
            response = await transport.handle_async_request(at)
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            body = bytearray()
            async for chunk in response.stream:
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise ServerDown(self._name, f"the answer of {web_origin(request.url)} is too long for a login")
            await response.stream.aclose()
        return httpx2.Response(response.status_code, headers=response.headers, stream=httpx2.ByteStream(bytes(body)))

    def _refused(self, url: httpx2.URL, why: str) -> Refused:
        return Refused(
            self._name,
            f"its login leads to {web_origin(url)}, and {why}; the gateway does not go there on a server's word. "
            "If it is meant, and https or on this machine, name it in 'oauth.allowed_origins' of the entry",
        )


def forbidden(address: Address) -> str | None:
    """What kind of address it is that nobody outside should lead to; None for a public one."""
    if isinstance(address, ipaddress.IPv6Address) and (inner := _embedded(address)) is not None:
        return forbidden(inner)
    kinds = {
        "an unspecified address": address.is_unspecified,
        "a loopback address": address.is_loopback,
        "a link-local address": address.is_link_local,
        "a multicast address": address.is_multicast,
        "a private address": not address.is_global or getattr(address, "is_site_local", False),
        "a reserved address": address.is_reserved,
    }
    return next((kind for kind, fits in kinds.items() if fits), None)


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that packets to this one end up at."""
    if address in _NAT64:
        return ipaddress.IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address.sixtofour


def _proxy(url: httpx2.URL) -> str | None:
    """The HTTP proxy that the environment names for this address."""
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(url.host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
