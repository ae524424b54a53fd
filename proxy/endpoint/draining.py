"""A gateway that is told to end: streams on which nothing is awaited close at once, calls get some time to finish.

Above: commands/serve.py, which hands the wrapped application to uvicorn. Without this every agent that listens for
news would hold the end up for the whole grace period, and calls that take longer would break off without a word.
"""

from __future__ import annotations

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from proxy.endpoint.http import refuse

LISTEN = (b"mcp-method", b"subscriptions/listen")
STOPPED = "the gateway is being stopped, and whether this call took effect is not known; ask again when it is back"


class Draining:
    """Wraps the application. `begin` ends the streams, those still to be opened too; `give_up` ends the calls."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._streams: set[anyio.CancelScope] = set()
        self._calls: set[anyio.CancelScope] = set()
        self._begun = False

    def begin(self) -> None:
        self._begun = True
        for scope in self._streams:
            scope.cancel()

    def give_up(self) -> None:
        for scope in self._calls:
            scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = ended = False

        async def noted(message: Message) -> None:
            nonlocal started, ended
            started = True
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        is_stream = scope["method"] == "GET" or LISTEN in scope["headers"]
        among = self._streams if is_stream else self._calls
        with anyio.CancelScope() as open_request:
            among.add(open_request)
            try:
                if is_stream and self._begun:
                    open_request.cancel()
                await self._app(scope, receive, noted)
            finally:
                among.discard(open_request)
        if not open_request.cancelled_caught or ended:
            return
        if started:
            # The agent sees a stream that ended, not a connection that broke.
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await refuse(503, -32603, STOPPED, scope, receive, send)
