"""The relay between stdio and HTTP, against an MCP server of the SDK under uvicorn, in both protocol eras."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from anyio.abc import Process, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client
from mcp import types as t
from mcp.client.subscriptions import ToolsListChanged as ToolsListChangedEvent
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from proxy.endpoint.stdio import bridge
from proxy.errors import GatewayError
from tests.fixtures.running import InProcessUvicorn

pytestmark = pytest.mark.anyio

MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "agent", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"where": {"type": "string", "x-mcp-header": "Where"}}}
BIG = 2**63 + 1


@dataclass
class Gateway:
    """What stands in for the gateway: tools that report, ask, wait and answer with fields nobody knows."""

    socket: socket.socket
    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """HTTP method, path and headers of everything that arrived."""
    arguments: list[Any] = field(default_factory=list)
    waiting: anyio.Event = field(default_factory=anyio.Event)
    cancelled: anyio.Event = field(default_factory=anyio.Event)
    server: uvicorn.Server = field(init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}/mcp"

    def sent(self, method: str, path: str = "/mcp") -> list[dict[str, str]]:
        return [headers for verb, where, headers in self.requests if (verb, where) == (method, path)]

    async def list_tools(self, ctx: ServerRequestContext[Any], params: Any) -> t.ListToolsResult:
        names = ("report", "ask", "wait", "talk", "raw")
        return t.ListToolsResult(tools=[t.Tool(name=name, input_schema=SCHEMA) for name in names])

    async def call_tool(self, ctx: ServerRequestContext[Any], params: t.CallToolRequestParams) -> t.CallToolResult:
        if params.name == "report":
            await ctx.session.report_progress(1, 2, "half")
            await ctx.session.report_progress(2, 2, "whole")
        elif params.name == "ask":
            asked = await ctx.session.elicit_form("Really?", {"type": "object", "properties": {}}, ctx.request_id)
            return t.CallToolResult(content=[t.TextContent(text=asked.action)])
        elif params.name == "talk":
            await ctx.session.report_progress(1)
        if params.name in ("wait", "talk"):
            self.waiting.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.cancelled.set()
        return t.CallToolResult(content=[t.TextContent(text="done")])

    async def raw(self, ctx: ServerRequestContext[Any], call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        if ctx.method == "tools/call" and (ctx.params or {}).get("name") == "raw":
            self.arguments.append((ctx.params or {})["arguments"])
            content = [{"type": "text", "text": "é\u2028", "vendor": {"n": BIG}}]
            return {"resultType": "complete", "content": content, "vendor": [None], "_meta": {"v/x": 1}}
        return await call_next(ctx)

    def app(self) -> Starlette:
        server = Server(
            "gateway",
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_subscriptions_listen=ListenHandler(self.bus),
        )
        server.middleware.append(self.raw)
        manager = StreamableHTTPSessionManager(server)
        mcp = StreamableHTTPASGIApp(manager)

        async def health(request: Any) -> JSONResponse:
            return JSONResponse({"service": "toolatlas"})

        @contextlib.asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            async with manager.run():
                yield

        return Starlette(routes=[Route("/mcp", mcp), Route("/healthz", health)], lifespan=lifespan)

    async def serve(self) -> None:
        app = self.app()

        async def noting(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
                self.requests.append((scope["method"], scope["path"], headers))
            await app(scope, receive, send)

        self.server = InProcessUvicorn(uvicorn.Config(noting, log_config=None, timeout_graceful_shutdown=1))
        await self.server.serve(sockets=[self.socket])

    def die(self) -> None:
        """As a killed process would: every connection breaks and nobody listens any more."""
        for listener in self.server.servers:
            listener.close()
        for connection in list(self.server.server_state.connections):
            connection.transport.abort()
        self.server.should_exit = True


@contextlib.asynccontextmanager
async def _gateways() -> AsyncIterator[Callable[[], Gateway]]:
    """Starts gateways; their sockets listen before they do, so that nobody has to wait for them."""
    started: list[Gateway] = []
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:

            def start() -> Gateway:
                gateway = Gateway(socket.create_server(("127.0.0.1", 0)))
                started.append(gateway)
                tasks.start_soon(gateway.serve)
                return gateway

            yield start
            for gateway in started:
                gateway.die()


class Agent:
    """The agent's side of the bridge, message by message."""

    def __init__(self, tasks: TaskGroup, url: str, **options: Any) -> None:
        self._say, read = create_context_streams[SessionMessage | Exception](0)
        write, self._hear = create_context_streams[SessionMessage](100)
        self.ended = anyio.Event()
        self.failure: GatewayError | None = None

        async def run() -> None:
            try:
                async with read, write:
                    await bridge(url, read=read, write=write, **options)
            except GatewayError as error:
                self.failure = error
            self.ended.set()

        tasks.start_soon(run)

    async def say(self, line: dict[str, Any] | str) -> None:
        """As stdio does: what is no JSON-RPC message arrives as an exception."""
        try:
            message = t.jsonrpc_message_adapter.validate_json(line if isinstance(line, str) else json.dumps(line))
        except ValueError as error:
            await self._say.send(error)
        else:
            await self._say.send(SessionMessage(message))

    async def ask(self, request: int | str, method: str, params: dict[str, Any]) -> None:
        await self.say({"jsonrpc": "2.0", "id": request, "method": method, "params": params})

    async def call(self, request: int | str, tool: str, meta: dict[str, Any], arguments: Any = None) -> None:
        await self.ask(request, "tools/call", {"name": tool, "arguments": arguments or {}, "_meta": meta})

    async def hear(self) -> dict[str, Any]:
        message = (await self._hear.receive()).message
        return json.loads(message.model_dump_json(by_alias=True, exclude_unset=True))

    async def connect(self) -> None:
        await self.ask("hello", "initialize", HELLO)
        assert (await self.hear())["result"]["protocolVersion"] == "2025-11-25"
        await self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def leave(self) -> None:
        await self._say.aclose()
        await self.ended.wait()
        await self._hear.aclose()


