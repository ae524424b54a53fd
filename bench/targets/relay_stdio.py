"""The raw relay of ../shared/prototypes/mcp with a stdio server behind it; its own proxy_http.py only knows HTTP.

`python -m bench.targets.relay_stdio FOLDER PORT COMMAND ARGUMENT...`, FOLDER being where c_proxy.py lies.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Route


def main() -> None:
    folder, port, command, *arguments = sys.argv[1:]
    sys.path.insert(0, folder)
    relay = importlib.import_module("c_proxy")
    behind = StdioServerParameters(command=command, args=arguments)
    manager = StreamableHTTPSessionManager(relay.build_proxy(lambda: stdio_client(behind)))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    app = Starlette(lifespan=lifespan, routes=[Route("/mcp", endpoint=StreamableHTTPASGIApp(manager))])
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main()
