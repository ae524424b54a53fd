"""Web origins, and what may stand in an HTTP header: rules without state, for the entry and for what is sent.

Above: http_entry.py, outbound.py, authorized.py. Below: httpx2's reading of URLs, so that what is checked is what is
connected to.
"""

from __future__ import annotations

import ipaddress
import re

import httpx2

DEFAULT_PORTS = {"http": 80, "https": 443}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

# What belongs to one hop or to MCP itself, and what proves who the agent is to the gateway, and to nobody else.
_NEVER_FORWARDED = frozenset(
    {
        *(
            "accept",
            "authorization",
            "connection",
            "cookie",
            "cookie2",
            "expect",
            "forwarded",
            "host",
            "http2-settings",
        ),
        *("keep-alive", "last-event-id", "origin", "referer", "set-cookie", "te", "trailer", "transfer-encoding"),
        *("upgrade", "via"),
    }
)
_NEVER_FORWARDED_PREFIXES = ("accept-", "access-control-", "content-", "mcp-", "proxy-", "sec-")


def web_origin(url: httpx2.URL | str) -> str:
    """`scheme://host:port` of a URL, the port always written.

    Raises:
        httpx2.InvalidURL: It is none.
    """
    url = httpx2.URL(url)
    host = url.raw_host.decode("ascii").lower()
    port = url.port or DEFAULT_PORTS.get(url.scheme, 0)
    return f"{url.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(url: httpx2.URL | str) -> bool:
    """Whether a URL says by itself that it is of this machine; nothing is looked up."""
    host = httpx2.URL(url).raw_host.decode("ascii")
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def header_problem(name: str, value: str) -> str | None:
    """What keeps a header from being sent as it stands; None for one that can be. The value is never quoted."""
    if not _TOKEN.fullmatch(name):
        return "has a name that no HTTP header can have"
    if _CONTROL.search(value):
        return "has a line break or another control character in its value"
    if value != value.strip(" \t"):
        return "has a value that begins or ends with a blank"
    return None


def forwarding_problem(name: str) -> str | None:
    """Why the header of that name may not be passed on from an agent to a server; None where it may."""
    if not _TOKEN.fullmatch(name):
        return "is no name that an HTTP header can have"
    name = name.lower()
    if name in _NEVER_FORWARDED or name.startswith(_NEVER_FORWARDED_PREFIXES):
        return "is never passed on: it belongs to the connection, to MCP, or to the agent's own credentials"
    return None
