"""The floor for a proxy over HTTP: Starlette and httpx2 pass bodies on and understand none of them.

`python -m bench.targets.byte_proxy PORT URL` listens at /mcp.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

NOT_PASSED_ON = ("host", "connection", "content-length", "transfer-encoding", "content-encoding")


def byte_proxy(url: str) -> Starlette:
    """An application that passes every POST on to `url`."""
    client = httpx2.AsyncClient(timeout=60, limits=httpx2.Limits(max_connections=None))

    async def relay(request: Request) -> Response:
        headers = {name: value for name, value in request.headers.items() if name not in NOT_PASSED_ON}
        answer = await client.post(url, content=await request.body(), headers=headers)
        returned = {name: value for name, value in answer.headers.items() if name not in NOT_PASSED_ON}
        return Response(answer.content, answer.status_code, returned)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with client:
            yield

    return Starlette(lifespan=lifespan, routes=[Route("/mcp", relay, methods=["POST"])])


if __name__ == "__main__":
    uvicorn.run(byte_proxy(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