@contextlib.asynccontextmanager
async def _agent(url: str, **options: Any) -> AsyncIterator[Agent]:
    async with anyio.create_task_group() as tasks:
        agent = Agent(tasks, url, **options)
        yield agent
        await agent.leave()


@contextlib.asynccontextmanager
async def _transport(url: str) -> AsyncIterator[Any]:
    """The bridge as a transport for the SDK's client."""
    async with _agent(url) as agent:
        yield agent._hear, agent._say


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_of_either_era_lists_calls_and_hears_progress(mode: Any) -> None:
    async with _gateways() as start:
        gateway = start()
        heard: list[tuple[float, float | None, str | None]] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            heard.append((done, total, message))

        async with Client(_transport(gateway.url), mode=mode) as client:
            assert client.protocol_version == (MODERN if mode == "auto" else "2025-11-25")
            assert next(tool.name for tool in (await client.list_tools()).tools) == "report"
            result = await client.call_tool("report", {"where": "ünd"}, progress_callback=progress)
            assert isinstance(result.content[0], t.TextContent)
            assert result.content[0].text == "done"
        assert heard == [(1, 2, "half"), (2, 2, "whole")]
        calls = [headers for headers in gateway.sent("POST") if headers.get("mcp-method") == "tools/call"]
        if mode == "auto":
            (call,) = calls
            assert call["mcp-protocol-version"] == MODERN
            assert call["mcp-name"] == "report"
            assert call["mcp-param-where"].startswith("=?base64?")
        else:
            assert calls == []
            opening, *rest = gateway.sent("POST")
            assert "mcp-protocol-version" not in opening
            assert {headers["mcp-protocol-version"] for headers in rest} == {"2025-11-25"}
            assert len({headers["mcp-session-id"] for headers in rest}) == 1


