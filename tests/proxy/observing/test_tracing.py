"""Spans of agents' requests and of what they made the gateway do: names, parents, errors, and no contents."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp import types as t
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from proxy.sandbox.embedded import EmbeddedBackend
from proxy.sandbox.limits import limits_of
from proxy.servers.config import ServerConfig
from proxy.servers.messages import ExactWriter
from proxy.servers.supervisor import Phase
from proxy.servers.transports import Channel, open_transport
from proxy.store.recorder import Level
from tests.fixtures.raw_agent import LEGACY, MODERN, RawAgent, raw_agent
from tests.fixtures.running import dead_port_entry, entry
from tests.proxy.observing.conftest import WITHIN_S, Observe, Observed, attributes, texts
from tests.proxy.test_fidelity import http_entry, stdio_entry

pytestmark = pytest.mark.anyio
ERAS = (LEGACY, MODERN)
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
OTHER = f"00-{'b' * 32}-{'c' * 16}-01"


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    assert span.parent is not None
    return span.parent.span_id == parent.get_span_context().span_id and span.parent.trace_id == trace_of(parent)


def trace_of(span: ReadableSpan) -> int:
    return span.get_span_context().trace_id


async def run_python(agent: RawAgent, code: str) -> str:
    return json.dumps((await agent.call("run_python", {"code": code})).body)


def parent_of(params: dict[str, Any]) -> tuple[str, str]:
    """Trace and span that a server was told."""
    _, trace, span, _ = params["_meta"]["traceparent"].split("-")
    return trace, span


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_and_what_it_sends_to_a_server_are_parent_and_child(observe: Observe, era: str) -> None:
    async with observe({"tools": entry("echo")}) as gateway:
        async with raw_agent(gateway.app.http, "/mcp", era) as agent:
            await agent.call("call_tool", {"tool": "tools.add", "arguments": {"a": 1, "b": 2}})
        served, sent = gateway.named("tools/call call_tool"), gateway.named("tools/call add")
    assert (served.kind, sent.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    assert served.parent is None
    assert is_child(sent, served)
    told = attributes(served)
    assert {key: told[key] for key in told if not key.startswith("toolatlas.") and key != "mcp.session.id"} == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": era,
        "jsonrpc.request.id": "2" if era == LEGACY else "1",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "call_tool",
        "network.transport": "tcp",
        "network.protocol.name": "http",
    }
    assert (told["toolatlas.mode"], told["toolatlas.outcome"]) == ("search", "ok")
    assert (told["toolatlas.agent"], told["toolatlas.server"]) == ("local", "tools")
    assert told["toolatlas.step.id"].startswith("s_")
    assert told["toolatlas.episode.id"].startswith("e_")
    assert served.status.status_code is StatusCode.UNSET
    told = attributes(sent)
    assert told.pop("jsonrpc.request.id").isdigit()
    assert told == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2025-11-25",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "network.transport": "pipe",
        "toolatlas.server": "tools",
    }
    assert sent.status.status_code is StatusCode.UNSET


async def test_a_server_over_http_is_named_by_its_host_alone(observe: Observe) -> None:
    async with http_entry("modern", streams=False) as server:
        server["url"] += "?key=hunter2"
        async with observe({"mirror": server}) as gateway:
            async with raw_agent(gateway.app.http, "/mcp/mirror", MODERN) as agent:
                await agent.call("took", {})
            (sent,) = (span for span in gateway.spans if span.kind is SpanKind.CLIENT)
    told = attributes(sent)
    assert (told["network.transport"], told["network.protocol.name"]) == ("tcp", "http")
    assert (told["server.address"], told["server.port"]) == (
        "127.0.0.1",
        int(server["url"].split(":")[2].split("/")[0]),
    )
    assert told["mcp.protocol.version"] == MODERN
    assert "hunter2" not in texts(gateway.spans)


@pytest.mark.parametrize("era", ERAS)
async def test_a_span_in_meta_is_the_parent_and_one_in_the_headers_is_linked(observe: Observe, era: str) -> None:
    async with observe({"tools": entry("echo")}) as gateway:
        async with raw_agent(gateway.app.http, "/mcp", era) as agent:
            agent._headers["traceparent"] = OTHER
            await agent.call("list_servers", {}, _meta={"traceparent": PARENT})
        served = gateway.named("tools/call list_servers")
    assert served.parent is not None
    assert (f"{served.parent.trace_id:032x}", f"{served.parent.span_id:016x}") == (TRACE, SPAN)
    assert [f"{link.context.trace_id:032x}" for link in served.links] == ["b" * 32]


@pytest.mark.parametrize("meta", [None, {"traceparent": "nonsense"}, {"traceparent": 7}])
async def test_a_span_in_the_headers_is_the_parent_where_meta_has_none(observe: Observe, meta: Any) -> None:
    async with observe({"tools": entry("echo")}) as gateway:
        async with raw_agent(gateway.app.http, "/mcp", LEGACY) as agent:
            agent._headers["traceparent"] = PARENT
            await agent.call("list_servers", {}, **({} if meta is None else {"_meta": meta}))
        served = gateway.named("tools/call list_servers")
    assert served.parent is not None
    assert f"{served.parent.trace_id:032x}" == TRACE
    assert len(served.links) == 0


@pytest.mark.parametrize("path", ["/mcp", "/mcp/mirror"])
async def test_the_server_is_told_the_span_of_its_call_and_no_baggage_that_the_agent_did_not_send(
    observe: Observe, path: str
) -> None:
    async with observe({"mirror": stdio_entry("legacy")}) as gateway:
        async with raw_agent(gateway.app.http, path, LEGACY) as agent:
            agent._headers |= {"traceparent": PARENT, "baggage": "user=alice"}
            if path == "/mcp":
                answer = await agent.call("call_tool", {"tool": "mirror.took", "arguments": {"a": 1}})
            else:
                answer = await agent.call("took", {"a": 1})
        (sent,) = (span for span in gateway.spans if span.kind is SpanKind.CLIENT)
    params = json.loads(answer.result["content"][0]["text"])
    assert params["arguments"] == {"a": 1}
    assert parent_of(params) == (TRACE, f"{sent.get_span_context().span_id:016x}")
    assert set(params["_meta"]) == {"traceparent"}


async def test_without_tracing_a_server_gets_what_the_agent_sent_and_nothing_else(observe: Observe) -> None:
    async with observe({"mirror": stdio_entry("legacy")}, tracing=False) as gateway:
        async with raw_agent(gateway.app.http, "/mcp/mirror", LEGACY) as agent:
            agent._headers["traceparent"] = OTHER
            with_one = await agent.call("took", {}, _meta={"traceparent": PARENT, "baggage": "a=b"})
            without = await agent.call("took", {})
        assert gateway.spans == ()
    params = json.loads(with_one.result["content"][0]["text"])
    assert params["_meta"] == {"traceparent": PARENT, "baggage": "a=b"}
    assert "traceparent" not in without.result["content"][0]["text"]


async def test_calls_of_code_are_children_of_its_run_also_those_that_reach_no_server(observe: Observe) -> None:
    code = """
