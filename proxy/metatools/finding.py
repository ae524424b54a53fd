"""Discovery: search over all tools, the list of servers, the list of one server's tools."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from proxy.catalog.purpose import names_line
from proxy.catalog.records import ToolRecord
from proxy.catalog.stubs import signature
from proxy.catalog.text import first_sentence, one_line
from proxy.errors import InvalidArguments
from proxy.metatools.base import INTEGER, STRING, Request, Target, definition, text_result
from proxy.router.base import Query
from proxy.servers.permission import least_level
from proxy.servers.supervisor import Phase
from proxy.sight import Sight
from proxy.store.recorder import Decision, Level, Revealed

SERVERS_PER_PAGE = 50
TOOLS_PER_PAGE = 60
CHANGED = "[changed]"
DEFAULT_FOUND, MAX_FOUND = 5, 20
CANDIDATES = 32
"""How far down a ranking is logged, beyond what is shown."""
NAMES_BYTES = 480
"""Room for server names in search_tools' description, since some clients drop `instructions`."""


class SearchTools:
    name = "search_tools"

    def __init__(self, gateway: Sight, wait_s: float) -> None:
        self._gateway = gateway
        self._wait_s = wait_s

    def definition(self) -> dict[str, Any]:
        names = names_line(self._gateway.catalog.servers, NAMES_BYTES)
        return definition(
            self.name,
            f"Find tools by purpose; task: the user's own words. Servers: {names}",
            {
                "query": STRING,
                "task": STRING,
                "servers": {"type": "array", "items": STRING},
                "limit": INTEGER,
            },
            ("query",),
        )

    async def run(self, request: Request) -> dict[str, Any]:
        arguments = request.arguments
        query, limit = str(arguments["query"]), max(1, min(MAX_FOUND, int(arguments.get("limit", DEFAULT_FOUND))))
        if not query.strip():
            raise InvalidArguments("query: say in a few words what you want to do")
        built = await self._gateway.router(self._wait_s)
        wanted = arguments.get("servers")
        within = frozenset(built.catalog.server(name).written for name in wanted) if wanted else None
        task, began = arguments.get("task"), time.perf_counter()
        ranked = built.router.rank(Query(query, task, within), CANDIDATES)
        duration_ms = (time.perf_counter() - began) * 1000
        # The router may be of a moment ago; what has been refused or changed since must not be shown.
        tools = self._gateway.catalog.tools
        shown = [found.tool for found in ranked[:limit] if found.tool in tools]
        target = request.caller.target
        target.revealed.extend(Revealed(tool=tool, how="signature") for tool in shown)
        target.decision = Decision(
            policy=built.router.policy,
            query=query,
            task=task,
            servers=None if within is None else tuple(sorted(within)),
            candidates=tuple((found.tool, found.score) for found in ranked),
            shown=tuple(shown),
            duration_ms=duration_ms,
        )
        lines = [_found(tools[tool], self._gateway) for tool in shown]
        notes: list[str] = []
        seen = frozenset(server.name for server in self._gateway.catalog.servers)
        if starting := self._gateway.pool.first_listings & seen:
            notes.append(f"{len(starting)} of {len(seen)} servers still starting; search again later.")
        if not lines:
            notes.append("Nothing found. Try other words, or list_servers() and list_tools(server).")
        else:
            lines.append('Next: describe_tools(["..."]), then call_tool.')
        return text_result("\n".join([*notes, *lines]))


class ListServers:
    name = "list_servers"

    def __init__(self, gateway: Sight) -> None:
        self._gateway = gateway

    def definition(self) -> dict[str, Any]:
        return definition(self.name, "All servers and their state.", {"page": INTEGER})

    async def run(self, request: Request) -> dict[str, Any]:
        servers = self._gateway.catalog.servers
        target = request.caller.target
        lines = [
            f"{server.written} - {server.purpose} ({_tools(len(server.tools))}){self._state(server.name, target)}"
            if server.withheld is None
            else f"{server.written} [{server.purpose}]"
            for server in servers
        ]
        return text_result(_page(lines, request.arguments, SERVERS_PER_PAGE, "list_servers(page={})", "servers"))

    def _state(self, name: str, target: Target) -> str:
        state = self._gateway.pool.state(name)
        changed = f" {CHANGED}" if self._gateway.permissions.review(name).differences else ""
        if state.phase in (Phase.READY, Phase.ASLEEP):
            return changed
        _note_words(self._gateway, name, target)
        return f"{changed} [{state.phase}{': ' + one_line(state.reason, 300) if state.reason else ''}]"


