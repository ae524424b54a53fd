"""What a client's servers cost its model before anything is asked: the figures that `connect` shows.

Counted as everywhere here: UTF-8 bytes / 4 of the tool objects and of our instructions, as a client receives them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp import Client

from proxy.app import App
from proxy.clients.base import Entry
from proxy.commands.local import settings_for, with_configuration
from proxy.errors import GatewayError
from proxy.servers.configfile import Configuration, load, parse

LIST_WITHIN_S = 60.0


def count_tokens(seen: Mapping[str, Entry], behind: Mapping[str, Entry] | None, config: Path | None) -> int | None:
    """Tokens of all tools of the servers in `seen`, and where `behind` is given of the gateway in front of those and of
    what it is configured for already. None where a server cannot be listed: a figure without it would mislead."""
    try:
        tokens = _of_servers(parse({"mcpServers": dict(seen)}, os.environ), config) if seen else 0
        if behind is None or tokens is None:
            return tokens
        return tokens + _of_gateway(behind, config)
    except GatewayError:
        return None


def _of_servers(configuration: Configuration, config: Path | None) -> int | None:
    async def work(app: App) -> int | None:
        await app.gateway.pool.wait_for_first_listings(LIST_WITHIN_S)
        servers = app.gateway.catalog.servers
        if any(server.listing is None for server in servers):
            return None
        return sum(_tokens(dict(tool.raw)) for server in servers for tool in server.tools)

    return with_configuration(settings_for(config), configuration, work)


def _of_gateway(behind: Mapping[str, Entry], config: Path | None) -> int:
    settings = settings_for(config)
    configured = load(settings.config, os.environ).servers if settings.config.exists() else ()
    moved = parse({"mcpServers": dict(behind)}, os.environ).servers
    names = {server.name for server in moved}
    servers = (*(server for server in configured if server.name not in names), *moved)

    async def work(app: App) -> int:
        await app.gateway.pool.wait_for_first_listings(LIST_WITHIN_S)
        async with Client(app.server) as client:
            tools = (await client.list_tools()).tools
            dumped = [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in tools]
            return _tokens(client.instructions or "") + _tokens(dumped)

    return with_configuration(settings, Configuration(None, servers, ()), work)


def _tokens(value: Any) -> int:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "surrogatepass")) // 4
