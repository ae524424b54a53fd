"""A scripted model for the agent's bench: what a competent one would do in each variant, over an OpenAI-compatible
server of its own, so that turns and tokens can be counted where there is no model.

Above: bench/agent.py, tests. Below: tests/fixtures/openai_server.py. It reads what a model reads: a tool is only called
once its name stood in an observation or among the definitions, and the answer is taken from observations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse, Response

from bench.tokens import by_bytes
from proxy.policy.base import FINISH, Variant
from tests.fixtures.openai_server import Asked

Action = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """One task, with how it is done and how its answer is known."""

    task: str
    query: str
    """Words that find its tool."""
    tool: str
    """`server.tool`."""
    calls: tuple[Mapping[str, Any], ...]
    """Arguments of the calls that do it."""
    code: str
    """Python that does it."""
    answer: Callable[[str], str]
    """What to say, given all observations."""
    accepted: tuple[str, ...]
    """One of these stands in a right answer."""

    def plan(self, variant: Variant) -> list[Action]:
        """All actions but the last, which gives the answer."""
        server = self.tool.partition(".")[0]
        calls: list[Action] = [("call_tool", {"tool": self.tool, "arguments": dict(each)}) for each in self.calls]
        found: list[Action] = [
            ("search_tools", {"query": self.query, "task": self.task}),
            ("describe_tools", {"tools": [self.tool]}),
        ]
        match variant:
            case Variant.EAGER:
                return [(self.tool.replace(".", "__"), dict(each)) for each in self.calls]
            case Variant.SERVERS:
                return [("list_tools", {"server": server}), *calls]
            case Variant.TOOLS:
                return [*found, *calls]
            case Variant.CODE:
                # One call alone is as well made directly.
                return [*found, *(calls if len(calls) == 1 else [("run_python", {"code": self.code})])]

    def right(self, answer: str | None) -> bool:
        return answer is not None and any(each in answer.replace(",", "") for each in self.accepted)


class Competent:
    """Answers requests for the errands in one variant."""

    def __init__(self, errands: Sequence[Errand], variant: Variant) -> None:
        self._errands = {errand.task: errand for errand in errands}
        self._variant = variant

    def __call__(self, asked: Asked) -> Response:
        messages = asked.body["messages"]
        errand = self._errands[asked.user]
        seen = [str(each["content"]) for each in messages if each["role"] == "tool"]
        plan = errand.plan(self._variant)
        if len(seen) == len(plan):
            return turn(asked, FINISH, {"outcome": "done", "answer": errand.answer("\n".join(seen))})
        name, arguments = plan[len(seen)]
        if not _known(errand, name, asked, "\n".join([messages[0]["content"], *seen])):
            return turn(asked, FINISH, {"outcome": "failed", "answer": f"nothing shown leads to {name}"})
        return turn(asked, name, arguments)


def _known(errand: Errand, name: str, asked: Asked, seen: str) -> bool:
    if name not in {each["function"]["name"] for each in asked.body["tools"]}:
        return False
    if name in ("describe_tools", "call_tool", "run_python"):
        return errand.tool in seen
    return name != "list_tools" or re.search(rf"^{errand.tool.partition('.')[0]} - ", seen, re.MULTILINE) is not None


def turn(asked: Asked, name: str, arguments: Mapping[str, Any]) -> Response:
    """A chat completion with one tool call; tokens are bytes / 4 of what was sent and is sent back."""
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    call = {"id": f"call{asked.place:05d}", "type": "function", "function": function}
    read = by_bytes(json.dumps([asked.body["messages"], asked.body.get("tools", [])], ensure_ascii=False))
    written = by_bytes(json.dumps(function, ensure_ascii=False))
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    return JSONResponse({"id": "c", "object": "chat.completion", "created": 0, "model": "scripted",
                         "choices": choices, "usage": usage})  # fmt: skip
