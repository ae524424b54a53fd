"""The server that is called in the overhead bench: one tool, `echo`, on mcp's low-level server.

`python -m bench.targets.echo PORT` speaks streamable HTTP on the loopback, without PORT it speaks stdio.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import uvicorn
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Route

ECHO = types.Tool(
    name="echo",
    description="Answers with the text that it was given.",
    input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    annotations=types.ToolAnnotations(read_only_hint=True),
)


async def list_tools(ctx: ServerRequestContext, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[ECHO])


async def call_tool(ctx: ServerRequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
    text = str((params.arguments or {}).get("text"))
    return types.CallToolResult(content=[types.TextContent(text=text)])


def schema(name: str) -> dict[str, object] | None:
    return ECHO.input_schema if name == ECHO.name else None


def http(server: Server) -> Starlette:
    # Plain JSON answers: the cheapest server there is, so that the proxies are what differs.
    manager = StreamableHTTPSessionManager(server, json_response=True)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Starlette(lifespan=lifespan, routes=[Route("/mcp", endpoint=StreamableHTTPASGIApp(manager))])


async def stdio(server: Server) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    # With the schema at hand the SDK does not list the tools anew for every call of the 2026-07-28 protocol.
    server = Server("echo", version="1", on_list_tools=list_tools, on_call_tool=call_tool, get_tool_input_schema=schema)
    if len(sys.argv) > 1:
        uvicorn.run(http(server), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
    else:
        anyio.run(stdio, server)


if __name__ == "__main__":
    main()
