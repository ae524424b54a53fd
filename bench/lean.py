"""MCP clients that do little more than send and check, over HTTP and stdio, in both eras of the protocol.

Above: the benches. Small on purpose: with the SDK's client most of what is measured would be the client.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, Protocol
from urllib.parse import urlsplit

from bench.measure import ROOT

ANSWER_S = 60.0


class Era(StrEnum):
    """The two ways in which MCP is spoken, each by the version that the clients here ask for."""

    SESSION = "2025-11-25"
    STATELESS = "2026-07-28"


class Wire(Protocol):
    """One connection to a server."""

    async def ask(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """Sends a request; returns the JSON-RPC answer."""
        ...

    async def tell(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        """Sends a notification."""
        ...


class HttpWire:
    """Streamable HTTP over one kept-alive connection; one request at a time.

    Without `again` a connection that breaks is an error, also when that may only have been idleness.
    """

    def __init__(self, url: str, *, again: bool = True, answer_s: float = ANSWER_S) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname, parts.port)
        self._again = again
        self._answer_s = answer_s
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        self._request = f" {target} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        accept = "Accept: application/json, text/event-stream\r\n"
        self._head = f"POST{self._request}Content-Type: application/json\r\n{accept}"
        self.notices: list[dict[str, Any]] = []
        """What came before the last answer."""
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._session = ""

    def close(self) -> None:
        if self._connection is not None:
            self._connection[1].close()

    async def ask(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        body = await self._post(message, headers)
        self.notices.clear()
        if not body.startswith(b"{"):
            events = [line[5:] for line in body.splitlines() if line.startswith(b"data:")]
            answers = [data for data in events if b'"id"' in data and b'"method"' not in data]
            self.notices.extend(json.loads(data) for data in events if data.strip() and data not in answers)
            body = answers[0] if answers else b"null"
        return json.loads(body)

    async def tell(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        await self._post(message, headers)

    async def _post(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> bytes:
        body = json.dumps(message).encode()
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{self._head}{self._session}{lines}Content-Length: {len(body)}\r\n\r\n"
        async with asyncio.timeout(self._answer_s):
            try:
                reader, start = await self._sent(head.encode("latin-1") + body)
            except (asyncio.IncompleteReadError, ConnectionError):
                if not self._again:
                    raise
                # Ended for idleness at the very moment that we wrote; nothing was answered.
                self.close()
                self._connection = None
                reader, start = await self._sent(head.encode("latin-1") + body)
            status, *fields = start.decode("latin-1").splitlines()
            answer = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
            content = await _content(reader, answer)
        if "mcp-session-id" in answer:
            self._session = f"Mcp-Session-Id: {answer['mcp-session-id']}\r\n"
        if not status.startswith("HTTP/1.1 2"):
            raise RuntimeError(f"{message['method']} was answered with {status}: {content[:300].decode()}")
        return content

    async def leave(self) -> None:
        """Ends the session, if there is one, as a client does that is not needed any more."""
        if self._session:
            request = f"DELETE{self._request}{self._session}Content-Length: 0\r\n\r\n"
            async with asyncio.timeout(self._answer_s):
                reader, start = await self._sent(request.encode("latin-1"))
                fields = (line.partition(":") for line in start.decode("latin-1").splitlines()[1:])
                await _content(reader, {name.lower(): value.strip() for name, _, value in fields})

    async def listen(self) -> asyncio.StreamWriter:
        """Opens the stream of the session's news on a connection of its own, which the caller closes."""
        _, writer = await asyncio.open_connection(*self._address)
        request = f"GET{self._request}{self._session}Accept: text/event-stream\r\n\r\n"
        writer.write(request.encode("latin-1"))
        return writer

    async def _sent(self, request: bytes) -> tuple[asyncio.StreamReader, bytes]:
        """The connection that it was sent on, and the answer's head."""
        reader, writer = await self._connected()
        writer.write(request)
        return reader, await reader.readuntil(b"\r\n\r\n")

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        # Servers end a connection that was idle for some seconds.
        if self._connection is None or self._connection[0].at_eof():
            self.close()
            self._connection = await asyncio.open_connection(*self._address)
        return self._connection


