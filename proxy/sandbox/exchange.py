"""One run over a channel: sends the code, answers what it asks for, keeps the gateway's own deadlines.

Above: docker.py. Below: channel.py and incoming.py. The supervisor in the container stops code at its deadline; here
the calls outstanding at that moment are cancelled, and a supervisor that has not reported a little later is given up.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import cast

import anyio
from anyio.abc import TaskGroup

from proxy.sandbox.allowance import Allowance
from proxy.sandbox.base import Calls, Limits, Reply, RunResult
from proxy.sandbox.channel import Channel, ChannelClosed, encode
from proxy.sandbox.frames import MAX_FRAME
from proxy.sandbox.incoming import LookUp, Ready, ToolCall, read

SLACK_S = 2.0
"""Beyond the time limit and the grace, until a supervisor is given up."""
PENDING_BYTES = 2 * MAX_FRAME
"""Of arguments that wait for their turn. Code that goes through `parallel` never comes near it."""
MAX_ERROR = 20_000
"""Characters of an error that enters the interpreter."""
TIME_OVER = Reply(False, "the time of the run is over")
CANCELLED = Reply(False, "the agent has cancelled the run")


class Overdue(Exception):
    """The supervisor has not reported in time."""


def _too_late(seconds: float) -> None:
    """The run is over."""


class Exchange:
    """Made for one run; `perform` once."""

    def __init__(self, channel: Channel, run: int, limits: Limits, calls: Calls, timeout_s: float) -> None:
        self._channel = channel
        self._run = run
        self._limits = limits
        self._calls = calls
        self._timeout_s = timeout_s
        self._deadline = math.inf
        self._allowance = Allowance(limits)
        self._numbers = itertools.count()
        self._open: dict[int, ToolCall | LookUp] = {}
        """Asked and not answered, by a number of our own."""
        self._pending = 0
        self._limits_of_time: set[anyio.CancelScope] = set()
        self._reported: RunResult | None = None
        self.fresh = False
        """Whether the supervisor said, before it reported, that it has a new interpreter without variables."""
        self.settled: RunResult | None = None
        """What the supervisor reported of a cancelled run; None where it did not."""

    async def perform(self, code: str) -> RunResult:
        """Cancelled, it interrupts the code, waits for the report within the grace, and sets `settled`.

        Raises:
            ChannelClosed: The container ended, or sent what it must not.
            Overdue: It did not report.
        """
        started = time.perf_counter()
        try:
            outcome = await self._converse(self._opening(code))
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                # A report that came in the same moment leaves nothing to interrupt.
                self.settled = self._reported or await self._interrupt()
            raise
        if isinstance(outcome, ChannelClosed):
            raise outcome
        if outcome is None:
            raise Overdue(f"its container did not report within {SLACK_S:g} s of the time limit and the grace")
        return replace(outcome, calls=self._allowance.made, seconds=time.perf_counter() - started)

    @property
    def calls(self) -> int:
        """Tool calls made so far."""
        return self._allowance.made

    def _opening(self, code: str) -> bytes:
        limits = self._limits
        return encode(
            {
                "op": "run",
                "run": self._run,
                "code": code,
                "timeout": self._timeout_s,
                "servers": list(self._calls.servers),
                "limits": {
                    "output_kept": limits.output_kept,
                    "grace_s": limits.grace_s,
                    "processes": limits.processes,
                    "parallel": limits.parallel,
                },
            }
        )

    async def _converse(self, opening: bytes) -> RunResult | ChannelClosed | None:
        outcome: RunResult | ChannelClosed | None = None
        self._deadline = anyio.current_time() + self._timeout_s
        # An error is an outcome here: raised, the group would wrap it.
        async with anyio.create_task_group() as answers:
            self._calls.on_extend = partial(self._extend, answers)
            try:
                with self._until(self._limits.grace_s + SLACK_S):
                    await self._channel.send(opening)
                    outcome = await self._serve(answers)
            except ChannelClosed as error:
                outcome = error
            finally:
                self._calls.on_extend = _too_late
            answers.cancel_scope.cancel()
        return outcome

    def _until(self, beyond_s: float = 0.0) -> AbstractContextManager[anyio.CancelScope, bool]:
        """Until the deadline of the run, wherever it moves, and so much beyond; then what is within is left."""
        return cast("AbstractContextManager[anyio.CancelScope, bool]", self._moving(beyond_s))

    @contextmanager
    def _moving(self, beyond_s: float) -> Generator[anyio.CancelScope]:
        with anyio.move_on_at(self._deadline + beyond_s) as scope:
            self._limits_of_time.add(scope)
            try:
                yield scope
            finally:
                self._limits_of_time.discard(scope)

    def _extend(self, answers: TaskGroup, seconds: float) -> None:
        self._deadline += seconds
        for scope in self._limits_of_time:
            scope.deadline += seconds
        answers.start_soon(self._send_extension, seconds)

    async def _send_extension(self, seconds: float) -> None:
        with suppress(ChannelClosed):  # Whoever reads knows.
            await self._channel.send(encode({"op": "extend", "run": self._run, "seconds": seconds}))

    async def _serve(self, answers: TaskGroup) -> RunResult:
        while True:
            frame, size = await self._channel.receive()
            incoming = read(frame, self._run, self._limits, self._channel.broken)
            if isinstance(incoming, RunResult):
                self._reported = incoming
                return incoming
            if isinstance(incoming, Ready):
                self.fresh = incoming.fresh
            elif refusal := self._refusal(incoming, size):
                # Not in a task: who sends without reading gets no further than this.
                await self._reply(incoming, Reply(False, refusal))
            else:
                self._pending += size
                self._open[number := next(self._numbers)] = incoming
                answers.start_soon(self._answer, incoming, size, number)

    def _refusal(self, asked: ToolCall | LookUp, size: int) -> str | None:
        """Why this is not even tried."""
        if self._pending + size > PENDING_BYTES:
            return "too many large calls at once; use parallel(fn, items), or fewer"
        return self._allowance.look_up() if isinstance(asked, LookUp) else self._allowance.call(asked.arguments)

    async def _answer(self, asked: ToolCall | LookUp, size: int, number: int) -> None:
        reply: Reply | None = None
        try:
            with self._until():
                async with self._allowance.turns:
                    reply = await self._outside(asked)
        finally:
            self._pending -= size
        if reply is None:
            # After the interrupt, which should be what the code notices. But its threads may wait for an answer.
            await anyio.sleep(self._limits.grace_s / 4)
            reply = TIME_OVER
        del self._open[number]
        with suppress(ChannelClosed):  # Whoever reads knows.
            await self._reply(asked, reply)

    async def _outside(self, asked: ToolCall | LookUp) -> Reply:
        if isinstance(asked, LookUp):
            return await self._calls.look_up(asked.what, asked.name)
        return await self._calls.call(asked.tool, asked.arguments)

    async def _reply(self, asked: ToolCall | LookUp, reply: Reply) -> None:
        tool = asked.tool if isinstance(asked, ToolCall) else None
        head = {"op": "reply", "run": self._run, "call": asked.id}
        if reply.ok:
            try:
                line = encode({**head, "ok": True, "value": reply.value})
            except (ValueError, TypeError, RecursionError):
                reply = Reply(False, "the result has no form in JSON", tool)
            else:
                too_large = self._allowance.value(len(line) - len(encode({**head, "ok": True, "value": ""})) + 2)
                if too_large is None:
                    await self._channel.send(line)
                    return
                reply = Reply(False, too_large, tool)
        value = str(reply.value)[:MAX_ERROR]
        await self._channel.send(encode({**head, "ok": False, "value": value, "tool": reply.tool or tool}))

    async def _interrupt(self) -> RunResult | None:
        """Stop the code that nobody waits for any more. None when the container is of no further use."""
        with anyio.move_on_after(self._limits.grace_s + SLACK_S):
            try:
                await self._channel.send(encode({"op": "interrupt", "run": self._run}))
                for asked in self._open.values():
                    await self._reply(asked, CANCELLED)
                while True:
                    frame, _ = await self._channel.receive()
                    incoming = read(frame, self._run, self._limits, self._channel.broken)
                    if isinstance(incoming, RunResult):
                        return incoming
                    if isinstance(incoming, Ready):
                        self.fresh = incoming.fresh
                    else:
                        await self._reply(incoming, CANCELLED)
            except ChannelClosed:
                return None
        return None
