"""One span for each request of an agent, from the SDK's server middleware.

Above: app.py puts it in the place of the SDK's own middleware, whose spans hold error texts and whatever name an agent
called. Below: the endpoint. The span is current while the request is served, also in what is started for it: calls to
servers (servers.py) and calls of code become its children. What it came to is added by steps.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, cast

import anyio
from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Tracer

from proxy.observing import spans

METHODS = frozenset(
    {
        *("initialize", "server/discover", "tools/list", "tools/call", "completion/complete", "logging/setLevel"),
        *("resources/list", "resources/templates/list", "resources/read"),
        *("resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get"),
    }
)
"""What gets a span. Methods that are not here are agents' inventions, pings, and streams that last for hours."""
SESSION_HEADER = "mcp-session-id"


class TracedRequests:
    """A middleware of the SDK's server."""

    def __init__(self, tracer: Tracer, metatools: frozenset[str]) -> None:
        """`metatools`: their names. Whether another name is that of anything is known only when it was called."""
        self._tracer = tracer
        self._metatools = metatools

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None or ctx.method not in METHODS:
            return await call_next(ctx)
        parent, others = _origins(ctx)
        name, attributes, tool = ctx.method, _attributes(ctx), (ctx.params or {}).get("name")
        if ctx.method == spans.CALL and isinstance(tool, str) and tool in self._metatools:
            name, attributes = f"{name} {tool}", attributes | {spans.TOOL: tool}
        span = self._tracer.start_span(name, parent, SpanKind.SERVER, attributes, [Link(other) for other in others])
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            return await _told(span, ctx, call_next)


async def _told(span: Span, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    try:
        result = await call_next(ctx)
    except MCPError as error:
        spans.fail_with_code(span, error.code)
        raise
    except anyio.get_cancelled_exc_class():
        spans.fail(span, spans.CANCELLED)
        raise
    except Exception as error:
        spans.fail(span, type(error).__qualname__)
        raise
    if ctx.method == spans.CALL and isinstance(result, Mapping):
        answer = cast(Mapping[str, Any], result)
        if answer.get("isError") is True:
            spans.fail(span, spans.TOOL_ERROR)
        elif answer.get("resultType") == "input_required":
            span.set_attribute(spans.OUTCOME, "input_required")
    return result


def _attributes(ctx: ServerRequestContext[Any, Any]) -> dict[str, str]:
    attributes = {
        spans.METHOD: ctx.method,
        spans.REQUEST_ID: str(ctx.request_id),
        spans.PROTOCOL: ctx.protocol_version,
    }
    if ctx.method == spans.CALL:
        attributes[spans.OPERATION] = spans.EXECUTE_TOOL
    if ctx.request is None:
        attributes[spans.TRANSPORT] = "pipe"
        return attributes
    attributes |= {spans.TRANSPORT: "tcp", spans.APPLICATION_PROTOCOL: "http"}
    if (session := ctx.request.headers.get(SESSION_HEADER)) is not None:
        # Whoever knows a session's id can speak in it; its hash still tells which requests belong together.
        attributes[spans.SESSION] = sha256(session.encode()).hexdigest()[:32]
    return attributes


def _origins(ctx: ServerRequestContext[Any, Any]) -> tuple[Context, list[SpanContext]]:
    """The context to begin in, and what else led here: `_meta` tells the agent's span, headers that of its transport.

    Nothing else is taken over from either. Baggage in particular would be handed to every server.
    """
    meta: object = (ctx.params or {}).get("_meta")
    given: Mapping[str, Any] = cast(Mapping[str, Any], meta) if isinstance(meta, Mapping) else {}
    headers: Mapping[str, str] = ctx.request.headers if ctx.request is not None else {}
    told = [found for carrier in (given, headers) if (found := _span_in(carrier)) is not None]
    if not told:
        return Context(), []
    return trace.set_span_in_context(trace.NonRecordingSpan(told[0]), Context()), told[1:]


def _span_in(carrier: Mapping[str, Any]) -> SpanContext | None:
    """The span that a carrier names in the form that OTEL_PROPAGATORS says."""
    texts = {key: value for key, value in carrier.items() if isinstance(value, str)}
    found = trace.get_current_span(propagate.extract(texts, Context())).get_span_context()
    return found if found.is_valid else None
