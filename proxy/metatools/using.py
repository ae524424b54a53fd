"""Describing and calling tools, reading long results, closing the task."""

from __future__ import annotations

from typing import Any

from proxy.catalog.arguments import understand
from proxy.catalog.text import visible_json
from proxy.errors import AgentError, InvalidArguments
from proxy.metatools.attachments import Attachments
from proxy.metatools.base import INTEGER, STRING, Request, definition, text_result
from proxy.metatools.calling import Answers, ToolCaller, as_the_server_names_them
from proxy.metatools.finding import mark
from proxy.metatools.pages import PageStore
from proxy.sandbox.values import value_of
from proxy.sight import Sight
from proxy.store.recorder import EndReason, Revealed
from proxy.tasks import TaskStore

MAX_DESCRIBED = 20
NOT_DESCRIBED = frozenset({"_meta", "icons"})
"""For programs and people; a model has no use for them, and they are not pinned."""


class DescribeTools:
    name = "describe_tools"

    def __init__(self, gateway: Sight, answers: Answers, wait_s: float) -> None:
        self._gateway = gateway
        self._answers = answers
        self._wait_s = wait_s

    def definition(self) -> dict[str, Any]:
        return definition(
            self.name,
            "Parameters and docs; call before call_tool.",
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
            request.caller.target.revealed.append(Revealed(tool=tool.written, how="definition"))
            if as_json:
                definition = {key: value for key, value in tool.raw.items() if key not in NOT_DESCRIBED}
                parts.append(visible_json({**definition, "name": tool.written}))
            else:
                parts.append(f"# {tool.written}{mark(tool, self._gateway)}\n{self._answers.described(tool)}")
        return text_result("\n\n".join([*problems, *parts]), is_error=not parts)


class CallTool:
    name = "call_tool"

    def __init__(self, gateway: Sight, caller: ToolCaller, answers: Answers, wait_s: float) -> None:
        self._gateway = gateway
        self._caller = caller
        self._answers = answers
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
        own = as_the_server_names_them(tool, arguments)
        result = await self._caller.call(tool, own, request.caller, params=request.params)
        good = result.get("isError") is not True and result.get("resultType") != "input_required"
        if good and tool.output_schema is None:
            self._answers.learn(request.task, tool, value_of(result, None, lambda item: "…"))
        return result


class ReadResult:
    name = "read_result"

    def __init__(self, pages: PageStore, attachments: Attachments, page_length: int) -> None:
        self._pages = pages
        self._attachments = attachments
        self._page_length = page_length

    def definition(self) -> dict[str, Any]:
        return definition(
            self.name,
            "More of a cut result, or where find occurs.",
            {"id": STRING, "offset": INTEGER, "find": STRING},
            ("id",),
        )

    async def run(self, request: Request) -> dict[str, Any]:
        arguments = request.arguments
        if (item := self._attachments.get(request.task.id, str(arguments["id"]))) is not None:
            return {"content": [dict(item)]}
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
        outcome, answer = str(request.arguments["outcome"]), request.arguments.get("answer")
        self._tasks.finish(request.task, EndReason.FINISHED, outcome, answer)
        return text_result(f"Task {request.task.id} is closed as {outcome}.")
