"""What the code of one run wants from outside Monty, and the answers.

Above: monty_run.py. Below: monty_values.py, and `Calls`, which checks everything. Calls whose results the code
awaits are under way while it goes on; for all others it waits.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup
from pydantic_monty import FunctionSnapshot, FutureSnapshot, MontyComplete, NameLookupSnapshot

from proxy.sandbox.allowance import Allowance
from proxy.sandbox.base import Calls, Limits, Reply
from proxy.sandbox.monty_tracebacks import Cells
from proxy.sandbox.monty_values import (
    Answer,
    TooLarge,
    Unsendable,
    arguments_of,
    function,
    name_of,
    raised,
    returned,
    server_object,
    servers_by_id,
)

Snapshot = FunctionSnapshot | NameLookupSnapshot | FutureSnapshot | MontyComplete
Work = Callable[[], Awaitable[Answer]]
OWN = frozenset({"_ta_tool", "_ta_later"})
"""Of the prelude."""
LOOK_UPS = frozenset({"servers", "help", "describe"})
HELP = 'servers() lists the servers; help(server) its tools; describe("server.tool") the arguments of one.\n'
INTERRUPT: Answer = {"exc_type": "KeyboardInterrupt", "message": "the run was stopped"}


class Outside:
    """For one run; `tasks` are ended by whoever made them."""

    def __init__(
        self, calls: Calls, cells: Cells, limits: Limits, tasks: TaskGroup, show: Callable[[str], None]
    ) -> None:
        """`show` is given what is to be printed."""
        self.allowance = Allowance(limits)
        self.errors: set[str] = set()
        """Texts of tools' errors: what the code raises with one of them is shown as ToolError."""
        self.texts: dict[str, str] = {}
        """What was described, by its form as JSON: as a value it is shown with its line breaks."""
        self._calls = calls
        self._show = show
        self._cells = cells
        self._limits = limits
        self._tasks = tasks
        self._names = frozenset(calls.servers)
        self._servers = servers_by_id(self._names)
        self._scopes: set[anyio.CancelScope] = set()
        self._answers: dict[int, Answer] = {}
        self._answered = anyio.Event()
        self._interrupted = False

    def interrupt(self) -> None:
        """Cancel what is under way, and answer whatever the code asks for from now on with KeyboardInterrupt."""
        self._interrupted = True
        for scope in self._scopes:
            scope.cancel()

    async def answer(self, waiting: FunctionSnapshot | NameLookupSnapshot | FutureSnapshot) -> Callable[[], Snapshot]:
        """What the next turn does: answer what the code waits for."""
        if isinstance(waiting, FutureSnapshot):
            answers = await self._some_of(waiting.pending_call_ids)
            return partial(waiting.resume, {**answers})
        if isinstance(waiting, NameLookupSnapshot):
            return self._looked_up(waiting)
        return await self._called(waiting)

    def _looked_up(self, lookup: NameLookupSnapshot) -> Callable[[], Snapshot]:
        name = lookup.variable_name
        if lookup.object_id is not None:
            server = self._servers.get(lookup.object_id)
            if server is None or name.startswith("_"):
                return lookup.resume
            return partial(lookup.resume, value=function(f"{server}.{name}"))
        if name in self._names:
            return partial(lookup.resume, value=server_object(name))
        if name in LOOK_UPS or name in OWN:
            return partial(lookup.resume, value=function(name))
        return lookup.resume

    async def _called(self, call: FunctionSnapshot) -> Callable[[], Snapshot]:
        if self._interrupted:
            return partial(call.resume, INTERRUPT)
        name, awaited = str(call.function_name), False
        work: Work
        if call.is_os_function:
            if name not in ("system.sleep", "system.async_sleep"):
                return call.resume_not_handled
            work, awaited = partial(self._sleep, call.args[0]), name == "system.async_sleep"
        elif call.object_id is not None:
            tool = f"{self._servers.get(call.object_id, '?')}.{name}"
            work = partial(self._call, tool, call.args, call.kwargs)
            awaited = self._cells.awaits(call.position)
        elif name == "_ta_tool":
            return partial(call.resume, returned(self._tool_named(call.args)))
        elif name == "_ta_later" and not (len(call.args) == 2 and isinstance(call.args[0], str)):
            return partial(call.resume, raised("TypeError", "_ta_later(tool, item) is called by parallel alone"))
        elif name == "_ta_later":
            work, awaited = partial(self._call_with, *call.args[:2]), True
        elif "." in name:
            work = partial(self._call, name, call.args, call.kwargs)
        elif name in LOOK_UPS:
            work = partial(self._look_up, name, call.args)
        else:
            return partial(call.resume, raised("NameError", f"name '{name}' is not defined"))
        self._tasks.start_soon(self._work, call.call_id, work)
        if awaited:
            return partial(call.resume, {"future": ...})
        answers = await self._some_of([call.call_id])
        return partial(call.resume, answers[call.call_id])

    async def _work(self, call_id: int, work: Work) -> None:
        answer = INTERRUPT
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            answer = await work()
        self._scopes.discard(scope)
        self._answers[call_id] = answer
        self._answered.set()

    async def _some_of(self, ids: list[int]) -> Mapping[int, Answer]:
        """The answers that are there, at least one."""
        while not (there := [id for id in ids if id in self._answers]):
            self._answered = anyio.Event()
            await self._answered.wait()
        return {id: self._answers.pop(id) for id in there}

    def _tool_named(self, arguments: tuple[Any, ...]) -> str | None:
        """The tool, if what `parallel` is given is one and no function of the agent's."""
        name = arguments[0] if arguments else None
        known = isinstance(name, str) and name.partition(".")[0] in self._names and "." in name
        return name if known else None

    async def _sleep(self, seconds: Any) -> Answer:
        await anyio.sleep(min(float(seconds), self._limits.max_run_s))
        return returned(None)

    async def _call_with(self, tool: str, item: Any) -> Answer:
        if not isinstance(item, dict):
            text = (
                f"items for parallel({tool}, items) are dicts of arguments; for others give it a function: "
                f"parallel(lambda item: {tool}(name=item), items)"
            )
            return raised("TypeError", text)
        return await self._call(tool, (), cast(Mapping[Any, Any], item))

    async def _call(self, tool: str, positional: tuple[Any, ...], named: Mapping[Any, Any]) -> Answer:
        if positional:
            return raised("TypeError", f"{tool}() takes keyword arguments only: {tool}(name=value)")
        try:
            arguments = arguments_of(named, tool, self._limits.argument_bytes)
        except Unsendable as error:
            return raised("TypeError", str(error))
        except TooLarge:
            most = self._limits.argument_bytes
            return self._replied(
                Reply(False, f"the arguments have more than {most:,} bytes as JSON, which are the most")
            )
        if (refusal := self.allowance.call(arguments)) is not None:
            return self._replied(Reply(False, refusal))
        async with self.allowance.turns:
            reply = await self._calls.call(tool, arguments)
        if reply.ok and (refusal := self.allowance.value(_size(reply.value))) is not None:
            reply = Reply(False, refusal)
        return self._replied(reply)

    async def _look_up(self, what: str, arguments: tuple[Any, ...]) -> Answer:
        if what == "help" and not arguments:
            self._show(HELP)
            return returned(None)
        try:
            name = name_of(arguments[0], self._servers) if arguments else ""
        except Unsendable as error:
            return raised("TypeError", f"{what}() takes {error}")
        if (refusal := self.allowance.look_up()) is not None:
            return self._replied(Reply(False, refusal))
        reply = await self._calls.look_up(what, name)
        if reply.ok and what == "help":
            self._show(f"{reply.value}\n")
            return returned(None)
        if reply.ok and isinstance(reply.value, str):
            self.texts[json.dumps(reply.value, ensure_ascii=False)] = reply.value
        return self._replied(reply)

    def _replied(self, reply: Reply) -> Answer:
        if reply.ok:
            return returned(reply.value)
        text = str(reply.value)
        self.errors.add(text)
        return raised("RuntimeError", text)


def _size(value: Any) -> int:
    """Bytes as JSON."""
    try:
        return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
    except (TypeError, ValueError):
        return 0
