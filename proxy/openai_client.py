"""A client of one OpenAI-compatible server, to which nothing goes but what is asked and the key that was set for it.

Above: whatever asks a model: the judge, the agent's policy, the router. Below: the `openai` package, imported when a
client is made. Keys, headers and organisations that the package would take from the environment stay here; what is
meant for this machine goes to no proxy of the environment, and no server sends a question elsewhere. Retries are the
caller's, since the package tells neither how many there were nor what they waited for.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    import httpx2
    import openai

_HEADERS = frozenset(
    {"host", "accept", "accept-encoding", "connection", "content-type", "content-length", "user-agent"}
)


def openai_client(
    url: str, key: str | None, *, timeout_s: float, whose: str, connections: int | None = None
) -> openai.AsyncOpenAI:
    """Belongs to one event loop; close it there.

    Args:
        url: The server's base, `http://host:port/v1`.
        key: None sends none.
        timeout_s: For each part of an answer; a server can send many.
        whose: For errors: `the judge's endpoint`.
        connections: The most at once; None leaves that to the package.

    Raises:
        ConfigurationError: The `openai` package is missing, or URL or key cannot be used.
    """
    try:
        import httpx2
        import openai
    except ImportError:
        raise ConfigurationError(
            f"{whose} is asked with the openai package, which is not installed: pip install 'toolatlas[judge]'"
        ) from None
    if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key != ""):
        raise ConfigurationError(f"the key of {whose} has characters that a header cannot carry")
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        raise ConfigurationError(f"the URL of {whose} cannot be read") from None
    if parsed.userinfo:
        raise ConfigurationError(f"the URL of {whose} has a user or password in it: give it a key instead")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ConfigurationError(f"the URL of {whose} is http://… or https://…, with a host")

    async def only_ours(request: httpx2.Request) -> None:
        for name in [name for name in request.headers if name.lower() not in _HEADERS]:
            del request.headers[name]
        if key is not None:
            request.headers["Authorization"] = f"Bearer {key}"

    http = httpx2.AsyncClient(
        timeout=timeout_s,
        trust_env=not is_loopback(parsed.host),
        follow_redirects=False,
        limits=httpx2.Limits(max_connections=connections),
        event_hooks={"request": [only_ours]},
    )
    return openai.AsyncOpenAI(base_url=url, api_key=key or "none", max_retries=0, http_client=http)


def is_loopback(host: str) -> bool:
    """Whether it is `localhost` or a literal address of this machine; no name is looked up."""
    if host.lower().removesuffix(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
