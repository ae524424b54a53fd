"""Lists everything a server offers: follows cursors to the end, cuts loops, keeps what is usable and says what is not.

Above: pool.py. One bad tool costs that tool, never its server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from proxy.catalog.records import Listing
from proxy.servers.connection import Call, ServerConnection

MAX_PAGES = 1000


async def list_server(connection: ServerConnection) -> Listing:
    """One complete `tools/list`.

    Raises:
        ServerError: As `ServerConnection.request` does.
    """
    problems: list[str] = []
    tools: dict[str, Mapping[str, Any]] = {}
    if "tools" in connection.capabilities:
        async for page in _pages(connection, problems):
            for tool in page:
                _keep(tool, tools, problems)
    return Listing(
        tools=tuple(tools.values()),
        protocol_version=connection.protocol_version,
        capabilities=connection.capabilities,
        server_info=connection.server_info,
        instructions=connection.instructions,
        problems=tuple(problems),
    )


async def _pages(connection: ServerConnection, problems: list[str]) -> AsyncIterator[list[Any]]:
    seen: set[str] = set()
    params: dict[str, Any] = {}
    for _ in range(MAX_PAGES):
        result = await connection.request(Call("tools/list", params, connection.config.start_timeout_s))
        page = result.get("tools")
        if not isinstance(page, list):
            problems.append("tools/list answered without a list of tools")
            return
        yield cast(list[Any], page)
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str) or not cursor:
            return
        if cursor in seen:
            problems.append(f"tools/list repeats its cursor; stopped after {len(seen) + 1} pages")
            return
        seen.add(cursor)
        params = {"cursor": cursor}
    problems.append(f"tools/list has more than {MAX_PAGES} pages; the rest was left out")


def _keep(tool: Any, tools: dict[str, Mapping[str, Any]], problems: list[str]) -> None:
    name = cast(dict[str, Any], tool).get("name") if isinstance(tool, dict) else None
    if not isinstance(name, str) or not name:
        problems.append("a tool without a name was left out")
    elif name in tools:
        problems.append(f"tool {name[:80]!r} is listed twice; the first one counts")
    else:
        tools[name] = cast(dict[str, Any], tool)
        if not isinstance(cast(dict[str, Any], tool).get("inputSchema"), dict):
            problems.append(f"tool {name[:80]!r} has no valid input schema; its arguments are not checked")
