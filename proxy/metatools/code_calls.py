"""What code may do outside its interpreter, for one run: call tools and ask what there is.

Above: a backend of proxy/sandbox, which hands on what came out of the sandbox, so nothing here is trusted. Below: the
catalogue and the one way to call a tool, with the permissions, limits and log of any other call.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
from mcp.shared.dispatcher import ProgressFnT

from proxy.catalog.records import ServerRecord, ToolRecord
from proxy.catalog.schema_reader import Reader, kinds_of, sequence, values_of
from proxy.catalog.stubs import signature
from proxy.catalog.text import block, first_sentence, one_line
from proxy.errors import Denied, GatewayError, InvalidArguments, UnknownName
from proxy.metatools.attachments import Attachments
from proxy.metatools.base import Caller, Request, Target
from proxy.metatools.calling import Answers, ToolCaller, as_the_server_names_them
from proxy.metatools.finding import mark
from proxy.metatools.steps import Finished, Steps
from proxy.sandbox.base import Limits, Reply
from proxy.sandbox.values import reply_of
from proxy.servers.origin import Ask, Origin
from proxy.servers.peer import ANSWER_WITHIN_S
from proxy.sight import Sight
from proxy.store.recorder import Outcome, Revealed, new_step_id

logger = logging.getLogger("toolatlas.code")

MODE = "code"
ERROR_LIMIT = 4_000
"""Characters of an error text that is raised in the code."""
NAME_LIMIT = 200
ENDED = "The run is over: tools can only be called while code is running."


@dataclass(slots=True)
class _Call:
    """One call under way."""

    name: str
    arguments: Mapping[str, Any]
    target: Target
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    began: float = field(default_factory=time.perf_counter)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What the calls of every run are made with."""

    gateway: Sight
    caller: ToolCaller
    answers: Answers
    attachments: Attachments
    steps: Steps
    limits: Limits
    wait_s: float
    """How long a name waits for servers that are being listed for the first time."""


