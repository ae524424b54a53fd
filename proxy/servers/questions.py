"""Answers the questions that a 2026-07-28 server returns instead of a result, for agents that are asked during a call.

Above: pool.py. Agents of 2026-07-28 get such a result as it is and call again with their replies.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.shared.exceptions import MCPError

from proxy.errors import CallTimeout, ProtocolFault
from proxy.servers.flights import Call
from proxy.servers.origin import QUESTIONS, RESUMING, Origin
from proxy.servers.peer import ANSWER_WITHIN_S

MAX_ROUNDS = 10
PAUSE_S, MAX_PAUSE_S = 0.05, 0.5
"""Before a call is repeated whose server asked nothing and only wants it again later."""


async def answered(server: str, send: Callable[[Call], Awaitable[dict[str, Any]]], call: Call) -> dict[str, Any]:
    """The result of `call`, with the agent's replies brought to the server in as many rounds as it takes.

    Raises:
        ServerError: As `send` does; ProtocolFault also when the server asks what the agent cannot answer, or asks on
            and on.
    """
    result = await send(call)
    origin = call.origin
    if origin is None or origin.modern:
        return result
    pause_s, rounds, give_up_at = PAUSE_S, 0, anyio.current_time() + call.timeout_s
    while result.get("resultType") == "input_required":
        asked = result.get("inputRequests")
        replies: dict[str, Any] = {}
        if isinstance(asked, Mapping) and asked:
            rounds += 1
            if rounds > MAX_ROUNDS:
                text = f"'{server}' asked the agent {MAX_ROUNDS} times during one call and asks again; it was given up"
                raise ProtocolFault(server, text, code=types.INTERNAL_ERROR)
            replies = await _replies(server, origin, cast(Mapping[str, Any], asked))
            give_up_at = anyio.current_time() + call.timeout_s
        elif anyio.current_time() > give_up_at:
            raise CallTimeout(server, f"'{server}' put the call off for {call.timeout_s:g} s; it was given up")
        else:
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)
        again = {key: value for key, value in call.params.items() if key not in RESUMING}
        if replies:
            again["inputResponses"] = replies
        if result.get("requestState") is not None:
            again["requestState"] = result["requestState"]
        result = await send(replace(call, params=again))
    return result


async def _replies(server: str, origin: Origin, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The agent's reply to each question, put at the same time."""
    replies: dict[str, Any] = {}
    refused: list[MCPError] = []

    async def put(key: str, question: Mapping[str, Any], tasks: TaskGroup) -> None:
        method, params = str(question.get("method")), cast(Mapping[str, Any], question.get("params") or {})
        try:
            if method not in QUESTIONS:
                raise MCPError(types.INVALID_PARAMS, f"the server asks {method[:80]!r}, which no agent answers")
            origin.check(method, params)
            replies[key] = await origin.ask(method, params, None)
        except MCPError as error:
            refused.append(error)
            tasks.cancel_scope.cancel()

    with anyio.move_on_after(ANSWER_WITHIN_S) as limit:
        async with anyio.create_task_group() as tasks:
            for key, question in asked.items():
                tasks.start_soon(put, key, cast(Mapping[str, Any], question), tasks)
    if refused:
        error = refused[0]
        raise ProtocolFault(
            server, f"'{server}' asked for input and got none: {error.message}", code=error.code, data=error.error.data
        ) from error
    if limit.cancelled_caught:
        text = f"'{server}' asked for input and got none within {ANSWER_WITHIN_S:g} s"
        raise ProtocolFault(server, text, code=types.REQUEST_TIMEOUT)
    return replies
