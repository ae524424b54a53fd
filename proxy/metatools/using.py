"""Describing and calling tools, reading long results, closing the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.catalog.arguments import understand
from proxy.catalog.records import ToolRecord
from proxy.catalog.stubs import parameters, stub
from proxy.catalog.text import visible_json
from proxy.errors import AgentError, InvalidArguments
from proxy.gateway import Gateway
from proxy.metatools.base import INTEGER, STRING, Request, definition, text_result
from proxy.metatools.calling import ToolCaller
from proxy.metatools.finding import mark
from proxy.metatools.pages import PageStore
from proxy.tasks import TaskStore

MAX_DESCRIBED = 20
NOT_DESCRIBED = frozenset({"_meta", "icons"})
"""For programs and people; a model has no use for them, and they are not pinned."""


class DescribeTools:
    name = "describe_tools"

    def __init__(self, gateway: Gateway, wait_s: float) -> None:
        self._gateway = gateway
        self._wait_s = wait_s

    def definition(self) -> dict[str, Any]:
        return definition(
            self.name,
            "Parameters and docs of tools; call before call_tool.",
            {
                "tools": {"type": "array", "items": STRING},
                "format": {"type": "string", "enum": ["python", "json"]},
            },
            ("tools",),
        )

    async def run(self, request: Request) -> dict[str, Any]:
        names = [str(name) for name in request.arguments["tools"]]
        if not names or len(names) > MAX_DESCRIBED:
            raise InvalidArguments(f"tools: name between 1 and {MAX_DESCRIBED} tools at a time, not {len(names)}")
        as_json = request.arguments.get("format") == "json"
        parts: list[str] = []
        problems: list[str] = []
        for name in names:
            try:
                tool = await self._gateway.tool(name, self._wait_s)
            except AgentError as error:
                problems.append(str(error))
                continue
            request.task.revealed.add(tool.written)
            if as_json:
                definition = {key: value for key, value in tool.raw.items() if key not in NOT_DESCRIBED}
                parts.append(visible_json({**definition, "name": tool.written}))
            else:
                parts.append(f"# {tool.written}{mark(tool, self._gateway)}\n{stub(tool)}")
        return text_result("\n\n".join([*problems, *parts]), is_error=not parts)


class CallTool:
    name = "call_tool"

    def __init__(self, gateway: Gateway, caller: ToolCaller, wait_s: float) -> None:
        self._gateway = gateway
        self._caller = caller
        self._wait_s = wait_s

    def definition(self) -> dict[str, Any]:
        return definition(
            self.name,
            "Run a tool.",
            {"tool": {"type": "string", "description": "server.tool"}, "arguments": {"type": "object"}},
            ("tool",),
            read_only=False,
        )

    async def run(self, request: Request) -> dict[str, Any]:
        tool = await self._gateway.tool(str(request.arguments["tool"]), self._wait_s)
        arguments = understand(request.arguments.get("arguments"), tool.input_schema)
        own = _as_the_server_names_them(tool, arguments)
        return await self._caller.call(tool, own, request.caller, params=request.params)


class ReadResult:
    name = "read_result"

    def __init__(self, pages: PageStore, page_length: int) -> None:
        self._pages = pages
        self._page_length = page_length

    def definition(self) -> dict[str, Any]:
        return definition(
            self.name,
            "More of a result that was cut, or the places where find occurs.",
            {"id": STRING, "offset": INTEGER, "find": STRING},
            ("id",),
        )

    async def run(self, request: Request) -> dict[str, Any]:
        arguments = request.arguments
        return text_result(
            self._pages.read(
                request.task.id,
                str(arguments["id"]),
                offset=int(arguments.get("offset", 0)),
                length=self._page_length,
                find=arguments.get("find"),
            )
        )


class FinishTask:
    name = "finish_task"

    def __init__(self, tasks: TaskStore) -> None:
        self._tasks = tasks

    def definition(self) -> dict[str, Any]:
        return definition(
            self.name,
            "End this task; the next call begins another.",
            {"outcome": {"type": "string", "enum": ["done", "failed", "abandoned"]}, "answer": STRING},
            ("outcome",),
        )

    async def run(self, request: Request) -> dict[str, Any]:
        self._tasks.finish(request.task)
        return text_result(f"Task {request.task.id} is closed as {request.arguments['outcome']}.")


def _as_the_server_names_them(tool: ToolRecord, arguments: dict[str, Any]) -> dict[str, Any]:
    """A stub shows `from_` for a parameter `from`; what we print is accepted back."""
    declared = tool.input_schema.get("properties")
    if not isinstance(declared, Mapping) or all(name in declared for name in arguments):
        return arguments
    real = parameters(tool)
    return {name if name in declared else real.get(name, name): value for name, value in arguments.items()}