class CodeCalls:
    """The `Calls` of one run. After `end` it does nothing any more."""

    def __init__(self, means: Means, request: Request) -> None:
        self._means = means
        self._task = request.task
        self._agent = request.caller
        self._origin = origin_within(request.caller.origin, request.task.id, self._ask_agent)
        self._progress = _Progress(request.caller)
        self._turns = anyio.Semaphore(means.limits.parallel)
        self._scopes: dict[int, anyio.CancelScope] = {}
        self._ended = False
        self.made = 0
        self.answered: ToolRecord | None = None
        """The tool that has given a value last."""
        self.on_extend: Callable[[float], None] = lambda seconds: None
        self._asking = 0
        """Questions that are open."""
        self._extended_until = 0.0

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(server.written for server in self._means.gateway.catalog.servers if server.withheld is None)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        limits = self._means.limits
        if self._ended:
            return Reply(ok=False, value=ENDED, tool=tool)
        if self.made >= limits.calls:
            text = f"a run may make {limits.calls} tool calls; do the rest in the next run, which has the variables"
            return Reply(ok=False, value=text, tool=tool)
        self.made += 1
        call = _Call(tool[:NAME_LIMIT], arguments, Target(on_level=self._task.touched))
        self._scopes[id(call)] = call.scope
        try:
            with call.scope:
                async with self._turns:
                    return await self._recorded(call)
        finally:
            del self._scopes[id(call)]
        return Reply(ok=False, value=ENDED, tool=tool)

    async def look_up(self, what: str, name: str) -> Reply:
        try:
            if self._ended:
                return Reply(ok=False, value=ENDED)
            if what == "servers":
                return Reply(ok=True, value=[_about(server) for server in self._means.gateway.catalog.servers])
            # Forgiving: what is meant can be told from the name.
            if what == "describe" or (what == "help" and "." in name):
                return Reply(ok=True, value=await self._describe(name))
            if what == "help":
                return Reply(ok=True, value=await self._help(name))
        except GatewayError as error:
            return Reply(ok=False, value=block(str(error), ERROR_LIMIT))
        except Exception:
            logger.exception("looking up %s of %s", what[:NAME_LIMIT], name[:NAME_LIMIT])
        return Reply(ok=False, value=f"cannot look up {what[:NAME_LIMIT]!r}")

    def end(self) -> None:
        """The run is over: cancel what it left under way at the servers, and take nothing more."""
        self._ended = True
        for scope in self._scopes.values():
            scope.cancel()

    async def _ask_agent(
        self, method: str, params: Mapping[str, Any], on_progress: ProgressFnT | None
    ) -> dict[str, Any]:
        # While a person thinks, it is not the code that is slow. Questions at the same time take that time once.
        now = anyio.current_time()
        if not self._asking:
            self._extended_until = now
        self._asking += 1
        self.on_extend(now + ANSWER_WITHIN_S - self._extended_until)
        self._extended_until = now + ANSWER_WITHIN_S
        try:
            return await self._agent.origin.ask(method, params, on_progress)
        finally:
            self._asking -= 1
            if not self._asking:
                self.on_extend(anyio.current_time() - self._extended_until)

    async def _recorded(self, call: _Call) -> Reply:
        try:
            tool = await self._meant(call.name)
            result = await self._ask(tool, call)
            reply = self._reply(tool, result)
        except anyio.get_cancelled_exc_class():
            self._record(call, Outcome.CANCELLED)
            raise
        except GatewayError as error:
            self._record(call, error.outcome, error=str(error))
            return Reply(ok=False, value=block(str(error), ERROR_LIMIT), tool=call.name)
        except Exception as error:
            logger.exception("calling %s from code", call.name)
            self._record(call, Outcome.PROTOCOL_ERROR, error=f"internal error: {type(error).__name__}")
            text = "The gateway failed at this call, not your code; its log says why."
            return Reply(ok=False, value=text, tool=call.name)
        self._record(call, Outcome.TOOL_ERROR if result.get("isError") is True else Outcome.OK, result)
        return reply

    def _reply(self, tool: ToolRecord, result: Mapping[str, Any]) -> Reply:
        keep = partial(self._means.attachments.keep, self._task.id)
        reply = reply_of(tool.written, result, tool.output_schema, self._means.limits.value_bytes, keep)
        if reply.ok:
            self.answered = tool
            self._means.answers.learn(self._task, tool, reply.value)
        elif (left_out := len(reply.value) - ERROR_LIMIT) > 0:
            # A server's own words, and so as they are.
            reply = replace(reply, value=f"{reply.value[:ERROR_LIMIT]}… {left_out:,} characters left out")
        return reply

    async def _meant(self, name: str) -> ToolRecord:
        """The tool of that server: code writes `server.tool`, so a name that fits another server's is a mistake."""
        tool = await self._means.gateway.tool(name, self._means.wait_s)
        if tool.written.partition(".")[0] != name.partition(".")[0]:
            raise UnknownName(f"no tool '{name}'; did you mean {tool.written}?")
        return tool

    async def _ask(self, tool: ToolRecord, call: _Call) -> dict[str, Any]:
        if (size := _size(call.arguments)) > (most := self._means.limits.argument_bytes):
            raise InvalidArguments(f"the arguments of {tool.written} are {size:,} bytes, at most {most:,} are taken")
        arguments = _without_nulls(tool, as_the_server_names_them(tool, dict(call.arguments)))
        await self._progress.say(tool.written)
        caller = Caller(
            agent=self._agent.agent,
            origin=self._origin,
            on_progress=partial(self._progress.of_server, tool.written) if self._progress.wanted else None,
            target=call.target,
        )
        return await self._means.caller.call(tool, arguments, caller)

    def _record(
        self, call: _Call, outcome: Outcome, result: dict[str, Any] | None = None, error: str | None = None
    ) -> None:
        self._means.steps.record(
            self._task,
            Finished(
                id=new_step_id(),
                parent=self._agent.step_id,
                mode=MODE,
                name=call.name,
                arguments=call.arguments,
                target=call.target,
                outcome=outcome,
                result=result,
                error=error,
                started_at=call.started_at,
                began=call.began,
            ),
        )

    async def _describe(self, name: str) -> str:
        tool = await self._means.gateway.tool(name, self._means.wait_s)
        self._agent.target.revealed.append(Revealed(tool=tool.written, how="definition"))
        return f"# {tool.written}{mark(tool, self._means.gateway)}\n{self._means.answers.described(tool)}"

    async def _help(self, name: str) -> str:
        server = self._means.gateway.catalog.server(name)
        if server.listing is None and server.withheld is None:
            await self._means.gateway.pool.wait_for_first_listings(self._means.wait_s)
            server = self._means.gateway.catalog.server(name)
        if server.withheld is not None:
            raise Denied(f"'{server.written}' is withheld: {server.withheld}")
        if server.listing is None:
            raise UnknownName(f"the tools of '{server.written}' are not known yet; list_servers() says why")
        shown = (Revealed(tool=tool.written, how="signature") for tool in server.tools)
        self._agent.target.revealed.extend(shown)
        return "\n".join(self._line(server, tool) for tool in server.tools) or f"{server.written} has no tools."

    def _line(self, server: ServerRecord, tool: ToolRecord) -> str:
        purpose = first_sentence(tool.description, 140)
        return f"{server.written}.{signature(tool)}{mark(tool, self._means.gateway)}\n    {purpose}"


