"""Input schemas by the name an agent calls a tool by, for the SDK's check of `Mcp-Param-*` headers (2026-07-28).

Above: http.py and app.py. The SDK asks by name alone before it hands the request on, so the address that the request
came to is carried in a context variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.endpoint.authentication import agent_servers
from proxy.errors import GatewayError
from proxy.gateway import Gateway

_SERVER: ContextVar[str | None] = ContextVar("toolatlas_server", default=None)
_SEEN: ContextVar[frozenset[str] | None] = ContextVar("toolatlas_seen", default=None)


class ServedAt:
    """ASGI middleware that remembers which server a request is for, None for those that show many, and which servers
    its agent sees.

    It also takes the blanks around header values away, which HTTP does not count and the SDK does.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _SERVER.set(scope["path_params"].get("server"))
        _SEEN.set(agent_servers(scope))
        headers = [(name, value.strip()) for name, value in scope["headers"]]
        await self._app({**scope, "headers": headers}, receive, send)


def shown_schema(gateway: Gateway, name: str) -> dict[str, Any] | None:
    """The schema of a passed-through tool; None for one that the agent cannot see, and for the gateway's own."""
    catalog, server, seen = gateway.catalog, _SERVER.get(), _SEEN.get()
    try:
        tool = catalog.exposed.get(name) if server is None else catalog.own_tool(catalog.server(server), name)
    except GatewayError:
        return None
    if tool is not None and seen is not None and tool.server not in seen:
        return None
    schema: Mapping[str, Any] = tool.input_schema if tool is not None else {}
    return dict(schema) or None
