"""The mode that agents see by default: a compact index of servers, and meta-tools that reveal the rest.

Above: server.py. Below: the meta-tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from proxy.catalog.arguments import ArgumentChecker, understand
from proxy.catalog.prior import Prior
from proxy.catalog.purpose import index_lines
from proxy.catalog.records import ToolRecord
from proxy.catalog.schema_reader import mapping
from proxy.endpoint import aggregate
from proxy.endpoint.modes import INDEX_BYTES, BeginTask, ManyServers
from proxy.errors import UnknownName
from proxy.metatools.base import STRING, Caller, MetaTool, Request
from proxy.metatools.pages import PageStore, fit
from proxy.sight import Sight

WITHOUT_TASK = ("list_servers", "list_tools")
"""Meta-tools whose schema does not offer `task_id`, though they take it: what they show depends on no task."""


class SearchMode(ManyServers):
    """The compact index and the meta-tools."""

    label = "search"
    tools_change = False

    def __init__(
        self,
        gateway: Sight,
        metatools: Sequence[MetaTool],
        checker: ArgumentChecker,
        pages: PageStore,
        result_limit: int,
        prior: Prior,
    ) -> None:
        super().__init__(gateway)
        self._metatools = {metatool.name: metatool for metatool in metatools}
        # Their schemas never change, so the checker compiles each once.
        self._own = {metatool.name: _as_tool(metatool.name, self._definition(metatool, True)) for metatool in metatools}
        self._checker = checker
        self._pages = pages
        self._result_limit = result_limit
        self._prior = prior

    @property
    def names(self) -> frozenset[str]:
        """Of the meta-tools."""
        return frozenset(self._metatools)

    async def list_tools(self, caller: Caller) -> list[Mapping[str, Any]]:
        return [self._definition(metatool, caller.origin.modern) for metatool in self._metatools.values()]

    async def instructions(self) -> str:
        return self.introduction()

    def introduction(self) -> str:
        """What agents are told first."""
        servers = self._prior.order(self._gateway.catalog.servers)
        code = " or run_python(code)" if "run_python" in self._metatools else ""
        head = (
            f"Tools of {len(servers)} MCP servers, hidden to save context. Before saying you cannot do something: "
            f"search_tools(query) or list_tools(server), describe_tools(names), call_tool(tool, arguments){code}. "
            "Servers (tools):\n"
        )
        # Room for the last line, and for the definitions above: all of it together is to stay below 1,200 tokens.
        index = index_lines(servers, INDEX_BYTES - len(head.encode()) - 80)
        rest = f"\n… and {index.omitted} more: list_servers()" if index.omitted else ""
        return head + "\n".join(index.lines) + rest

    def offered(self) -> list[Mapping[str, Any]]:
        """The definitions of the meta-tools, as an agent with sessions gets them."""
        return [self._definition(metatool, False) for metatool in self._metatools.values()]

    async def introduced(self, introduction: dict[str, Any]) -> dict[str, Any]:
        return {**introduction, "capabilities": aggregate.capabilities(self._gateway.catalog, tools_change=False)}

    async def call(
        self, name: str, arguments: Any, params: Mapping[str, Any], caller: Caller, task: BeginTask
    ) -> dict[str, Any]:
        metatool = self._metatools.get(name)
        if metatool is None:
            # Agents that have learned a tool's name sometimes call it as if it were ours.
            tool = self._gateway.catalog.tool(name)
            raise UnknownName(f"call it as call_tool(tool='{tool.written}', arguments={{...}})")
        own = self._own[name]
        given = _forgiving(understand(arguments, own.input_schema))
        if isinstance(named := given.get("task_id"), str):
            # A mistake in the rest belongs to it, too.
            task(named)
        self._checker.check(own, {key: value for key, value in given.items() if key != "arguments"})
        task_id = given.pop("task_id", None)
        current = task(task_id)
        if caller.origin.modern and task_id is not None:
            # Without sessions, a task that is carried on is what has stateful servers of its own.
            caller = replace(caller, origin=replace(caller.origin, session=current.id, one_agent=True))
        result = await metatool.run(Request(current, caller, given, params))
        if result.get("resultType") == "input_required":
            return result
        fitted = fit(result, self._result_limit, lambda text: self._pages.keep(current.id, text))
        if caller.origin.modern and task_id is None and name != "finish_task":
            # A tool's own words stay its own, unless they were cut: then the agent needs the id to read on.
            in_words = caller.target.call is None or fitted.get("content") != result.get("content")
            fitted = _naming(fitted, current.id, in_words)
        return fitted

    def _definition(self, metatool: MetaTool, modern: bool) -> dict[str, Any]:
        definition = metatool.definition()
        if modern and metatool.name not in WITHOUT_TASK:
            schema = definition["inputSchema"]
            schema["properties"] = {**schema["properties"], "task_id": STRING}
        return definition


def _as_tool(name: str, definition: Mapping[str, Any]) -> ToolRecord:
    return ToolRecord(server="toolatlas", name=name, written=f"toolatlas.{name}", raw=definition)


def _forgiving(arguments: dict[str, Any]) -> dict[str, Any]:
    """The slips of models that cost nothing to understand: one name instead of a list, numbers as text, nulls."""
    given = {key: value for key, value in arguments.items() if value is not None}
    for key in ("tools", "servers"):
        if isinstance(given.get(key), str):
            given[key] = [given[key]]
    for key in ("limit", "page", "offset"):
        if isinstance(given.get(key), str) and str(given[key]).strip().isdigit():
            given[key] = int(given[key])
    return given


def _naming(result: dict[str, Any], task_id: str, in_words: bool) -> dict[str, Any]:
    """Tell a sessionless agent which task this was."""
    meta = mapping(result.get("_meta")) or {}  # a server may have sent anything
    named: dict[str, Any] = {**result, "_meta": {**meta, "toolatlas/task_id": task_id}}
    content = result.get("content")
    if in_words and isinstance(content, list):
        note = {"type": "text", "text": f"[task_id: {task_id}; pass it in further calls]"}
        named["content"] = [*cast(list[Any], content), note]
    return named
