"""A client that starts over while it still sends the id of a session that is gone is given a new session.

Above: http.py. Below: the SDK's session manager, which answers 404 to an unknown session id whatever is asked. For
every other request that is right: by it the client learns that it has to start over.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send

SESSION_HEADER = b"mcp-session-id"
LARGEST_INITIALIZE = 64 * 1024


class StaleSession:
    """Repeats an `initialize` that was refused with 404, without its session id."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST" or not any(name == SESSION_HEADER for name, _ in scope["headers"]):
            await self._app(scope, receive, send)
            return
        request: list[Message] = []
        refusal: list[Message] = []

        async def noted() -> Message:
            message = await receive()
            request.append(message)
            return message

        async def unless_refused(message: Message) -> None:
            if refusal or (message["type"] == "http.response.start" and message["status"] == 404):
                refusal.append(message)
                return
            # Nothing more of the request will be asked for.
            request.clear()
            await send(message)

        await self._app(scope, noted, unless_refused)
        if not refusal:
            return
        if not _is_initialize(request):
            for message in refusal:
                await send(message)
            return
        again = iter(request)

        async def replay() -> Message:
            return next(again, None) or await receive()

        fresh = {**scope, "headers": [(name, value) for name, value in scope["headers"] if name != SESSION_HEADER]}
        await self._app(fresh, replay, send)


def _is_initialize(request: list[Message]) -> bool:
    body = b"".join(message.get("body", b"") for message in request)
    if len(body) <= LARGEST_INITIALIZE:
        with suppress(ValueError, RecursionError):
            asked: Any = json.loads(body)
            return isinstance(asked, dict) and cast(dict[str, Any], asked).get("method") == "initialize"
    return False
