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
from proxy.endpoint.agents import TASK_META_KEY, Agents, Context, Link, capabilities_of, is_modern
from proxy.endpoint.modes import Mode
from proxy.endpoint.parking import ParkableCall, Parking, StateRefused
from proxy.endpoint.replicas import unmarked
from proxy.errors import Denied, GatewayError, ProtocolFault, UnknownName
from proxy.metatools.base import Caller, text_result
from proxy.metatools.steps import Finished, Steps
from proxy.servers.origin import RESUMING
from proxy.store.recorder import Outcome
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
    call: ParkableCall | None = None
    """Where it can wait for a further request when it is answered with a question."""
    task: Task | None = None
    astray: bool = False
    """It named a task that does not run."""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    began: float = field(default_factory=time.perf_counter)


class ToolCalls:
    """Serves `tools/call`."""

    def __init__(self, agents: Agents, parking: Parking, steps: Steps) -> None:
        self._agents = agents
        self._parking = parking
        self._steps = steps

    async def serve(self, context: Context, mode: Mode) -> dict[str, Any]:
        """The raw result; failures are results too, except where the mode passes protocol errors on.

        Raises:
            MCPError: The request is no call, or the server answered with a JSON-RPC error.
        """
        params = dict(context.params or {})
        name, arguments = params.pop("name", None), params.pop("arguments", None)
        if not isinstance(name, str):
            raise MCPError(types.INVALID_PARAMS, "tools/call needs the name of a tool as a string in params.name")
        resumed = unmarked({key: params.pop(key) for key in RESUMING if key in params})
        if isinstance(params.get("_meta"), dict):
            # The id of a task is a secret between the agent and the gateway.
            params["_meta"] = {key: value for key, value in params["_meta"].items() if key != TASK_META_KEY}
        link = Link(context)
        begin = partial(Working, mode, name, arguments, params)
        if not is_modern(context) or not (resumed or capabilities_of(context)):
            # It can be asked in the middle of the call, or not at all: either way the call need not be able to wait.
            working = begin(self._agents.caller(context, link, resumed, link.ask), link)
            return await self._finished(working, context, self._serve(working, context))
        call = ParkableCall(self._agents.label(context), (mode.label, mode.server, name, arguments))
        working = call.working = begin(self._agents.caller(context, link, resumed, call.ask), link)
        try:
            waiting = self._parking.taken_up(call, resumed)
        except Denied as refusal:
            return await self._finished(working, context, _raise(refusal))
        if waiting is not None:
            # What is recorded is the call as it began, and progress goes to the request that is open now.
            working = cast(Working, waiting.working)
            working.link.context = context
            return await self._finished(working, context, self._parking.answer(waiting))
        working.call = call
        call.on_given_up = partial(self._record, working, context, Outcome.CANCELLED, None)
        self._parking.begin(call, partial(self._serve, working, context))
        return await self._finished(working, context, self._parking.answer(call))

    async def _serve(self, working: Working, context: Context) -> dict[str, Any]:
        def begin(named: str | None) -> Task:
            if working.task is None:
                try:
                    working.task = self._agents.task(context, working.caller.agent, working.mode.label, named)
                except UnknownName:
                    working.astray = True
                    raise
                working.caller.target.on_level = working.task.touched
                self._agents.begin_call(working.task)
            return working.task

        return await working.mode.call(working.name, working.arguments, working.params, working.caller, begin)

    async def _finished(self, working: Working, context: Context, answer: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        record = partial(self._record, working, context)
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
            if result.get("resultType") == "input_required":
                if working.task is not None and not (working.call is not None and working.call.waiting):
                    self._agents.end_call(working.task)
            else:
                failed = Outcome.TOOL_ERROR if result.get("isError") is True else Outcome.OK
                record(working.caller.target.outcome or failed, result)
        return result

    def _record(
        self,
        working: Working,
        context: Context,
        outcome: Outcome,
        result: dict[str, Any] | None,
        problem: str | None = None,
    ) -> None:
        task, caller = working.task, working.caller
        if task is None:
            task = self._agents.task_of_failure(context, caller.agent, working.mode.label)
            self._agents.begin_call(task)
        finished = Finished(
            id=caller.step_id,
            mode=working.mode.label,
            name=working.name,
            arguments=working.arguments,
            target=caller.target,
            outcome=outcome,
            result=result,
            error=problem,
            server=working.mode.server,
            astray=working.astray,
            started_at=working.started_at,
            began=working.began,
        )
        try:
            self._steps.record(task, finished)
        finally:
            self._agents.end_call(task)


def _passed_on(error: GatewayError, mode: Mode) -> MCPError | None:
    """The JSON-RPC error to answer with in place of a result, as the server itself would have."""
    if isinstance(error, ProtocolFault) and (mode.label != "search" or error.code == URL_ELICITATION_REQUIRED):
        return MCPError(error.code, str(error), error.data)
    if isinstance(error, StateRefused) or (isinstance(error, UnknownName) and mode.label == "server"):
        return MCPError(types.INVALID_PARAMS, str(error))
    return None


async def _raise(error: GatewayError) -> NoReturn:
    raise error
