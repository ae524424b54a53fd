"""Our gateway as a target: started on a temporary configuration, with what its servers offer known beforehand.

Above: the benches. Stand-ins lie in the gateway's disk cache, so hundreds of them cost no process until one is called.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from bench.measure import Missing, Program, free_port
from bench.targets import catalog_server
from proxy.catalog.cache import ListingCache
from proxy.catalog.records import Listing
from proxy.servers.configfile import load


def write_catalog(folder: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """A catalogue file of these rows."""
    path = folder / "catalog.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def stand_ins(catalog: Path) -> dict[str, dict[str, object]]:
    """`mcpServers` with one stand-in for each server of a catalogue file."""
    program = str(Path(catalog_server.__file__))
    servers = dict.fromkeys(row["server"] for row in catalog_server.rows_of(catalog))
    return {name: {"command": sys.executable, "args": [program, str(catalog), name]} for name in servers}


def listings(catalog: Path) -> dict[str, Listing]:
    """What each server of a catalogue file says of itself, as its stand-in says it."""
    rows = sorted(catalog_server.rows_of(catalog), key=lambda row: row["server"])
    known: dict[str, Listing] = {}
    for name, group in groupby(rows, key=lambda row: row["server"]):
        own = list(group)
        hello = catalog_server.answer({"method": "initialize", "params": {"protocolVersion": ""}}, name, own)["result"]
        # Some catalogues name a tool twice; a listing never does.
        tools = {row["tool"]: catalog_server.tool_of(row) for row in own}
        known[name] = Listing(
            tools=tuple(tools.values()),
            protocol_version="2025-11-25",
            capabilities=hello["capabilities"],
            server_info=hello["serverInfo"],
            instructions=hello["instructions"],
        )
    return known


def start_gateway(
    folder: Path,
    servers: Mapping[str, Mapping[str, object]],
    known: Mapping[str, Listing] | None = None,
    sandbox: str = "off",
    environ: Mapping[str, str] | None = None,
) -> Program:
    """Starts it with its own state and cache in `folder`; `known` are the listings it has from an earlier run."""
    folder.mkdir(exist_ok=True)
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}), "utf-8")
    cache = folder / "cache"
    store = ListingCache(cache / "listings")
    for server in load(config, os.environ).servers:
        if known and server.name in known:
            store.store(server.identity, known[server.name])
    return start_configured(config, folder, {"TOOLATLAS_CACHE_DIR": str(cache), **(environ or {})}, sandbox)


def start_configured(config: Path, folder: Path, environ: Mapping[str, str], sandbox: str = "off") -> Program:
    """Starts it on an existing configuration file, with its state and its log in `folder`; without a sandbox and a
    router's process, which would take part in what is measured."""
    if importlib.util.find_spec("proxy.cli") is None:
        raise Missing("this checkout has no proxy/cli.py, so there is no gateway to start")
    port = free_port()
    serve = [sys.executable, "-m", "proxy.cli", "serve", "--config", str(config), "--sandbox", sandbox]
    return Program(
        [*serve, "--host", "127.0.0.1", "--port", str(port)],
        port,
        folder / "gateway.log",
        {"TOOLATLAS_STATE_DIR": str(folder / "state"), "TOOLATLAS_ROUTER": "lexical", **environ},
    )