class _Progress:
    """One counter over all calls of a run: the agent has one token, whose progress must grow."""

    def __init__(self, caller: Caller) -> None:
        self._on_progress = caller.on_progress
        self._count = 0

    @property
    def wanted(self) -> bool:
        return self._on_progress is not None

    async def say(self, message: str) -> None:
        if self._on_progress is not None:
            self._count += 1
            await self._on_progress(self._count, None, message)

    async def of_server(self, tool: str, progress: float, total: float | None, message: str | None) -> None:
        counted = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        await self.say(f"{tool}: {one_line(message, 200) if message else counted}")


def origin_within(origin: Origin, task_id: str, ask: Ask) -> Origin:
    """The agent as servers can address it from within a run, or within a task that it delegated. A question cannot be
    the answer of a call there, so it is put in mid-call in either era; in that without sessions the endpoint lets the
    run wait for the reply."""
    if not origin.modern:
        return replace(origin, ask=ask)

    async def tell(method: str, params: Mapping[str, Any]) -> None:
        if method != "notifications/message" or origin.wants(params.get("level")):
            await origin.tell(method, params)

    return replace(origin, modern=False, session=task_id, one_agent=True, ask=ask, tell=tell)


def _without_nulls(tool: ToolRecord, arguments: dict[str, Any]) -> dict[str, Any]:
    """Code says None for what it does not want to say; a server may take null for a value."""
    if all(value is not None for value in arguments.values()):
        return arguments
    reader = Reader(tool.input_schema)
    fields = reader.fields(tool.input_schema)
    optional = fields.properties.keys() - fields.required
    return {
        name: value
        for name, value in arguments.items()
        if value is not None or name not in optional or _takes_null(reader, fields.properties[name])
    }


def _takes_null(reader: Reader, schema: Any, depth: int = 0) -> bool:
    if schema is True:
        return True
    node = reader.resolved(schema)
    if node.get("nullable") is True:
        return True
    if values := values_of(node):
        return None in values
    if kinds := kinds_of(node):
        return "null" in kinds
    parts = [*sequence(node.get("anyOf")), *sequence(node.get("oneOf")), *sequence(node.get("allOf"))]
    return depth < 8 and (not parts or any(_takes_null(reader, part, depth + 1) for part in parts))


def _about(server: ServerRecord) -> dict[str, Any]:
    return {"name": server.written, "purpose": server.purpose, "tools": len(server.tools)}


def _size(arguments: Mapping[str, Any]) -> int:
    with suppress(ValueError, TypeError, RecursionError):
        return len(json.dumps(arguments, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return 0