class ListTools:
    name = "list_tools"

    def __init__(self, gateway: Sight) -> None:
        self._gateway = gateway

    def definition(self) -> dict[str, Any]:
        return definition(self.name, "The tools of one server.", {"server": STRING, "page": INTEGER}, ("server",))

    async def run(self, request: Request) -> dict[str, Any]:
        server = self._gateway.catalog.server(str(request.arguments["server"]))
        state = self._gateway.pool.state(server.name)
        if server.withheld is not None:
            return text_result(f"{server.written} [{server.purpose}]: {server.withheld}", is_error=True)
        if server.listing is None or state.phase is Phase.DISABLED:
            _note_words(self._gateway, server.name, request.caller.target)
            why = one_line(state.reason, 600) if state.reason else "it has not been listed yet; try again shortly"
            return text_result(f"{server.written} [{state.phase}]: {why}", is_error=state.phase is not Phase.STARTING)
        lines = [
            f"{tool.written}{mark(tool, self._gateway)}: {first_sentence(tool.description, 100)}"
            for tool in server.tools
        ]
        following = f"list_tools(server={server.written!r}, page={{}})"
        page = _page(lines, request.arguments, TOOLS_PER_PAGE, following, "tools")
        shown = server.tools[_range(len(lines), request.arguments, TOOLS_PER_PAGE)]
        request.caller.target.revealed.extend(Revealed(tool=tool.written, how="name") for tool in shown)
        if count := len(self._gateway.permissions.review(server.name).held_back):
            page += f"\n{_tools(count)} withheld until the gateway's owner accepts what changed."
        return text_result(page)


def _note_words(gateway: Sight, server: str, target: Target) -> None:
    """Why a server is not there may be told in its own words: the step is written as calls of it are."""
    config = gateway.permissions.servers.get(server)
    if config is not None and least_level(config) is not Level.FULL:
        target.level = Level.METADATA


def mark(tool: ToolRecord, gateway: Sight) -> str:
    """What stands after the name of a tool that is not as it was accepted: before any word of its server."""
    return f" {CHANGED}" if tool.name in gateway.permissions.review(tool.server).differences.changed else ""


def _found(tool: ToolRecord, gateway: Sight) -> str:
    call = f"{tool.written.split('.')[0]}.{signature(tool)}"
    return f"{call}{mark(tool, gateway)}\n    {first_sentence(tool.description, 140)}"


def _tools(count: int) -> str:
    return "1 tool" if count == 1 else f"{count} tools"


def _page(lines: Sequence[str], arguments: Mapping[str, Any], size: int, following: str, what: str) -> str:
    if not lines:
        return f"There are no {what}."
    pages = _pages(len(lines), size)
    shown = lines[_range(len(lines), arguments, size)]
    if pages == 1:
        return "\n".join(shown)
    page = int(arguments.get("page", 1))
    note = f"Page {page} of {pages}, {len(lines)} {what} in all"
    return "\n".join([note + (f"; next: {following.format(page + 1)}" if page < pages else ""), *shown])


def _range(count: int, arguments: Mapping[str, Any], size: int) -> slice:
    """What stands on the page that is asked for."""
    pages, page = _pages(count, size), int(arguments.get("page", 1))
    if not 1 <= page <= pages:
        raise InvalidArguments(f"page: there are pages 1 to {pages}, not {page}")
    return slice((page - 1) * size, page * size)


def _pages(count: int, size: int) -> int:
    return max(1, -(-count // size))
