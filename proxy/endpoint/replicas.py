"""Several gateways behind one address: a request that belongs to another one's task is passed on to it.

A task's interpreter, its kept results and the calls of it that wait for a reply live in the gateway that began it. Its
name stands in the task's id, and in the state that comes back with a reply, so any gateway can tell whose a request is.
Above: the gate of authentication.py, which lets nobody pass whom it does not know. Below: the other gateway, which is
asked over HTTP with the agent's own credential, and checks that itself. Sessions stay with their gateway by the load
balancer's care.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast
from urllib.parse import quote

import anyio
import httpx2
from mcp_types import INTERNAL_ERROR
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from proxy.endpoint.agents import TASK_META_KEY
from proxy.endpoint.authentication import take_credential
from proxy.endpoint.stale import SESSION_HEADER

logger = logging.getLogger("toolatlas.replicas")

PASSED_ON = b"x-toolatlas-passed-on"
"""A request with this header is answered here, whosever it is: two gateways that disagree must not play ball."""
HOP = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"content-length"})
"""Said of one connection, and not of what it carries."""
OWN = frozenset({b"date", b"server"})
"""What every answer of this process has anyway."""
CONNECT_S = 5.0
_TASK = re.compile(r"t([a-z0-9-]{1,32})_[0-9a-f]{24}")
_STATE = re.compile(r"toolatlas@([a-z0-9-]{1,32}):(.*)", re.DOTALL)


def marked(result: dict[str, Any], replica: str) -> dict[str, Any]:
    """With the gateway's name before a state of its own that the agent will send back."""
    state = result.get("requestState")
    if isinstance(state, str) and state.startswith("toolatlas."):
        return {**result, "requestState": f"toolatlas@{replica}:{state}"}
    return result


def unmarked(resumed: Mapping[str, Any]) -> dict[str, Any]:
    """What `marked` was given."""
    found = _STATE.fullmatch(str(resumed.get("requestState")))
    return dict(resumed) if found is None else {**resumed, "requestState": found[2]}


class Replicas:
    """ASGI middleware.

    Args:
        peers: Base addresses of the other gateways, by their names.
    """

    def __init__(self, app: ASGIApp, own: str, peers: Mapping[str, str], max_bytes: int) -> None:
        self._app = app
        self._own = own
        self._peers = peers
        self._max_bytes = max_bytes
        self._http: httpx2.AsyncClient | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
        async with httpx2.AsyncClient(limits=limits, trust_env=False) as self._http:
            yield
        self._http = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._peers or scope["type"] != "http" or scope["method"] != "POST" or _stays(scope):
            await self._here(scope, receive, send)
            return
        messages, body = await self._read(receive)
        owner, request_id = _owner(body)
        url = self._peers.get(owner) if owner is not None and owner != self._own else None
        if url is None or body is None:
            await self._here(scope, _replayed(messages, receive), send)
            return
        started, failure = await self._pass_on(url, scope, body, receive, send)
        if failure is not None and started:
            # Nothing more is said, so that the agent sees a connection that broke.
            logger.warning("gateway %s at %s broke off its answer: %s", owner, url, failure or type(failure).__name__)
        elif failure is not None:
            logger.warning("gateway %s at %s cannot be reached: %s", owner, url, failure or type(failure).__name__)
            text = (
                f"the gateway '{owner}' that runs this task cannot be reached; whether a call under way took effect is "
                "not known. Leave task_id out to begin a new task"
            )
            answer = {"jsonrpc": "2.0", "id": request_id, "error": {"code": INTERNAL_ERROR, "message": text}}
            await JSONResponse(answer)(scope, receive, send)

    async def _here(self, scope: Scope, receive: Receive, send: Send) -> None:
        take_credential(scope)  # what is behind this has no use for it
        await self._app(scope, receive, send)

    async def _read(self, receive: Receive) -> tuple[list[Message], bytes | None]:
        """The whole body, or None where it is larger than any that is accepted."""
        messages: list[Message] = []
        size = 0
        while True:
            message = await receive()
            messages.append(message)
            size += len(message.get("body", b""))
            if message["type"] != "http.request" or size > self._max_bytes:
                return messages, None
            if not message.get("more_body", False):
                return messages, b"".join(each.get("body", b"") for each in messages)

    async def _pass_on(
        self, url: str, scope: Scope, body: bytes, receive: Receive, send: Send
    ) -> tuple[bool, Exception | None]:
        """Answer as the owner does. Tells whether an answer was begun, and what it failed with."""
        assert self._http is not None, "use it inside running()"
        started, failure = False, None
        async with anyio.create_task_group() as tasks:
            # Ending the connection to the owner is how it learns that the agent has gone.
            tasks.start_soon(_cancel_when_gone, receive, tasks.cancel_scope)
            try:
                response = await self._http.send(_request(url, scope, body), stream=True)
                started = True
                try:
                    await _relay(response, send)
                finally:
                    with anyio.CancelScope(shield=True):
                        await response.aclose()
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                failure = error
            tasks.cancel_scope.cancel()
        return started, failure


def _request(url: str, scope: Scope, body: bytes) -> httpx2.Request:
    """The request as it came. Raises InvalidURL for an address that is too long."""
    query = scope["query_string"].decode("ascii", "replace")
    credential = take_credential(scope)
    # Not by a client's build_request, which adds words of its own (which encodings it takes, cookies of earlier
    # answers): the agent would be answered as they ask.
    return httpx2.Request(
        "POST",
        f"{url}{quote(scope['path'])}{f'?{query}' if query else ''}",
        content=body,
        headers=[
            *((name, value) for name, value in scope["headers"] if name not in HOP),
            *([] if credential is None else [(b"authorization", credential)]),
            (PASSED_ON, b"1"),
        ],
        # A call may take as long as it needs; the agent's end of the connection is what ends it.
        extensions={"timeout": httpx2.Timeout(None, connect=CONNECT_S).as_dict()},
    )


async def _relay(response: httpx2.Response, send: Send) -> None:
    kept = [(name, value) for name, value in response.headers.raw if name.lower() not in HOP | OWN]
    await send({"type": "http.response.start", "status": response.status_code, "headers": kept})
    async for chunk in response.aiter_raw():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _owner(body: bytes | None) -> tuple[str | None, Any]:
    """Whose request it is, if it says so, and its id."""
    if body is None or (b"_id" not in body and b"toolatlas@" not in body):
        return None, None
    try:
        message: object = json.loads(body)
    except (ValueError, RecursionError):
        return None, None
    params = _object(_object(message).get("params"))
    task = _object(params.get("arguments")).get("task_id") or _object(params.get("_meta")).get(TASK_META_KEY)
    found = _TASK.fullmatch(task) if isinstance(task, str) else None
    if found is None:
        found = _STATE.fullmatch(str(params.get("requestState")))
    return None if found is None else found[1], _object(message).get("id")


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _stays(scope: Scope) -> bool:
    """Whether it is answered here, whatever it says: it was passed on once, or its session is here and nowhere else."""
    return any(name in (PASSED_ON, SESSION_HEADER) for name, _ in scope["headers"])


def _replayed(messages: list[Message], receive: Receive) -> Receive:
    waiting = iter(messages)

    async def replay() -> Message:
        return next(waiting, None) or await receive()

    return replay


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
