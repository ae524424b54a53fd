"""Calls of 2026-07-28 agents that a server stops to ask something: they wait here while the agent calls again.

Such an agent cannot be asked in the middle of a call. The question goes back as the answer of the call, with a handle
in `requestState`; the call itself goes on waiting, and the agent's next call with that handle brings the reply to it.
Above: server.py. The handle is a secret, is bound to the credential and to the same call, and can be used once.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import mcp_types as types
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError

from proxy.errors import Denied

PREFIX = "toolatlas.parked."
KEEP_S = 600.0
"""How long a call waits for the agent to come back, and its result for being fetched."""
MAX_PARKED = 1_000
MAX_PARKED_OF_AGENT = 100


@dataclass(slots=True)
class _Question:
    method: str
    params: Mapping[str, Any]
    answered: anyio.Event = field(default_factory=anyio.Event)
    reply: Any = None


class ParkableCall:
    """One call that runs apart from the request that began it. `ask` is how servers put questions within it."""

    def __init__(self, agent: str, what: object) -> None:
        """`what` is compared when the agent comes back: it must repeat the same call."""
        self.agent = agent
        self.what = what
        self.on_given_up: Callable[[], None] = lambda: None
        """Called when the agent has not come back in time."""
        self.working: Any = None
        """Whatever the caller of `begin` wants to find again."""
        self.scope = anyio.CancelScope()
        self.waiting = False
        """Whether it was answered with a question, and its agent is expected back."""
        self._open: dict[str, _Question] = {}
        self._keys = itertools.count(1)
        self._changed = anyio.Event()
        self._result: dict[str, Any] | None = None
        self._error: Exception | None = None
        self._ended = False

    async def ask(self, method: str, params: Mapping[str, Any], on_progress: ProgressFnT | None) -> dict[str, Any]:
        """An `Ask` of proxy/servers/origin.py."""
        if self._ended:
            raise MCPError(types.INVALID_REQUEST, "the call that this agent made is over")
        key, question = f"question-{next(self._keys)}", _Question(method, params)
        self._open[key] = question
        self._changed.set()
        try:
            await question.answered.wait()
        finally:
            self._open.pop(key, None)
        reply: object = question.reply
        if reply is None and self.scope.cancel_called:
            raise MCPError(types.INVALID_REQUEST, "the agent gave up the call that this was asked in")
        if not isinstance(reply, dict):
            raise MCPError(types.INVALID_PARAMS, "the agent's reply is not an object")
        return cast(dict[str, Any], reply)

    async def work(self, serve: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        with self.scope:
            try:
                self._result = await serve()
            except Exception as error:
                self._error = error
        self._ended = True
        self._changed.set()
        if self.scope.cancel_called:
            # Nobody comes back to answer these.
            for question in self._open.values():
                question.answered.set()

    def reply(self, responses: object) -> None:
        """Hand over what the agent answered; questions that it left out stay open and are asked again."""
        given: Mapping[str, Any] = cast(Mapping[str, Any], responses) if isinstance(responses, Mapping) else {}
        for key in list(self._open):
            if key in given:
                question = self._open.pop(key)
                question.reply = given[key]
                question.answered.set()

    async def settled(self) -> dict[str, Any] | None:
        """The result, or None when the server waits for replies. Raises what the call raised."""
        while not self._ended and not self._open:
            self._changed = anyio.Event()
            await self._changed.wait()
        if self._open:
            # Perhaps of another call of the agent, and this one has its result: the replies come first.
            return None
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise Denied("this call waited too long for a reply and was given up; call the tool again")
        return self._result

    def questions(self) -> dict[str, Any]:
        return {key: {"method": each.method, "params": dict(each.params)} for key, each in self._open.items()}


class StateRefused(Denied):
    """A `requestState` that leads to no waiting call of this agent: a protocol error, not a result."""


class Parking:
    """The calls of one gateway process that wait for replies."""

    def __init__(self, start_soon: Callable[..., None]) -> None:
        self._start_soon = start_soon
        self._waiting: dict[str, ParkableCall] = {}

    def taken_up(self, again: ParkableCall, resumed: Mapping[str, Any]) -> ParkableCall | None:
        """The waiting call that `again` repeats, with the replies in `resumed` handed to it; None when these do not
        carry on one of ours.

        Raises:
            StateRefused: Over, expired, of another gateway process or another call: one answer for all.
        """
        state = resumed.get("requestState")
        if not isinstance(state, str) or not state.startswith(PREFIX):
            return None
        call = self._waiting.get(state)
        if call is None or (call.agent, call.what) != (again.agent, again.what):
            raise StateRefused(
                "the question that this replies to is expired, was answered before, or belongs to another call or "
                "gateway; call the tool again. Whether the earlier call took effect is not known"
            )
        del self._waiting[state]
        call.waiting = False
        call.reply(resumed.get("inputResponses"))
        return call

    def begin(self, call: ParkableCall, serve: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        self._start_soon(call.work, serve)

    async def answer(self, call: ParkableCall) -> dict[str, Any]:
        """The call's result, or the result that asks. Raises what the call raised; cancelling cancels the call."""
        try:
            result = await call.settled()
        except anyio.get_cancelled_exc_class():
            call.scope.cancel()
            raise
        if result is not None:
            return result
        mine = sum(each.agent == call.agent for each in self._waiting.values())
        if mine >= MAX_PARKED_OF_AGENT or len(self._waiting) >= MAX_PARKED:
            call.scope.cancel()
            raise Denied("too many calls wait for replies to questions of servers; reply to some, then call again")
        handle = PREFIX + secrets.token_urlsafe(24)
        self._waiting[handle], call.waiting = call, True
        self._start_soon(self._expire, handle, call)
        return {"resultType": "input_required", "inputRequests": call.questions(), "requestState": handle}

    async def _expire(self, handle: str, call: ParkableCall) -> None:
        try:
            await anyio.sleep(KEEP_S)
        finally:
            # Also where the gateway ends.
            if self._waiting.get(handle) is call:
                del self._waiting[handle]
                call.waiting = False
                call.scope.cancel()
                call.on_given_up()
