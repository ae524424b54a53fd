"""Discovery: search over all tools, the list of servers, the list of one server's tools."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.catalog.prior import Prior
from proxy.catalog.purpose import names_line
from proxy.catalog.records import ToolRecord
from proxy.catalog.stubs import signature
from proxy.catalog.text import first_sentence, one_line
from proxy.errors import InvalidArguments
from proxy.metatools.base import INTEGER, STRING, Request, Target, definition, text_result
from proxy.router.base import History, Query
from proxy.router.cutting import Certainty, Cut, cut
from proxy.router.exploring import Explorer, Ordered
from proxy.router.history import remembering
from proxy.servers.permission import least_level
from proxy.servers.supervisor import Phase
from proxy.sight import Sight
from proxy.store.recorder import Decision, Level, Revealed
from proxy.tasks import Task

SERVERS_PER_PAGE = 50
TOOLS_PER_PAGE = 60
CHANGED = "[changed]"
DEFAULT_FOUND, MAX_FOUND = 5, 20
SURE = f" limit={DEFAULT_FOUND} shows more."
UNSURE = " Not sure which fits."
BEST_SERVERS = 5
"""Named below the tools of a router that is not sure."""
CANDIDATES = 32
"""How far down a ranking is logged, beyond what is shown."""
NAMES_BYTES = 480
"""Of server names in search_tools' description, since some clients drop `instructions`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Showing:
    """How it is decided what agents are shown, and in which order."""

    certainty: Certainty
    explorer: Explorer
    prior: Prior
    names_bytes: int = NAMES_BYTES
    """Room for server names in search_tools' description."""


class SearchTools:
    name = "search_tools"

    def __init__(self, gateway: Sight, showing: Showing, wait_s: float) -> None:
        self._gateway = gateway
        self._showing = showing
        self._wait_s = wait_s

    def definition(self) -> dict[str, Any]:
        room, servers = self._showing.names_bytes, self._showing.prior.order(self._gateway.catalog.servers)
        names = f" Servers: {names_line(servers, room)}" if room else ""
        return definition(
            self.name,
            f"Find tools by purpose; task: user's own words.{names}",
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
        query = str(arguments["query"])
        if not query.strip():
            raise InvalidArguments("query: say in a few words what you want to do")
        asked = max(1, min(MAX_FOUND, int(arguments["limit"]))) if "limit" in arguments else None
        built = await self._gateway.router(self._wait_s)
        wanted = arguments.get("servers")
        within = frozenset(built.catalog.server(name).written for name in wanted) if wanted else None
        task, history, began = arguments.get("task"), _history(request.task), time.perf_counter()
        ranking = await built.ranker.rank(
            Query(query, task, within, history=history, episode=request.task.episode.id, step=request.caller.step_id),
            CANDIDATES,
        )
        duration_ms = (time.perf_counter() - began) * 1000
        # The router may be of a moment ago; what has been refused or changed since must not be shown.
        tools = self._gateway.catalog.tools
        candidates = remembering(
            [found for found in ranking.tools if found.tool in tools and math.isfinite(found.score)], history
        )
        scores = [found.score for found in candidates]
        decided = cut(scores, ranking.policy, query, asked, DEFAULT_FOUND, self._showing.certainty)
        ordered = self._order([found.tool for found in candidates[: decided.count]], request)
        target = request.caller.target
        target.revealed.extend(Revealed(tool=tool, how="signature") for tool in ordered.tools)
        target.decision = Decision(
            policy=ranking.policy,
            adapter=ranking.adapter,
            query=query,
            task=task,
            servers=None if within is None else tuple(sorted(within)),
            candidates=tuple((found.tool, found.score) for found in candidates),
            shown=ordered.tools,
            propensities=ordered.propensities,
            degraded=ranking.degraded,
            asked=asked,
            entropy=decided.entropy,
            sure=decided.sure,
            explored=ordered.explored,
            duration_ms=duration_ms,
        )
        lines = [_found(tools[tool], self._gateway) for tool in ordered.tools]
        notes: list[str] = []
        if ranking.degraded is not None:
            notes.append(f"The router is {ranking.degraded}; this ranking is {ranking.policy}.")
        seen, written = self._gateway.catalog.server_names, self._gateway.catalog.written_servers
        if starting := self._gateway.pool.first_listings & seen:
            notes.append(f"{len(starting)} of {len(seen)} servers still starting; search again later.")
        if not lines:
            notes.append("Nothing found. Try other words, or list_servers() and list_tools(server).")
        else:
            best = [name for name in ranking.servers if name in written][:BEST_SERVERS]
            if not decided.sure and len(best) > 1:
                # A task of several steps may need servers whose tools are not among the first.
                lines.append(f"Servers that fit best: {', '.join(best)}")
            lines.append(f'Next: describe_tools(["..."]), then call_tool.{_certainty(decided, asked, len(candidates))}')
        return text_result("\n".join([*notes, *lines]))

    def _order(self, best: Sequence[str], request: Request) -> Ordered:
        """What is not written down teaches nothing, so nothing is left to chance there."""
        if request.task.level is not Level.FULL:
            return Ordered(tuple(best), None, explored=False)
        return self._showing.explorer.order(best, request.caller.step_id)


def _certainty(decided: Cut, asked: int | None, candidates: int) -> str:
    """How sure the router is of what is shown, where that is of use."""
    if decided.sure:
        return SURE if asked is None and decided.count < candidates else ""
    return UNSURE if decided.count > 1 else ""


def _history(task: Task) -> History:
    trail = task.trail
    return History(searched=tuple(trail.searched), revealed=tuple(trail.revealed), called=tuple(trail.called))


class ListServers:
    name = "list_servers"

    def __init__(self, gateway: Sight) -> None:
        self._gateway = gateway

    def definition(self) -> dict[str, Any]:
        return definition(self.name, "Servers and their state.", {"page": INTEGER})

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
        return definition(self.name, "Tools of one server.", {"server": STRING, "page": INTEGER}, ("server",))

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
