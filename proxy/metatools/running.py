"""The meta-tool run_python: one program of an agent in place of many calls.

Above: endpoint/search_mode.py. Below: interpreters.py runs the code, code_calls.py is what it may do, report.py what
the agent reads of it.
"""

from __future__ import annotations

import re
from typing import Any

from proxy.errors import InvalidArguments
from proxy.metatools.base import STRING, Request, definition
from proxy.metatools.code_calls import CodeCalls, Means
from proxy.metatools.hints import hint
from proxy.metatools.interpreters import Interpreters
from proxy.metatools.pages import PageStore
from proxy.metatools.report import Run, report
from proxy.sandbox.base import RunResult, Status
from proxy.store.recorder import Outcome

DESCRIPTION = (
    "Run Python; tools are functions: server.tool(arg=1). Variables persist. Shows prints, last value. "
    "servers(), help(server), parallel(fn, items), ToolError."
)
_FENCED = re.compile(r"\s*```(?:python|py)?[ \t]*\n(.*?)\n?```\s*", re.DOTALL)
_OUTCOMES = {Status.TIMEOUT: Outcome.TIMEOUT, Status.CANCELLED: Outcome.CANCELLED}


class RunPython:
    name = "run_python"

    def __init__(self, interpreters: Interpreters, means: Means, pages: PageStore, result_limit: int) -> None:
        """`result_limit` in bytes, of an answer."""
        self._interpreters = interpreters
        self._means = means
        self._pages = pages
        self._result_limit = result_limit

    def definition(self) -> dict[str, Any]:
        language = self._interpreters.backend.language
        return definition(
            self.name,
            f"{DESCRIPTION} {language}" if language else DESCRIPTION,
            {"code": STRING, "timeout_s": {"type": "number"}, "reset": {"type": "boolean"}},
            ("code",),
            read_only=False,
        )

    async def run(self, request: Request) -> dict[str, Any]:
        limits, task = self._means.limits, request.task
        code = _plain(str(request.arguments["code"]))
        timeout_s = float(request.arguments.get("timeout_s", limits.run_s))
        if not 0 < timeout_s <= limits.max_run_s:
            raise InvalidArguments(f"timeout_s: more than 0, at most {limits.max_run_s:g} seconds, not {timeout_s:g}")
        if (size := len(code.encode("utf-8", "surrogatepass"))) > limits.code_bytes:
            raise InvalidArguments(
                f"code: {size:,} bytes, at most {limits.code_bytes:,}; run it in parts, the variables stay"
            )
        calls = CodeCalls(self._means, request)
        try:
            result = await self._interpreters.run(
                task.id, code, timeout_s, calls, reset=request.arguments.get("reset") is True
            )
        finally:
            calls.end()
        request.caller.target.outcome = _OUTCOMES.get(result.status)
        run = Run(result, calls.made, self._repair(result, calls))
        return report(run, limits, self._result_limit, lambda text: self._pages.keep(task.id, text))

    def _repair(self, result: RunResult, calls: CodeCalls) -> str | None:
        failure = result.failure
        if failure is None:
            return None
        if calls.answered is not None and (
            returns := self._means.answers.misused(calls.answered, failure.kind, failure.message)
        ):
            return returns
        return hint(failure, self._means.gateway.catalog)


def _plain(code: str) -> str:
    """Models like to fence code, here too."""
    fenced = _FENCED.fullmatch(code)
    return code if fenced is None else fenced[1]