async def _content(reader: asyncio.StreamReader, answer: Mapping[str, str]) -> bytes:
    """The body that follows these header fields."""
    if "content-length" in answer:
        return await reader.readexactly(int(answer["content-length"]))
    chunks: list[bytes] = []
    while answer.get("transfer-encoding") == "chunked":
        size = int((await reader.readline()).partition(b";")[0], 16)
        chunks.append(await reader.readexactly(size + 2))
        if size == 0:
            break
    return b"".join(chunk[:-2] for chunk in chunks)


class StdioWire:
    """A started process's standard streams; any number of requests at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._waiting: dict[object, asyncio.Future[dict[str, Any]]] = {}

    async def ask(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        answer = self._waiting[message["id"]] = asyncio.get_running_loop().create_future()
        await self.tell(message, headers)
        async with asyncio.timeout(ANSWER_S):
            return await answer

    async def tell(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def read(self) -> None:
        """Hands answers to those who wait for them, until the process ends."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            message = json.loads(line)
            if waiting := self._waiting.pop(message.get("id"), None):
                waiting.set_result(message)


class LeanClient:
    """Just enough of an MCP client to ask and to check that there was an answer."""

    def __init__(self, wire: Wire, era: Era, headers: Mapping[str, str] | None = None) -> None:
        """`headers` go with every request: a credential, for instance."""
        self._wire = wire
        self._era = era
        self._last_id = 0
        self._headers = {"MCP-Protocol-Version": era.value, **(headers or {})}
        about = "io.modelcontextprotocol/"
        self._meta = {
            f"{about}protocolVersion": era.value,
            f"{about}clientInfo": {"name": "bench", "version": "1"},
            f"{about}clientCapabilities": {},
        }

    async def open(self) -> None:
        """The handshake of the era with sessions; the other has none."""
        if self._era is Era.SESSION:
            about = {"name": "bench", "version": "1"}
            hello = {"protocolVersion": self._era.value, "capabilities": {}, "clientInfo": about}
            await self.request("initialize", hello)
            await self._wire.tell({"jsonrpc": "2.0", "method": "notifications/initialized"}, self._headers)

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result. Raises RuntimeError when the answer is a JSON-RPC error."""
        headers = self._headers
        if self._era is Era.STATELESS:
            params = {**params, "_meta": {**self._meta, **params.get("_meta", {})}}
            headers = {**headers, "Mcp-Method": method}
            if "name" in params:
                headers["Mcp-Name"] = params["name"]
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        answer = await self._wire.ask(message, headers)
        if not isinstance(answer, dict) or "result" not in answer:
            raise RuntimeError(f"{method} was answered with {json.dumps(answer)[:500]}")
        return answer["result"]

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a tool. Raises RuntimeError when the tool failed."""
        result = await self.request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise RuntimeError(f"{tool} failed: {json.dumps(result)[:500]}")
        return result

    async def list_tools(self) -> list[dict[str, Any]]:
        """The tools of all pages, exactly as they were sent."""
        result = await self.request("tools/list", {})
        tools: list[dict[str, Any]] = result["tools"]
        while cursor := result.get("nextCursor"):
            result = await self.request("tools/list", {"cursor": cursor})
            tools += result["tools"]
        return tools


@asynccontextmanager
async def http_client(url: str, era: Era) -> AsyncIterator[LeanClient]:
    """A client with its own connection."""
    wire = HttpWire(url)
    try:
        client = LeanClient(wire, era)
        await client.open()
        yield client
    finally:
        wire.close()


@asynccontextmanager
async def stdio_client(command: Sequence[str], era: Era) -> AsyncIterator[LeanClient]:
    """A client with its own server process."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=ROOT)
    wire = StdioWire(process)
    reading = asyncio.create_task(wire.read())
    try:
        client = LeanClient(wire, era)
        await client.open()
        yield client
    finally:
        process.kill()
        await process.wait()
        await reading