try:
    tools.add(a="one", b=2)
except Exception:
    pass
print(tools.add(a=1, b=2))
tools.fail()
"""
    async with observe({"tools": entry("echo")}, backend=EmbeddedBackend(limits_of(()))) as gateway:
        async with raw_agent(gateway.app.http, "/mcp", LEGACY) as agent:
            await run_python(agent, code)
        run = gateway.named("tools/call run_python")
        added, failed = gateway.named("tools/call add"), gateway.named("tools/call fail")
        refused = gateway.named("execute_tool tools.add")
    assert [is_child(span, run) for span in (added, failed, refused)] == [True, True, True]
    assert attributes(refused)["error.type"] == "invalid_arguments"
    assert refused.start_time is not None
    assert run.start_time is not None
    assert run.start_time <= refused.start_time
    assert attributes(failed)["error.type"] == "tool_error"
    assert "error.type" not in attributes(added)


async def test_a_call_that_waits_for_the_user_is_a_span_for_each_of_its_requests(observe: Observe) -> None:
    async def answer(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        return t.ElicitResult(action="accept", content={})

    arguments = {"code": "print(tools.add(a=1, b=2), tools.delete_file(path='a'))"}
    async with observe({"tools": entry("echo")}, backend=EmbeddedBackend(limits_of(()))) as gateway:
        async with Client(gateway.app.server, elicitation_callback=answer) as client:
            with anyio.fail_after(WITHIN_S):
                asking = await client.session.call_tool("run_python", arguments, allow_input_required=True)
                assert isinstance(asking, t.InputRequiredResult)
                replies = {key: t.ElicitResult(action="accept", content={}) for key in asking.input_requests or ()}
                result = await client.session.call_tool(
                    "run_python", arguments, input_responses=replies, request_state=asking.request_state
                )
        assert not result.is_error
        asked, answered = (span for span in gateway.spans if span.name == "tools/call run_python")
        deleted = gateway.named("tools/call delete_file")
    assert attributes(asked)["toolatlas.outcome"] == "input_required"
    assert attributes(answered)["toolatlas.outcome"] == "ok"
    assert is_child(gateway.named("tools/call add"), asked)
    # The run is that of the request that began it.
    assert is_child(deleted, asked)


async def failing(gateway: Observed, tool: str, arguments: Any) -> dict[str, Any]:
    """What the span of a failed call in search mode tells."""
    async with raw_agent(gateway.app.http, "/mcp", LEGACY) as agent:
        await agent.call("call_tool", {"tool": tool, "arguments": arguments})
    served = gateway.named("tools/call call_tool")
    assert served.status.status_code is StatusCode.ERROR
    assert served.status.description is None
    return attributes(served)


@pytest.mark.parametrize(
    ("tool", "arguments", "outcome", "of_server"),
    [
        ("tools.fail", {}, "tool_error", "tool_error"),
        ("tools.add", {"a": "one"}, "invalid_arguments", None),
        ("tools.delete_file", {"path": "x"}, "denied", None),
        ("tools.nothing", {}, "invalid_arguments", None),
        ("tools.crash", {}, "server_down", "connection_closed"),
        ("late.silent_slow", {"seconds": 20}, "timeout", "cancelled"),
        ("faults.session_error", {}, "protocol_error", "-32001"),
        ("dead.anything", {}, "invalid_arguments", None),
    ],
)
async def test_a_failure_is_told_by_its_kind(
    observe: Observe, tool: str, arguments: Any, outcome: str, of_server: str | None
) -> None:
    servers = {
        "tools": {**entry("echo"), "tools": {"deny": ["delete_file"]}},
        "late": {**entry("echo"), "timeout_s": 2},
        "faults": entry("faults"),
        "dead": dead_port_entry(),
    }
    async with observe(servers) as gateway:
        told = await failing(gateway, tool, arguments)
        sent = [span for span in gateway.spans if span.kind is SpanKind.CLIENT]
    assert (told["toolatlas.outcome"], told["error.type"]) == (outcome, "tool_error")
    assert [attributes(span)["error.type"] for span in sent] == ([] if of_server is None else [of_server])
    assert [span.status.description for span in sent] == [None] * len(sent)


async def test_a_json_rpc_error_is_told_by_its_code(observe: Observe) -> None:
    async with observe({"faults": entry("faults")}) as gateway:
        async with raw_agent(gateway.app.http, "/mcp/faults", LEGACY) as agent:
            assert "error" in (await agent.call("session_error", {})).body
        served = next(
            span for span in gateway.spans if span.name == "tools/call session_error" and span.kind is SpanKind.SERVER
        )
    told = attributes(served)
    assert told["error.type"] == told["rpc.response.status_code"] == "-32001"
    assert served.events == ()


async def test_a_call_that_the_agent_gives_up_is_told_as_cancelled(observe: Observe) -> None:
    async with observe({"tools": entry("echo")}) as gateway, Client(gateway.app.server, mode="legacy") as client:
        with anyio.fail_after(WITHIN_S), anyio.CancelScope() as call:

            async def give_up(progress: float, total: float | None, message: str | None) -> None:
                call.cancel()

            slow = {"tool": "tools.slow", "arguments": {"seconds": 60}}
            await client.call_tool("call_tool", slow, progress_callback=give_up)
        await gateway.until(lambda: any(span.name == "tools/call call_tool" for span in gateway.spans))
        served, sent = gateway.named("tools/call call_tool"), gateway.named("tools/call slow")
    assert attributes(served)["error.type"] == attributes(sent)["error.type"] == "cancelled"
    assert attributes(served)["toolatlas.outcome"] == "cancelled"


@pytest.mark.parametrize("era", ERAS)
async def test_spans_hold_no_contents_no_secrets_and_no_name_that_an_agent_made_up(observe: Observe, era: str) -> None:
    servers = {"tools": {**entry("echo"), "env": {"KEY": "hunter2"}}, "faults": entry("faults")}
    async with observe(servers, backend=EmbeddedBackend(limits_of(()))) as gateway:
        for path in ("/mcp", "/mcp/tools", "/mcp?mode=direct"):
            async with raw_agent(gateway.app.http, path, era) as agent:
                session = agent._headers.get("mcp-session-id", "hunter2")
                for name in ("call_tool", "echo", "tools__echo", "hunter2"):
                    await agent.call(name, {"text": "hunter2", "tool": "hunter2.hunter2"})
                await agent.call("call_tool", {"tool": "tools.echo", "arguments": {"text": "hunter2"}})
                await agent.call("search_tools", {"query": "hunter2"})
                await agent.call("run_python", {"code": "x = 'hunter2'\ntools.echo(text=x)\nhunter2.hunter2()"})
                await agent.request("resources/read", {"uri": "file:///hunter2"})
                await agent.request("prompts/get", {"name": "hunter2"})
                await agent.request("hunter2", {})
            assert session not in texts(gateway.spans)
        assert len(gateway.spans) > 20
        assert "hunter2" not in texts(gateway.spans)
        assert not any(span.events for span in gateway.spans)


@pytest.mark.parametrize("params", [{"name": ["x"]}, {"name": {}}, {}, {"name": "x", "_meta": {"traceparent": [1]}}])
async def test_a_malformed_request_is_answered_as_without_tracing(observe: Observe, params: Any) -> None:
    answers: list[Any] = []
    for tracing in (True, False):
        async with observe({"tools": entry("echo")}, tracing=tracing) as gateway:
            async with raw_agent(gateway.app.http, "/mcp", LEGACY) as agent:
                answers.append((await agent.request("tools/call", {"arguments": {}, **params})).body)
    assert answers[0] == answers[1]


async def test_a_tool_that_is_not_logged_is_not_named(observe: Observe) -> None:
    servers = {"tools": {**entry("echo"), "log": {"*": "full", "ec*": "off"}}}
    async with observe(servers) as gateway:
        async with raw_agent(gateway.app.http, "/mcp/tools", LEGACY) as agent:
            await agent.call("echo", {"text": "x"})
        calls = [span for span in gateway.spans if span.name.startswith("tools/call")]
    assert [(span.name, span.kind) for span in calls] == [
        ("tools/call", SpanKind.CLIENT),
        ("tools/call", SpanKind.SERVER),
    ]
    assert "echo" not in texts(calls)
    assert attributes(calls[1])["toolatlas.outcome"] == "ok"
    assert "toolatlas.step.id" not in attributes(calls[1])


async def test_with_the_log_off_no_tool_is_named(observe: Observe) -> None:
    async with observe({"tools": entry("echo")}, log=Level.OFF) as gateway:
        async with raw_agent(gateway.app.http, "/mcp/tools", LEGACY) as agent:
            await agent.call("echo", {"text": "x"})
        assert "echo" not in texts(gateway.spans)


async def test_requests_of_one_session_can_be_told_by_a_hash_of_its_id(observe: Observe) -> None:
    async with observe({"tools": entry("echo")}) as gateway:
        for _ in range(2):
            async with raw_agent(gateway.app.http, "/mcp", LEGACY) as agent:
                await agent.call("list_servers", {})
                await agent.call("list_servers", {})
        sessions = [attributes(span)["mcp.session.id"] for span in gateway.spans if "list_servers" in span.name]
    assert len(sessions) == 4
    assert sessions[0] == sessions[1] != sessions[2] == sessions[3]


async def test_nothing_else_makes_spans_of_the_same_request(observe: Observe) -> None:
    async with observe({"tools": entry("echo")}) as gateway:
        async with raw_agent(gateway.app.http, "/mcp", LEGACY) as agent:
            await agent.call("call_tool", {"tool": "tools.add", "arguments": {"a": 1, "b": 2}})
            await agent.request("ping", {})
        names = [span.name for span in gateway.spans]
        scopes = {span.instrumentation_scope.name for span in gateway.spans if span.instrumentation_scope is not None}
    assert names == ["initialize", "tools/call add", "tools/call call_tool"]
    assert scopes == {"toolatlas"}


async def test_what_the_gateway_asks_a_server_for_itself_belongs_to_no_call(observe: Observe) -> None:
    sent: list[SessionMessage] = []

    @asynccontextmanager
    async def noted(config: ServerConfig) -> AsyncIterator[Channel]:
        async with open_transport(config) as channel:
            yield Channel(channel.read, Noted(channel.write, sent), channel.last_words, exact=True)

    server = {**entry("echo"), "idle_s": 0.2}
    async with observe({"tools": server}, transport=noted) as gateway:
        pool = gateway.app.gateway.pool
        await gateway.until(lambda: pool.state("tools").phase is Phase.ASLEEP)
        sent.clear()
        async with raw_agent(gateway.app.http, "/mcp", LEGACY) as agent:
            await agent.call("call_tool", {"tool": "tools.add", "arguments": {"a": 1, "b": 2}})
        await gateway.until(lambda: "tools/list" in dict(told(sent)))
    assert dict(told(sent)) == {"server/discover": False, "initialize": False, "tools/call": True, "tools/list": False}


class Noted(ExactWriter):
    def __init__(self, inner: ExactWriter, sent: list[SessionMessage]) -> None:
        super().__init__(inner)
        self._sent = sent

    async def send(self, item: SessionMessage, /) -> None:
        self._sent.append(item)
        await super().send(item)


def told(sent: Iterable[SessionMessage]) -> Iterator[tuple[str, bool]]:
    """Methods that were sent, and whether the server was told a span."""
    for item in sent:
        if isinstance(item.message, JSONRPCRequest):
            yield item.message.method, "traceparent" in json.dumps(item.message.params)
