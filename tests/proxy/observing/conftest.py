"""A whole gateway whose metrics and spans can be read, over real servers."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from proxy.app import App, build
from proxy.observing.exporting import Traces
from proxy.sandbox.base import Backend
from proxy.servers.configfile import parse
from proxy.servers.transports import OpenTransport
from proxy.settings import Settings

WITHIN_S = 30.0
BASE = "http://127.0.0.1"


@dataclass(frozen=True)
class Observed:
    """A running gateway, seen from outside."""

    app: App
    exported: InMemorySpanExporter

    def client(self, **options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(self.app.http), base_url=BASE, **options)

    async def samples(self) -> Samples:
        async with self.client() as http:
            answer = await http.get("/metrics")
        assert answer.status_code == 200, answer.text
        return Samples(answer.text)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """Those that are over, in the order in which they ended."""
        return self.exported.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        found = [span for span in self.spans if span.name == name]
        assert len(found) == 1, (name, [span.name for span in self.spans])
        return found[0]

    async def until(self, condition: Callable[[], bool]) -> None:
        with anyio.fail_after(WITHIN_S):
            while not condition():
                await anyio.sleep(0.01)


class Samples:
    """What a scrape gave."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.all = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """The sum over all samples of that name with these labels; labels that are empty are not there."""
        wanted = {key: value for key, value in labels.items() if value}
        absent = {key for key, value in labels.items() if not value}
        return sum(
            sample.value
            for sample in self.all
            if sample.name == name
            and wanted.items() <= sample.labels.items()
            and not any(sample.labels.get(key) for key in absent)
        )

    def labels(self, name: str, label: str) -> set[str]:
        return {sample.labels.get(label, "") for sample in self.all if sample.name == name}


def texts(spans: Iterable[ReadableSpan]) -> str:
    """All that spans hold, as text."""
    return "\n".join(span.to_json() for span in spans)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return json.loads(span.to_json())["attributes"]


Observe = Callable[..., AbstractAsyncContextManager[Observed]]


@pytest.fixture
def observe(tmp_path: Path) -> Observe:
    @asynccontextmanager
    async def start(
        servers: Mapping[str, Any],
        *,
        tracing: bool = True,
        traces: Traces | None = None,
        backend: Backend | None = None,
        transport: OpenTransport | None = None,
        **changed: Any,
    ) -> AsyncIterator[Observed]:
        settings = Settings(
            config=tmp_path / "mcp.json", state_dir=tmp_path / "state", cache_dir=tmp_path / "cache", **changed
        )
        exported = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exported))
        app = build(
            settings,
            os.environ,
            configuration=parse({"mcpServers": servers}, os.environ),
            recorders=(),
            backend=backend,
            transport=transport,
            traces=traces or (Traces(provider) if tracing else None),
        )
        async with app.http.router.lifespan_context(app.http):
            with anyio.fail_after(WITHIN_S):
                await app.gateway.pool.wait_for_first_listings(WITHIN_S)
            yield Observed(app, exported)

    return start
