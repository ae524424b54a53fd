"""A stand-in for one server of a catalogue file: real names, descriptions and schemas, canned results.

`python bench/targets/catalog_server.py FILE SERVER` speaks MCP of the era with sessions over stdio. Standard library
only, because hundreds of it may be started.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def tool_of(row: dict[str, Any]) -> dict[str, Any]:
    """The tool of a catalogue row as tools/list shows it."""
    schema = row["input_schema"] or {"type": "object", "properties": {}}
    return {"name": row["tool"], "description": row["tool_description"], "inputSchema": schema}


def rows_of(catalog: Path) -> list[dict[str, Any]]:
    """Rows {server, server_description, tool, tool_description, input_schema} of a JSON-lines file."""
    with catalog.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def answer(request: dict[str, Any], server: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """`result` or `error` for one request."""
    match request["method"]:
        case "initialize":
            return {
                "result": {
                    "protocolVersion": request["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": server, "version": "1"},
                    "instructions": rows[0]["server_description"],
                }
            }
        case "tools/list":
            return {"result": {"tools": [tool_of(row) for row in rows]}}
        case "tools/call":
            text = f"{request['params']['name']} was called"
            return {"result": {"content": [{"type": "text", "text": text}]}}
        case "ping":
            return {"result": {}}
        case method:
            return {"error": {"code": -32601, "message": f"no method {method}"}}


def main() -> None:
    catalog, server = sys.argv[1:]
    rows = [row for row in rows_of(Path(catalog)) if row["server"] == server]
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request and "method" in request:
            message = {"jsonrpc": "2.0", "id": request["id"], **answer(request, server, rows)}
            print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
