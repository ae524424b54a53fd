"""A server of the soak: `soaked.py NAME` on stdio, `soaked.py NAME http|sessions|sse PORT` over HTTP on the loopback.

Every answer carries the server's name, so that an answer from the wrong one shows. On stdio the standard library is
enough, which keeps a start short; over HTTP it is the SDK's server, and `sessions` knows the initialize era only.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING = {"type": "object", "properties": {}}
WORK = {
    "type": "object",
    "properties": {"seconds": {"type": "number"}, "every_s": {"type": "number"}, "text": {"type": "string"}},
    "required": ["seconds", "every_s", "text"],
}
READS = {"readOnlyHint": True}
TOOLS = [
    {"name": "echo", "description": "Give the text back.", "inputSchema": TEXT, "annotations": READS},
    {"name": "count", "description": "Count up by one.", "inputSchema": NOTHING, "annotations": READS},
    {"name": "work", "description": "Take a while, with progress.", "inputSchema": WORK, "annotations": READS},
]
VERSION = "2025-11-25"


class Stdio:
    """The initialize era on standard streams; each `work` has a thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self._lock = threading.Lock()

    def run(self) -> None:
        # As stubborn as servers are that are hard to end.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "id" in message and "method" in message:
                self._answer(message)

    def _answer(self, request: dict[str, Any]) -> None:
        method, params = request["method"], request.get("params") or {}
        if method == "initialize":
            about = {"name": self._name, "version": "1"}
            self._send(request, {"protocolVersion": VERSION, "capabilities": {"tools": {}}, "serverInfo": about})
        elif method == "tools/list":
            self._send(request, {"tools": TOOLS})
        elif method == "ping":
            self._send(request, {})
        elif method != "tools/call":
            self._write({"id": request["id"], "error": {"code": -32601, "message": f"Method not found: {method}"}})
        elif params["name"] == "work":
            threading.Thread(target=self._work, args=(request,), daemon=True).start()
        elif params["name"] == "count":
            self._count += 1
            self._say(request, str(self._count))
        else:
            self._say(request, params["arguments"]["text"])

    def _work(self, request: dict[str, Any]) -> None:
        arguments, token = request["params"]["arguments"], request["params"].get("_meta", {}).get("progressToken")
        for step in range(round(arguments["seconds"] / arguments["every_s"])):
            time.sleep(arguments["every_s"])
            if token is not None:
                self._write(
                    {"method": "notifications/progress", "params": {"progressToken": token, "progress": step + 1}}
                )
        self._say(request, arguments["text"])

    def _say(self, request: dict[str, Any], text: str) -> None:
        self._send(request, {"content": [{"type": "text", "text": f"{self._name}:{text}"}]})

    def _send(self, request: dict[str, Any], result: dict[str, Any]) -> None:
        self._write({"id": request["id"], "result": result})

    def _write(self, message: dict[str, Any]) -> None:
        with self._lock:
            sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            sys.stdout.buffer.flush()


def serve_http(name: str, kind: str, port: int) -> None:
    """Until it is ended."""
    import anyio
    import uvicorn
    from mcp import types
    from mcp.server import Server
    from mcp.server.sse import SseServerTransport
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Mount, Route

    counts = {"": 0}

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in TOOLS])

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = params.arguments or {}
        if params.name == "count":
            counts[""] += 1
            text = str(counts[""])
        else:
            text = arguments["text"]
        if params.name == "work":
            for step in range(round(arguments["seconds"] / arguments["every_s"])):
                await anyio.sleep(arguments["every_s"])
                await ctx.session.report_progress(step + 1)
        return types.CallToolResult(content=[types.TextContent(text=f"{name}:{text}")])

    schemas = {tool["name"]: tool["inputSchema"] for tool in TOOLS}
    server = Server(
        name, version="1", on_list_tools=list_tools, on_call_tool=call_tool, get_tool_input_schema=schemas.get
    )

    class Sse:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            async with transport.connect_sse(scope, receive, send) as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())

    class OldErasOnly:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            newer = scope["type"] == "http" and (b"mcp-protocol-version", b"2026-07-28") in scope["headers"]
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Unsupported version"}}
            await (JSONResponse(error, 400) if newer else streamable)(scope, receive, send)

    transport = SseServerTransport("/messages/")
    streamable = server.streamable_http_app()
    if kind == "sse":
        routes = [Route("/sse", Sse(), methods=["GET"]), Mount("/messages/", app=transport.handle_post_message)]
        uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="error")
    else:
        app = OldErasOnly() if kind == "sessions" else streamable
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        Stdio(sys.argv[1]).run()
    else:
        serve_http(sys.argv[1], sys.argv[2], int(sys.argv[3]))
