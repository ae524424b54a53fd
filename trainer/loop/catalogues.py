"""A catalogue of the log as the router reads one: what was there to choose from when the rows were logged.

Above: preparing.py and runs.py, which keeps it beside the rows. Below: the store's catalogues.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proxy.catalog.records import ServerRecord, ToolRecord
from proxy.errors import ConfigurationError
from proxy.store.catalogues import catalogue
from proxy.store.database import Database


async def servers_of(database: Database, hashed: str) -> tuple[ServerRecord, ...]:
    """The servers of the catalogue of this hash, with all tools whose definition is there, in its order.

    Raises:
        ConfigurationError: It was never written.
    """
    found = await catalogue(database, hashed)
    if found is None:
        raise ConfigurationError(
            f"the catalogue {hashed} was never written: the gateway was ended too early; let it run, and log more"
        )
    tools: defaultdict[str, list[ToolRecord]] = defaultdict(list)
    for written, its in found.definitions.items():
        record = ToolRecord(server=its.server, name=its.tool, written=written, raw=its.definition)
        tools[its.server].append(record)
    return tuple(
        ServerRecord(
            name=each.name,
            written=each.written,
            purpose=each.purpose,
            tools=tuple(tools[each.name]),
            listing=None,
        )
        for each in found.servers
    )


def write_servers(path: Path, servers: Sequence[ServerRecord]) -> None:
    """One server a line."""
    lines = [
        json.dumps(
            {
                "name": server.name,
                "written": server.written,
                "purpose": server.purpose,
                "tools": [[tool.name, tool.written, tool.raw] for tool in server.tools],
            }
        )
        for server in servers
    ]
    path.write_text("".join(f"{line}\n" for line in lines), "ascii")


def read_servers(path: Path) -> tuple[ServerRecord, ...]:
    """What `write_servers` wrote.

    Raises:
        ConfigurationError: It is not there, or damaged.
    """
    try:
        return tuple(_server(json.loads(line)) for line in path.read_text("ascii").splitlines())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"the catalogue {path} cannot be read ({error}); train again") from error


def _server(said: Mapping[str, Any]) -> ServerRecord:
    tools = tuple(
        ToolRecord(server=said["name"], name=name, written=written, raw=raw) for name, written, raw in said["tools"]
    )
    return ServerRecord(name=said["name"], written=said["written"], purpose=said["purpose"], tools=tools, listing=None)
