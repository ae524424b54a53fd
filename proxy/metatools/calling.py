"""The one way to call a tool of a server, whoever asks: permission, argument check, approval, the call itself.

Above: the meta-tool call_tool, the calls of code and the pass-through modes. Below: the pool.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from proxy.catalog.arguments import ArgumentChecker
from proxy.catalog.records import ToolRecord
from proxy.catalog.shapes import Shapes, described
from proxy.catalog.stubs import parameters
from proxy.errors import Denied, UnknownName
from proxy.gateway import Gateway
from proxy.metatools.approval import Approvals
from proxy.metatools.base import Caller
from proxy.servers.config import Isolation
from proxy.servers.flights import Call
from proxy.servers.permission import level_of
from proxy.sight import Sight
from proxy.store import recorder as store
from proxy.store.recorder import Level
from proxy.tasks import Task


class ToolCaller:
    """Calls tools of servers for agents."""

    def __init__(self, gateway: Gateway, checker: ArgumentChecker, approvals: Approvals) -> None:
        self._gateway = gateway
        self._checker = checker
        self._approvals = approvals

    async def call(
        self,
        tool: ToolRecord,
        arguments: Mapping[str, Any] | None,
        caller: Caller,
        *,
        check: bool = True,
        params: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The server's raw result, or for a 2026-07-28 agent a question to answer first.

        `tool` comes from the catalogue, which knows only what is permitted; `params` are further parameters of the
        agent's request that are passed on.

        Raises:
            AgentError: Arguments that do not fit, or the user did not allow it.
            ServerError: The server failed.
        """
        target = caller.target
        target.of_level(self._gateway.level(tool.server, tool.name))
        started_at, began = datetime.now(UTC), time.perf_counter()
        note = partial(
            store.Call,
            server=tool.server,
            tool=tool.name,
            written=tool.written,
            arguments=arguments,
            started_at=started_at,
        )
        try:
            result = await self._allowed(tool, arguments, caller, check, params or {})
        except BaseException:
            target.call = note(duration_ms=(time.perf_counter() - began) * 1000)
            raise
        target.call = note(result=result, duration_ms=(time.perf_counter() - began) * 1000)
        return result

    async def _allowed(
        self,
        tool: ToolRecord,
        arguments: Mapping[str, Any] | None,
        caller: Caller,
        check: bool,
        params: Mapping[str, Any],
    ) -> dict[str, Any]:
        if check:
            self._checker.check(tool, arguments or {})
        question = self._gateway.permissions.approval(tool.server, tool)
        resumed = caller.resumed
        if question is not None:
            asking = await self._approvals.ensure(tool, arguments or {}, question, caller)
            if asking is not None:
                return asking
            resumed = self._approvals.left_for_server(caller)
            # The user may have taken minutes, in which the configuration or the tool became another.
            if (refusal := self._gateway.permissions.refusal(tool.server, tool.name)) is not None:
                raise Denied(refusal)
        config = self._gateway.pool.configs.get(tool.server)
        if config is None:
            raise UnknownName(f"server '{tool.server}' is not configured any more; search again")
        sent: dict[str, Any] = {**params, "name": tool.name, **resumed}
        if arguments is not None:
            sent["arguments"] = arguments
        call = Call(
            "tools/call",
            sent,
            config.timeout_s,
            origin=caller.origin,
            on_progress=caller.on_progress,
            input_schema=tool.input_schema,
        )
        result = await self._gateway.pool.request(tool.server, call)
        if question is not None and result.get("resultType") == "input_required":
            return self._approvals.carried(tool, arguments or {}, caller, result)
        return result


class Answers:
    """What tools were seen to answer, for those whose servers do not say."""

    def __init__(self, gateway: Sight, shapes: Shapes, level: Level) -> None:
        """`level`: the most that is logged of anything; examples are contents, too."""
        self._gateway = gateway
        self._shapes = shapes
        self._level = level

    def learn(self, task: Task, tool: ToolRecord, value: Any) -> None:
        """Take note of a good result, as the plain data that it means. Others are shown it, so nothing is taken where
        it may hold what was said by a server that is not logged in full."""
        if task.level is Level.FULL and (identity := self._identity(tool)) is not None:
            self._shapes.learn(tool, identity, value)

    def described(self, tool: ToolRecord) -> str:
        """The stub of the tool, with what was learned of its result."""
        identity = self._identity(tool)
        return described(tool, None if identity is None else self._shapes.of(tool, identity))

    def misused(self, tool: ToolRecord, kind: str, message: str) -> str | None:
        """What the tool returns, where code used a result as what it is not and raised an exception of that class."""
        identity = self._identity(tool)
        return None if identity is None else self._shapes.hint_for(tool, identity, kind, message)

    def _identity(self, tool: ToolRecord) -> str | None:
        """Of its server. None where nothing is learned: what a server says to one user, names of fields too, is not
        shown to another, and what is not to be logged is not kept as an example either."""
        config = self._gateway.pool.configs.get(tool.server)
        if config is None or config.forward_headers or config.isolation is Isolation.SESSION:
            return None
        if self._level is not Level.FULL or level_of(config, tool.name) is not Level.FULL:
            return None
        return config.identity


def as_the_server_names_them(tool: ToolRecord, arguments: dict[str, Any]) -> dict[str, Any]:
    """A stub shows `from_` for a parameter `from`; what we print is accepted back."""
    declared = tool.input_schema.get("properties")
    if not isinstance(declared, Mapping) or all(name in declared for name in arguments):
        return arguments
    real = parameters(tool)
    return {name if name in declared else real.get(name, name): value for name, value in arguments.items()}
