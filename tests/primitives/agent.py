"""An agent of either era that sees the messages as they are on the wire, over real HTTP, and can be asked questions.

The SDK's session frames and correlates; requests, results, questions and notifications are raw dictionaries. Above: the
tests beside this. Below: a gateway's `/mcp`, in one of the modes, and the SDK's client transport.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import CallOptions, DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import NAME_BEARING_METHODS, encode_header_value
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext

LIMIT_S = 30.0
"""What anything may take, with much to spare: the machine is shared."""
MODERN = "2026-07-28"
EVERYTHING: Mapping[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {"listChanged": True},
}
"""The capabilities of an agent that can be asked everything."""
MAX_ROUNDS = 12

Answer = Callable[["Asked"], Awaitable[Any]]


@dataclass(frozen=True)
class Asked:
    """One question as it arrived."""

    method: str
    params: dict[str, Any]
    context: DispatchContext[TransportContext] | None = None
    """None where the question was the result of a request."""


async def accept(asked: Asked) -> Any:
    """What an obliging user, model or client answers, with a member that the protocol does not know."""
    if asked.method == "elicitation/create":
        content = {} if asked.params.get("mode") == "url" else {"content": {"colour": "green"}}
        return {"action": "accept", **content, "vendor": asked.params.get("message")}
    if asked.method == "roots/list":
        return {"roots": [{"uri": "file:///work", "name": "work", "vendor": 1}]}
    text = {"type": "text", "text": "hello"}
    return {"role": "assistant", "content": text, "model": "model-1", "stopReason": "endTurn", "vendor": 1}


@dataclass
class Agent:
    """Made by `connect`."""

    session: _Session
    dispatcher: JSONRPCDispatcher
    era: str
    mode: str
    server: str
    capabilities: Mapping[str, Any]
    answer: Answer
    log_level: str | None = None
    """Of the 2026-07-28 era, whose agents say it with each request."""
    asked: list[Asked] = field(default_factory=list[Asked])
    told: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    """Notifications, in order."""

    @property
    def modern(self) -> bool:
        return self.era == "2026"

    def of(self, method: str) -> list[dict[str, Any]]:
        """The parameters of the notifications of a method."""
        return [params for told, params in self.told if told == method]

    def uri(self, uri: str) -> str:
        """A server's resource under the address that this agent reads it by."""
        return uri if self.mode == "server" else f"toolatlas://{self.server}/{uri}"

    def prompt(self, name: str) -> str:
        return name if self.mode == "server" else f"{self.server}__{name}"

    def naming(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The name and arguments that call a server's tool in this agent's mode."""
        if self.mode == "server":
            return tool, dict(arguments)
        if self.mode == "direct":
            return f"{self.server}__{tool}", dict(arguments)
        return "call_tool", {"tool": f"{self.server}.{tool}", "arguments": dict(arguments)}

    async def call(self, tool: str, *, meta: Mapping[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        """The raw result of a tool, questions answered. Raises MCPError for a JSON-RPC error."""
        name, given = self.naming(tool, arguments)
        return await self.complete("tools/call", {"name": name, "arguments": given, **_meta(meta)})

    async def begin(self, tool: str, *, resumed: Mapping[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        """One request of a call: its result may ask (2026-07-28)."""
        name, given = self.naming(tool, arguments)
        return await self.request("tools/call", {"name": name, "arguments": given, **(resumed or {})})

    async def text(self, tool: str, **arguments: Any) -> str:
        result = await self.call(tool, **arguments)
        assert result.get("isError") is not True, result
        return text_of(result)

    async def json(self, tool: str, **arguments: Any) -> Any:
        """What a tool answers as JSON."""
        return json.loads(await self.text(tool, **arguments))

    async def complete(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request, and again with answers for as long as the result asks."""
        given = dict(params)
        for _ in range(MAX_ROUNDS):
            result = await self.request(method, given)
            if result.get("resultType") != "input_required":
                return result
            given = {**params, **await self.replies(result)}
        raise AssertionError(f"asked {MAX_ROUNDS} times: {result}")

    async def replies(self, asking: Mapping[str, Any]) -> dict[str, Any]:
        """What to add to a request whose result asked."""
        assert self.modern
        answers: dict[str, Any] = {}
        for key, question in (asking.get("inputRequests") or {}).items():
            asked = Asked(question["method"], question.get("params") or {})
            self.asked.append(asked)
            answers[key] = await self.answer(asked)
        state = {"requestState": asking["requestState"]} if "requestState" in asking else {}
        return {"inputResponses": answers, **state}

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """One request. Cancelling it cancels it at the gateway."""
        given, headers = dict(params), {"mcp-protocol-version": self.session.protocol_version or ""}
        if self.modern:
            headers["mcp-method"] = method
            named = given.get(NAME_BEARING_METHODS.get(method, ""))
            if isinstance(named, str):
                headers["mcp-name"] = encode_header_value(named)
            given["_meta"] = {**(given.get("_meta") or {}), **self._envelope()}
        options: CallOptions = {"headers": headers}
        with anyio.fail_after(LIMIT_S):
            return await self.dispatcher.send_raw_request(method, given, options)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        await self.dispatcher.notify(method, params)

    async def set_level(self, level: str) -> None:
        """Ask for log messages of that level and above, as the era has it."""
        if self.modern:
            self.log_level = level
        else:
            assert await self.request("logging/setLevel", {"level": level}) == {}

    def _envelope(self) -> dict[str, Any]:
        level = {types.LOG_LEVEL_META_KEY: self.log_level} if self.log_level is not None else {}
        return {
            types.PROTOCOL_VERSION_META_KEY: MODERN,
            types.CLIENT_INFO_META_KEY: {"name": "agent", "version": "1"},
            types.CLIENT_CAPABILITIES_META_KEY: dict(self.capabilities),
            **level,
        }


class _Session(ClientSession):
    """Raw questions and notifications, and the capabilities that the test wants."""

    agent: Agent

    def __init__(self, dispatcher: JSONRPCDispatcher, capabilities: Mapping[str, Any]) -> None:
        super().__init__(dispatcher=dispatcher)
        self._declared = types.ClientCapabilities.model_validate(dict(capabilities))

    def _build_capabilities(self, version: str) -> types.ClientCapabilities:
        return self._declared

    async def _on_request(
        self, dctx: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        asked = Asked(method, dict(params or {}), dctx)
        self.agent.asked.append(asked)
        return await self.agent.answer(asked)

    async def _on_notify(
        self, dctx: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> None:
        self.agent.told.append((method, dict(params or {})))


@asynccontextmanager
async def connect(
    base: str,
    era: str,
    mode: str,
    server: str,
    *,
    capabilities: Mapping[str, Any] = EVERYTHING,
    answer: Answer = accept,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> AsyncGenerator[Agent]:
    """An agent of an era (`2025`, `2026`) at a gateway, which sees `server` through `server`, `direct` or `search`.

    One of the initialize era has its stream for messages outside of calls open.
    """
    listening = anyio.Event()

    async def note(response: httpx2.Response) -> None:
        if response.request.method == "GET" and response.status_code == 200:
            listening.set()

    path = f"/mcp/{server}" if mode == "server" else f"/mcp?mode={mode}"
    own = {**(headers or {}), **({} if token is None else {"authorization": f"Bearer {token}"})}
    hooks = {"response": [note]}
    async with httpx2.AsyncClient(headers=own, timeout=2 * LIMIT_S, event_hooks=hooks) as http:
        async with streamable_http_client(base + path, http_client=http) as (read, write):
            dispatcher: JSONRPCDispatcher = JSONRPCDispatcher(read, write)
            session = _Session(dispatcher, capabilities)
            session.agent = Agent(session, dispatcher, era, mode, server, capabilities, answer)
            async with session:
                with anyio.fail_after(LIMIT_S):
                    if era == "2025":
                        await session.initialize()
                        await listening.wait()
                    else:
                        session.adopt(types.DiscoverResult.model_validate(await session.send_discover(MODERN)))
                yield session.agent


def text_of(result: Mapping[str, Any]) -> str:
    return result["content"][0]["text"]


async def until(done: Callable[[], bool], what: str) -> None:
    """Wait until something has happened, however long a busy machine takes."""
    with anyio.move_on_after(LIMIT_S):
        while not done():
            await anyio.sleep(0.01)
        return
    raise AssertionError(f"not within {LIMIT_S:g} s: {what}")


def _meta(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if meta is None else {"_meta": dict(meta)}


async def error_of(request: Awaitable[Any]) -> MCPError:
    """The JSON-RPC error that a request is answered with."""
    try:
        result = await request
    except MCPError as error:
        return error
    raise AssertionError(f"no error: {result}")
