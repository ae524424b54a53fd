"""`/metrics`: the registry of one gateway over HTTP, for those who may see pages.

Above: app.py, which adds the route to the others. Below: prometheus_client, which picks the format that a scraper asks
for, and the dashboard's guard: an agent's token opens nothing here.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.dashboard.guard import Guard
from proxy.observing.gauges import Gauges, Readings

PATH = "/metrics"


def registry_of(readings: Readings) -> CollectorRegistry:
    """A registry of its own: those of two gateways in one process do not mix."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(Gauges(readings))
    return registry


def metrics_route(registry: CollectorRegistry, guard: Guard) -> Route:
    async def exposition(scope: Scope, receive: Receive, send: Send) -> None:
        accepted = ",".join(Request(scope).headers.getlist("accept"))
        encode, content_type = choose_encoder(accepted)
        await Response(encode(registry), headers={"content-type": content_type})(scope, receive, send)

    return Route(PATH, _Endpoint(guard.protect(exposition)), methods=["GET"])


class _Endpoint:
    """Starlette takes an object for an ASGI app and a function for a request handler."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
