"""Lists everything a server offers: follows cursors to the end, cuts loops, keeps what is usable and says what is not.

Above: pool.py. One bad tool costs that tool, never its server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from proxy.catalog.records import Listing
from proxy.errors import ProtocolFault
from proxy.servers.connection import ServerConnection
from proxy.servers.flights import Call

MAX_PAGES = 1000


async def list_server(connection: ServerConnection) -> Listing:
    """Complete lists of tools, resources, resource templates and prompts, as far as the server has them.

    Raises:
        ServerError: As `ServerConnection.request` does, for the tools; what fails of the rest is a problem noted.
    """
    problems: list[str] = []
    capabilities = connection.capabilities
    tools: dict[str, Mapping[str, Any]] = {}
    if "tools" in capabilities:
        await _all(connection, "tools/list", "tools", "name", tools, problems)
        for name, tool in tools.items():
            if not isinstance(tool.get("inputSchema"), dict):
                problems.append(f"tool {name[:80]!r} has no valid input schema; its arguments are not checked")
    others: dict[str, dict[str, Mapping[str, Any]]] = {"resources": {}, "resourceTemplates": {}, "prompts": {}}
    for capability, method, field, key in (
        ("resources", "resources/list", "resources", "uri"),
        ("resources", "resources/templates/list", "resourceTemplates", "uriTemplate"),
        ("prompts", "prompts/list", "prompts", "name"),
    ):
        if capability in capabilities:
            try:
                await _all(connection, method, field, key, others[field], problems)
            except ProtocolFault as fault:
                problems.append(f"{method} failed: {str(fault)[:200]}")
    return Listing(
        tools=tuple(tools.values()),
        protocol_version=connection.protocol_version,
        capabilities=capabilities,
        server_info=connection.server_info,
        instructions=connection.instructions,
        problems=tuple(problems),
        resources=tuple(others["resources"].values()),
        templates=tuple(others["resourceTemplates"].values()),
        prompts=tuple(others["prompts"].values()),
    )


async def _all(
    connection: ServerConnection,
    method: str,
    field: str,
    key: str,
    found: dict[str, Mapping[str, Any]],
    problems: list[str],
) -> None:
    what = field.removesuffix("s")
    async for page in _pages(connection, method, field, problems):
        for item in page:
            name = cast(dict[str, Any], item).get(key) if isinstance(item, dict) else None
            if not isinstance(name, str) or not name:
                problems.append(f"a {what} without a {key} was left out")
            elif name in found:
                problems.append(f"{what} {name[:80]!r} is listed twice; the first one counts")
            else:
                found[name] = cast(dict[str, Any], item)


async def _pages(
    connection: ServerConnection, method: str, field: str, problems: list[str]
) -> AsyncIterator[list[Any]]:
    seen: set[str] = set()
    params: dict[str, Any] = {}
    for _ in range(MAX_PAGES):
        result = await connection.request(Call(method, params, connection.config.start_timeout_s))
        page = result.get(field)
        if not isinstance(page, list):
            problems.append(f"{method} answered without a list of {field}")
            return
        yield cast(list[Any], page)
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str) or not cursor:
            return
        if cursor in seen:
            problems.append(f"{method} repeats its cursor; stopped after {len(seen) + 1} pages")
            return
        seen.add(cursor)
        params = {"cursor": cursor}
    problems.append(f"{method} has more than {MAX_PAGES} pages; the rest was left out")
