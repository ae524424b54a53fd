"""Tool calls of agents, from the request to the recorded step, also when one call takes several requests.

Above: server.py. Below: the mode that the request came through, and parking.py for calls that wait for a reply.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, NoReturn, cast

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from proxy.catalog.text import block
from proxy.endpoint.agents import Agents, Context, Link, capabilities_of, is_modern
from proxy.endpoint.modes import Mode
from proxy.endpoint.parking import ParkableCall, Parking, StateRefused
from proxy.errors import Denied, GatewayError, ProtocolFault, UnknownName
from proxy.metatools.base import Caller, text_result
from proxy.servers.origin import RESUMING
from proxy.store.recorder import Outcome, Recorder, Step
from proxy.tasks import Task

logger = logging.getLogger("toolatlas.endpoint")

ERROR_LIMIT = 4_000
"""Characters of an error text; a server's own message can be of any length."""
URL_ELICITATION_REQUIRED = -32042
"""A server wants the user to visit an address first. It is for the client, not for the model, so no mode puts it into
the text of a result."""


@dataclass(slots=True)
class Working:
    """One call while it is under way."""

    mode: Mode
    name: str
    arguments: Any
    params: Mapping[str, Any]
    """The rest of the request's parameters."""
    caller: Caller
    link: Link
    task: Task | None = None
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    began: float = field(default_factory=time.perf_counter)


class ToolCalls:
    """Serves `tools/call`."""

    def __init__(self, agents: Agents, parking: Parking, recorders: tuple[Recorder, ...]) -> None:
        self._agents = agents
        self._parking = parking
        self._recorders = recorders

    async def serve(self, context: Context, mode: Mode) -> dict[str, Any]:
        """The raw result; failures are results too, except where the mode passes protocol errors on.

        Raises:
            MCPError: The request is no call, or the server answered with a JSON-RPC error.
        """
        params = dict(context.params or {})
        name, arguments = params.pop("name", None), params.pop("arguments", None)
        if not isinstance(name, str):
            raise MCPError(types.INVALID_PARAMS, "tools/call needs the name of a tool as a string in params.name")
        resumed = {key: params.pop(key) for key in RESUMING if key in params}
        link = Link(context)
        begin = partial(Working, mode, name, arguments, params)
        if not is_modern(context) or not (resumed or capabilities_of(context)):
            # It can be asked in the middle of the call, or not at all: either way the call need not be able to wait.
            working = begin(self._agents.caller(context, link, resumed, link.ask), link)
            return await self._finished(working, self._serve(working, context))
        call = ParkableCall(self._agents.label(context), (mode.label, mode.server, name, arguments))
        working = call.working = begin(self._agents.caller(context, link, resumed, call.ask), link)
        try:
            waiting = self._parking.taken_up(call, resumed)
        except Denied as refusal:
            return await self._finished(working, _raise(refusal))
        if waiting is not None:
            # What is recorded is the call as it began, and progress goes to the request that is open now.
            working = cast(Working, waiting.working)
            working.link.context = context
            return await self._finished(working, self._parking.answer(waiting))
        call.on_given_up = partial(self._record, working, Outcome.CANCELLED, None)
        self._parking.begin(call, partial(self._serve, working, context))
        return await self._finished(working, self._parking.answer(call))

    async def _serve(self, working: Working, context: Context) -> dict[str, Any]:
        def begin() -> Task:
            if working.task is None:
                working.task = self._agents.task(context, working.caller.agent)
            return working.task

        return await working.mode.call(working.name, working.arguments, working.params, working.caller, begin)

    async def _finished(self, working: Working, answer: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        record = partial(self._record, working)
        try:
            result = await answer
        except anyio.get_cancelled_exc_class():
            record(Outcome.CANCELLED, None)
            raise
        except GatewayError as error:
            # A server's words may be part of it.
            result = text_result(block(str(error), ERROR_LIMIT), is_error=True)
            record(error.outcome, result, str(error))
            if (fault := _passed_on(error, working.mode)) is not None:
                raise fault from error
        except Exception as error:
            logger.exception("answering %s", working.name)
            result = text_result("The gateway failed at this call, not you; its log says why.", is_error=True)
            record(Outcome.PROTOCOL_ERROR, result, f"internal error: {type(error).__name__}")
        else:
            # A question to the user is half a call: the retry that answers it is recorded.
            if result.get("resultType") != "input_required":
                failed = Outcome.TOOL_ERROR if result.get("isError") is True else Outcome.OK
                record(working.caller.target.outcome or failed, result)
        return result

    def _record(
        self, working: Working, outcome: Outcome, result: dict[str, Any] | None, problem: str | None = None
    ) -> None:
        step = Step(
            id=working.caller.step_id,
            task_id=_named_task(working.arguments) or (working.task.id if working.task is not None else ""),
            agent=working.caller.agent,
            mode=working.mode.label,
            name=working.name,
            arguments=working.arguments,
            outcome=outcome,
            started_at=working.started_at,
            duration_ms=(time.perf_counter() - working.began) * 1000,
            server=working.caller.target.server,
            tool=working.caller.target.tool,
            result=result,
            error=problem,
        )
        for recorder in self._recorders:
            recorder.record(step)


def _passed_on(error: GatewayError, mode: Mode) -> MCPError | None:
    """The JSON-RPC error to answer with in place of a result, as the server itself would have."""
    if isinstance(error, ProtocolFault) and (mode.label != "search" or error.code == URL_ELICITATION_REQUIRED):
        return MCPError(error.code, str(error), error.data)
    if isinstance(error, StateRefused) or (isinstance(error, UnknownName) and mode.label == "server"):
        return MCPError(types.INVALID_PARAMS, str(error))
    return None


async def _raise(error: GatewayError) -> NoReturn:
    raise error


def _named_task(arguments: Any) -> str | None:
    task_id = cast(dict[str, Any], arguments).get("task_id") if isinstance(arguments, dict) else None
    return task_id if isinstance(task_id, str) else None