async def test_a_legacy_session_is_ended_when_the_agent_leaves() -> None:
    async with _gateways() as start:
        gateway = start()
        async with _agent(gateway.url) as agent:
            await agent.connect()
        (ended,) = gateway.sent("DELETE")
        assert ended["mcp-session-id"] == gateway.sent("POST")[-1]["mcp-session-id"]
        assert agent.failure is None


async def test_a_legacy_server_asks_the_agent_and_gets_its_answer() -> None:
    async with _gateways() as start, _agent(start().url) as agent:
        hello = HELLO | {"capabilities": {"elicitation": {}}}
        await agent.ask(1, "initialize", hello)
        await agent.hear()
        await agent.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await agent.call(2, "ask", {})
        question = await agent.hear()
        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == "Really?"
        await agent.say({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
        answer = await agent.hear()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (2, "decline")


@pytest.mark.parametrize("meta", [ENVELOPE, {}], ids=["modern", "legacy"])
async def test_cancelling_reaches_the_call_and_leaves_the_others_alone(meta: dict[str, Any]) -> None:
    async with _gateways() as start:
        gateway = start()
        async with _agent(gateway.url) as agent:
            if not meta:
                await agent.connect()
            await agent.call("slow", "wait", meta)
            await gateway.waiting.wait()
            params = {"requestId": "slow", "_meta": meta} if meta else {"requestId": "slow"}
            await agent.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            await gateway.cancelled.wait()
            await agent.call("next", "report", meta)
            # In the older era the SDK's server says that it gave up, sooner or later; in the newer the stream closes.
            heard = {answer["id"]: answer for answer in [await agent.hear() for _ in range(1 if meta else 2)]}
            assert "result" in heard.pop("next")
            assert {key: answer["error"]["code"] for key, answer in heard.items()} == ({} if meta else {"slow": -32800})


@pytest.mark.parametrize("meta", [ENVELOPE, {}], ids=["modern", "legacy"])
async def test_nothing_is_rewritten(meta: dict[str, Any]) -> None:
    async with _gateways() as start:
        gateway = start()
        async with _agent(gateway.url) as agent:
            if not meta:
                await agent.connect()
            arguments = {"n": BIG, "float": 1.0, "none": None, "deep": [{"$ref": "é"}]}
            await agent.call("1", "raw", meta | {"vendor/x": 2}, arguments)
            answer = await agent.hear()
            assert gateway.arguments == [arguments]
            assert answer["id"] == "1"
            assert answer["result"]["content"] == [{"type": "text", "text": "é\u2028", "vendor": {"n": BIG}}]
            assert answer["result"]["vendor"] == [None]
            assert answer["result"]["_meta"] == {"v/x": 1}
            await agent.call(1, "raw", meta)
            assert (await agent.hear())["id"] == 1


async def test_a_result_larger_than_an_event_of_the_sdk_may_be_arrives() -> None:
    async def list_tools(ctx: Any, params: Any) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[t.Tool(name="big", description="x" * 1_500_000, input_schema=SCHEMA)])

    async with _gateways() as start:
        gateway = start()
        gateway.list_tools = list_tools  # type: ignore[method-assign]
        async with _agent(gateway.url) as agent:
            await agent.connect()
            await agent.ask(1, "tools/list", {})
            assert len((await agent.hear())["result"]["tools"][0]["description"]) == 1_500_000


async def test_a_subscription_stays_open_beside_other_calls() -> None:
    async with _gateways() as start:
        gateway = start()
        async with Client(_transport(gateway.url)) as client, client.listen(tools_list_changed=True) as events:
            await client.call_tool("report", {})
            await gateway.bus.publish(ToolsListChanged())
            async for event in events:
                assert isinstance(event, ToolsListChangedEvent)
                break


async def test_messages_sent_before_the_answer_to_initialize_wait_for_it() -> None:
    async with _gateways() as start, _agent(start().url) as agent, anyio.create_task_group() as tasks:

        async def hurry() -> None:
            await agent.ask(1, "initialize", HELLO)
            await agent.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
            await agent.ask(2, "ping", {})

        tasks.start_soon(hurry)
        assert [(await agent.hear())["id"] for _ in range(2)] == [1, 2]


async def test_a_line_that_is_no_message_is_answered_and_the_next_one_counts() -> None:
    async with _gateways() as start, _agent(start().url) as agent:
        await agent.say("{nonsense}")
        answer = await agent.hear()
        assert (answer["id"], answer["error"]["code"]) == (None, t.PARSE_ERROR)
        await agent.call(1, "report", ENVELOPE)
        assert (await agent.hear())["id"] == 1


async def test_the_token_is_sent_and_the_gateway_is_kept_awake() -> None:
    async with _gateways() as start:
        gateway = start()
        async with _agent(gateway.url, token="ta_secret") as agent:
            await agent.connect()
            await agent.ask(2, "ping", {})
            await agent.hear()
            while not gateway.sent("GET", "/healthz"):
                await anyio.lowlevel.checkpoint()
        assert {headers["authorization"] for _, _, headers in gateway.requests} == {"Bearer ta_secret"}


@pytest.mark.parametrize("tool", ["wait", "talk"])
async def test_when_the_gateway_dies_modern_calls_are_answered_and_the_next_goes_to_its_successor(tool: str) -> None:
    async with _gateways() as start:
        first = start()
        later: list[Gateway] = []

        async def reconnect() -> str:
            later.append(start())
            return later[-1].url

        async with _agent(first.url, reconnect=reconnect) as agent:
            await agent.call("lost", tool, ENVELOPE | ({"progressToken": "p"} if tool == "talk" else {}))
            if tool == "talk":
                assert (await agent.hear())["method"] == "notifications/progress"
            await first.waiting.wait()
            first.die()
            answer = await agent.hear()
            assert answer["id"] == "lost"
            assert "gateway stopped" in answer["error"]["message"]
            await agent.call("again", "report", ENVELOPE)
            answer = await agent.hear()
            assert (answer["id"], answer["result"]["content"][0]["text"]) == ("again", "done")
            (successor,) = later
            assert successor.sent("POST")[0]["host"] in successor.url
        assert agent.failure is None


async def test_calls_that_fail_together_start_one_successor() -> None:
    async with _gateways() as start:
        first = start()
        later: list[Gateway] = []

        async def reconnect() -> str:
            await anyio.lowlevel.checkpoint()
            later.append(start())
            return later[-1].url

        async with _agent(first.url, reconnect=reconnect) as agent:
            await agent.call(0, "report", ENVELOPE)
            await agent.hear()
            first.die()
            for number in range(1, 5):
                await agent.call(number, "report", ENVELOPE)
            answers = [await agent.hear() for _ in range(4)]
            assert sorted(answer["id"] for answer in answers) == [1, 2, 3, 4]
            assert all("result" in answer for answer in answers)
        assert len(later) == 1


async def test_a_gateway_that_cannot_be_started_is_told_in_the_answer() -> None:
    async def reconnect() -> str:
        raise GatewayError("mcp.json line 3 is wrong")

    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/mcp"
    with anyio.fail_after(30):
        async with _agent(url, reconnect=reconnect) as agent:
            await agent.call(1, "report", ENVELOPE)
            assert (await agent.hear())["error"]["message"] == "mcp.json line 3 is wrong"
        async with _agent(url) as agent:
            await agent.call(2, "report", ENVELOPE)
            assert "toolatlas serve" in (await agent.hear())["error"]["message"]


async def test_a_lost_legacy_session_is_answered_and_ends_the_bridge() -> None:
    async with _gateways() as start:
        gateway = start()

        async def reconnect() -> str:
            raise AssertionError("a session cannot be taken over by another gateway")

        async with _agent(gateway.url, reconnect=reconnect) as agent:
            await agent.connect()
            await agent.call("lost", "wait", {})
            await gateway.waiting.wait()
            gateway.die()
            answer = await agent.hear()
            assert answer["id"] == "lost"
            assert "gateway stopped" in answer["error"]["message"]
            await agent.ask("next", "ping", {})
            answer = await agent.hear()
            assert answer["id"] == "next"
            assert answer["error"] == {"code": t.INVALID_REQUEST, "message": "Session terminated; reconnect"}
            await agent.ended.wait()
            assert agent.failure is not None


COMMAND = """
import sys, typer
from proxy.commands import stdio
from proxy.errors import GatewayError
app = typer.Typer()
app.callback()(lambda: None)
stdio.register(app)
try:
    app(standalone_mode=False)
except GatewayError as error:
    sys.exit(str(error))
"""


@contextlib.asynccontextmanager
async def _command(url: str) -> AsyncIterator[tuple[Process, BufferedByteReceiveStream]]:
    command = [sys.executable, "-W", "error", "-c", COMMAND, "stdio", "--url", url, "--token-env", "SOME_TOKEN"]
    environment = {**os.environ, "SOME_TOKEN": "ta_secret"}
    async with await anyio.open_process(command, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
            await process.stdin.send(json.dumps(hello).encode() + b"\n")
            lines = BufferedByteReceiveStream(process.stdout)
            assert json.loads(await lines.receive_until(b"\n", 10_000))["id"] == 1
            yield process, lines
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


@pytest.mark.parametrize("how", ["end of input", "signal"])
async def test_the_command_speaks_nothing_but_mcp_and_leaves_when_told(how: str) -> None:
    async with _gateways() as start:
        gateway = start()
        async with _command(gateway.url) as (process, lines):
            if how == "signal":
                process.send_signal(signal.SIGTERM)
            else:
                assert process.stdin is not None
                await process.stdin.aclose()
            assert await process.wait() == 0
            with pytest.raises(anyio.IncompleteRead):
                await lines.receive_exactly(1)
        assert len(gateway.sent("DELETE")) == 1
        assert gateway.sent("POST")[0]["authorization"] == "Bearer ta_secret"


async def test_the_command_ends_with_a_lost_session_although_its_input_stays_open() -> None:
    async with _gateways() as start:
        gateway = start()
        async with _command(gateway.url) as (process, lines):
            gateway.die()
            assert process.stdin is not None
            assert process.stderr is not None
            said = ""
            while said != "Session terminated; reconnect":
                # At first it may find the connection still open that the gateway left behind.
                assert said == "" or "gateway stopped" in said
                await process.stdin.send(b'{"jsonrpc": "2.0", "id": 2, "method": "ping"}\n')
                said = json.loads(await lines.receive_until(b"\n", 10_000))["error"]["message"]
            assert await process.wait() == 1
            logged = b"".join([chunk async for chunk in process.stderr])
            assert b"has to connect again" in logged
            assert b"Traceback" not in logged


async def test_a_session_that_the_gateway_forgot_is_lost_for_every_open_request() -> None:
    async with _gateways() as start:
        gateway = start()
        async with _agent(gateway.url) as agent:
            await agent.connect()
            await agent.call("open", "wait", {})
            await gateway.waiting.wait()
            session = gateway.sent("POST")[-1]["mcp-session-id"]
            async with httpx2.AsyncClient(headers={"mcp-session-id": session}) as http:
                assert (await http.delete(gateway.url)).status_code == 200
            heard = [await agent.hear()]
            await agent.ask("next", "ping", {})
            while heard[-1]["id"] != "next":
                heard.append(await agent.hear())
            assert heard[-1]["error"]["message"] == "Session terminated; reconnect"
            await agent.ended.wait()
