"""Where spans go: an OTLP collector, as the standard OTEL_* variables of the environment say, or nowhere.

Above: commands/serve.py asks for it, app.py runs it. Below: OpenTelemetry's SDK and exporter, which the extra
`observability` installs. The provider is the gateway's own and not OpenTelemetry's global one: libraries that trace by
themselves (the MCP SDK, FastAPI) would otherwise add spans of their own, with contents.

Those variables are often set for other programs of the same user, Claude Code for one. What cannot be used of them is
told in the log, and the gateway starts in any case.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager

import anyio
from opentelemetry.trace import Tracer, TracerProvider

from proxy import __version__

logger = logging.getLogger("toolatlas.observing")

END_S = 3.0
"""What spans get to arrive when the gateway ends."""
LOOK_S = 0.02
WANTED = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"


class Traces:
    """Makes spans and hands them to a provider.

    Args:
        provider: Of OpenTelemetry's SDK; its `shutdown` is called at the end.
    """

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self.tracer: Tracer = provider.get_tracer("toolatlas", __version__)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """At the end, what is still on its way is given END_S to arrive, and no more: a collector may be away."""
        try:
            yield
        finally:
            # A worker thread of anyio would hold up the end of the process for as long as the collector does.
            ending = threading.Thread(target=_shut_down, args=(self._provider,), daemon=True)
            ending.start()
            with anyio.move_on_after(END_S, shield=True):
                while ending.is_alive():
                    await anyio.sleep(LOOK_S)
            if ending.is_alive():
                logger.warning("the last spans did not arrive within %g s and are given up", END_S)


def configured(environ: Mapping[str, str], *, replica: str) -> Traces | None:
    """What the environment wants, or None: without one of WANTED there are no spans.

    `environ` is what the SDK reads too, the environment of this process.
    """
    wanted = _first(environ, WANTED)
    if wanted in ("", "none") or _first(environ, ("OTEL_SDK_DISABLED",)).lower() == "true":
        return None
    problem = _problem(environ)
    if problem is None:
        try:
            return Traces(_provider(replica))
        except ImportError:
            problem = "variables ask for them, but the SDK is missing: pip install 'toolatlas[observability]'"
        except Exception as error:
            # The SDK and its exporter read some twenty variables and refuse each in a way of its own.
            problem = f"{type(error).__name__}: {error}"
    logger.warning("no traces are exported: %s", problem)
    return None


def _problem(environ: Mapping[str, str]) -> str | None:
    exporter = _first(environ, ("OTEL_TRACES_EXPORTER",)) or "otlp"
    if exporter != "otlp":
        return f"OTEL_TRACES_EXPORTER is {exporter!r}, and only otlp and none are known here"
    protocol = _first(environ, PROTOCOLS) or PROTOCOL
    if protocol != PROTOCOL:
        return f"the OTLP protocol asked for is {protocol!r}; set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL={PROTOCOL}"
    return None


def _first(environ: Mapping[str, str], names: Iterable[str]) -> str:
    """The first of these that says anything; what is set and empty says nothing."""
    return next((value for name in names if (value := environ.get(name, "").strip())), "")


def _provider(replica: str) -> TracerProvider:
    # An extra of the installation, and half a second to import.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider as Provider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.version": __version__, "service.instance.id": replica})
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "toolatlas"}))
    provider = Provider(resource=resource, shutdown_on_exit=False)
    # It takes a span without waiting, and drops the oldest when the collector does not keep up.
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def _shut_down(provider: TracerProvider) -> None:
    # The API knows no end of a provider; those of the SDK have one.
    shutdown = getattr(provider, "shutdown", None)
    if callable(shutdown):
        shutdown()
