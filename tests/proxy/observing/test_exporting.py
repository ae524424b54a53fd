"""Where spans go: what the environment wants, a collector that takes them, and collectors that do not."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from proxy.observing.exporting import END_S, configured
from tests.fixtures.running import entry, free_port
from tests.fixtures.served import served
from tests.proxy.observing.conftest import WITHIN_S, Observe, Samples

pytestmark = pytest.mark.anyio


class Collector(ThreadingHTTPServer):
    """Takes spans over OTLP; without `answering` it takes the connection and says nothing."""

    def __init__(self, *, answering: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.daemon_threads = True
        self.taken: list[ExportTraceServiceRequest] = []
        self.asked = threading.Event()
        self.silent = threading.Event()
        if answering:
            self.silent.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def spans(self) -> dict[str, Any]:
        """By name, with the resource that they came from."""
        return {
            span.name: (span, {each.key: each.value.string_value for each in resource.resource.attributes})
            for request in self.taken
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.set()
        self.server.silent.wait(WITHIN_S)
        assert self.path == "/v1/traces"
        self.server.taken.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def collector(*, answering: bool) -> Iterator[Collector]:
    with Collector(answering=answering) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.silent.set()
            server.shutdown()
            thread.join(WITHIN_S)


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the standard variables, and nothing else of theirs."""
    for name in os.environ:
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)

    def want(**variables: str) -> Mapping[str, str]:
        for name, value in variables.items():
            monkeypatch.setenv(f"OTEL_{name}", value)
        return os.environ

    return want


async def one_call(observe: Observe, environ: Mapping[str, str], **options: Any) -> None:
    """A gateway with one call, from its start to its end."""
    traces = configured(environ, replica="7")
    assert traces is not None
    async with observe({"tools": entry("echo")}, traces=traces, **options) as gateway:
        async with Client(gateway.app.server, mode="legacy") as client:
            with anyio.fail_after(WITHIN_S):
                result = await client.call_tool("call_tool", {"tool": "tools.add", "arguments": {"a": 1, "b": 2}})
            assert not result.is_error


async def test_spans_arrive_at_a_collector_before_the_gateway_has_ended(observe: Observe, wanted: Any) -> None:
    with collector(answering=True) as taker:
        await one_call(observe, wanted(EXPORTER_OTLP_ENDPOINT=taker.url))
        spans = taker.spans()
    served, resource = spans["tools/call call_tool"]
    sent, _ = spans["tools/call add"]
    assert sent.parent_span_id == served.span_id
    assert sent.trace_id == served.trace_id
    assert resource["service.name"] == "toolatlas"
    assert resource["service.instance.id"] == "7"
    assert resource["service.version"]


async def test_the_owner_names_the_service(observe: Observe, wanted: Any) -> None:
    with collector(answering=True) as taker:
        environ = wanted(EXPORTER_OTLP_TRACES_ENDPOINT=f"{taker.url}/v1/traces", SERVICE_NAME="tools of the house")
        await one_call(observe, environ)
        assert taker.spans()["tools/call add"][1]["service.name"] == "tools of the house"


async def test_a_collector_that_does_not_answer_holds_up_neither_calls_nor_the_end(
    observe: Observe, wanted: Any, caplog: pytest.LogCaptureFixture
) -> None:
    # Each span is sent at once, so that the exporter hangs while calls are made.
    with collector(answering=False) as taker:
        environ = wanted(EXPORTER_OTLP_ENDPOINT=taker.url, BSP_SCHEDULE_DELAY="1")
        with anyio.fail_after(END_S + WITHIN_S):
            await one_call(observe, environ)
        assert taker.asked.is_set()
        assert taker.taken == []
    assert "the last spans did not arrive" in caplog.text


async def test_where_nobody_listens_calls_go_on(observe: Observe, wanted: Any) -> None:
    with anyio.fail_after(END_S + WITHIN_S):
        await one_call(observe, wanted(EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}"))


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"EXPORTER_OTLP_ENDPOINT": ""},
        {"EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "TRACES_EXPORTER": "none"},
        {"EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "SDK_DISABLED": "true"},
        {"SERVICE_NAME": "toolatlas", "EXPORTER_OTLP_PROTOCOL": "grpc"},
    ],
)
def test_there_are_no_spans_unless_the_environment_wants_them(
    wanted: Any, variables: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    assert configured(wanted(**variables), replica="0") is None
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"TRACES_EXPORTER": "console"}, "only otlp and none"),
        (
            {"TRACES_EXPORTER": "otlp", "EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf",
        ),
        ({"TRACES_EXPORTER": "otlp", "BSP_MAX_EXPORT_BATCH_SIZE": "99999"}, "max_export_batch_size"),
    ],
)
def test_what_cannot_be_used_of_the_environment_is_told_and_stops_nothing(
    wanted: Any, variables: dict[str, str], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert configured(wanted(**variables), replica="0") is None
    assert words in caplog.text


def test_without_the_extra_there_is_one_line_that_says_how_to_get_it(
    wanted: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    assert configured(wanted(TRACES_EXPORTER="otlp"), replica="0") is None
    assert "pip install 'toolatlas[observability]'" in caplog.text
    assert len(caplog.records) == 1


async def test_nothing_is_set_for_other_libraries_of_the_process(observe: Observe, wanted: Any) -> None:
    with collector(answering=True) as taker:
        await one_call(observe, wanted(EXPORTER_OTLP_ENDPOINT=taker.url))
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


async def test_a_gateway_in_a_process_of_its_own_exports_and_is_scraped(tmp_path: Path, wanted: Any) -> None:
    with collector(answering=True) as taker:
        wanted(EXPORTER_OTLP_ENDPOINT=taker.url)
        with served(tmp_path) as gateway:
            async with Client(gateway.gateway, mode="legacy") as client:
                with anyio.fail_after(WITHIN_S):
                    await client.call_tool("call_tool", {"tool": "plain.add", "arguments": {"a": 1, "b": 2}})
            scraped = httpx2.get(gateway.gateway.removesuffix("/mcp") + "/metrics", timeout=WITHIN_S)
        spans = taker.spans()
    found = Samples(scraped.text)
    assert found.value("toolatlas_calls_total", server="plain", tool="add", outcome="ok") == 1
    assert found.value("toolatlas_log_assigned_total") == 1
    assert {"tools/call call_tool", "tools/call add"} <= spans.keys()
