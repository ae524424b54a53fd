"""All servers of a catalogue file in one process, each at its own address: real names and schemas, canned results.

`python -m bench.traffic.canned CATALOG TASKS PORT` serves the server of number N at `/N/mcp`. Above: stage.py. Below:
worlds.py. Streamable HTTP by hand, of 2025-11-25 without sessions: one JSON answer per request, since hundreds of the
SDK's servers would cost more than all that is measured. What they say of themselves is exactly what
targets/gateway.py lays into the gateway's cache: another word would have the whole catalogue built anew.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import uvicorn
from jsonschema_rs import Validator, validator_for

from bench.targets.catalog_server import rows_of, tool_of
from bench.traffic.poison import PRAISE, is_stuffed
from bench.traffic.tasks import read_work
from bench.traffic.values import draw
from bench.traffic.worlds import Worlds

logger = logging.getLogger("bench.traffic")

VERSION = "2025-11-25"
SILENT = 50
"""Percent of tools that know nothing by an empty list, and not by an error."""
Rows = Sequence[Mapping[str, Any]]
Answer = tuple[int, dict[str, Any] | None]


class CannedServer:
    """One server of the catalogue."""

    def __init__(self, name: str, rows: Rows, worlds: Worlds) -> None:
        self.name = name
        # Some catalogues name a tool twice; a listing never does.
        self.tools = {row["tool"]: tool_of(dict(row)) for row in rows}
        self.description = str(rows[0]["server_description"] or "")
        self._worlds = worlds

    def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """`result` or `error` of one request."""
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": self.name, "version": "1"}}
        match method:
            case "initialize":
                return {"result": {**about, "protocolVersion": VERSION, "instructions": self.description}}
            case "tools/list":
                return {"result": {"tools": list(self.tools.values())}}
            case "tools/call":
                text, is_error = self.call(str(params["name"]), params.get("arguments") or {})
                content = [{"type": "text", "text": text}]
                return {"result": {"content": content, "isError": is_error}}
            case "ping":
                return {"result": {}}
            case _:
                return {"error": {"code": -32601, "message": f"no method {method}"}}

    def call(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """What the tool answers, always the same for the same arguments, and whether that is an error."""
        if tool not in self.tools:
            return f"there is no tool {tool}", True
        if (problem := _problem(json.dumps(self.tools[tool]["inputSchema"], sort_keys=True), arguments)) is not None:
            return f"invalid arguments: {problem}", True
        asked, numbers = asked_of(self.tools[tool]["inputSchema"], arguments)
        if is_stuffed(self.name):
            return json.dumps({"result": PRAISE, "asked": asked}, ensure_ascii=False), False
        records = self._worlds.ask(self.name, tool, asked, numbers)
        if len(records) == 1:
            return json.dumps(records[0], ensure_ascii=False), False
        if records:
            return json.dumps({"results": records}, ensure_ascii=False), False
        if draw(f"{self.name}:{tool} silent", 100) < SILENT:
            return json.dumps({"results": []}), False
        what = ", ".join(asked[:2])[:120] or "this request"
        return f"not found: {what}", True


def asked_of(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[list[str], list[float]]:
    """The texts and the numbers that arguments ask about; choices that the schema lists are none."""
    fields = schema.get("properties")
    fields = fields if isinstance(fields, Mapping) else {}
    texts: list[str] = []
    numbers: list[float] = []
    for name, value in arguments.items():
        field = fields.get(name)
        choices = field.get("enum") if isinstance(field, Mapping) else None
        for leaf in _leaves(value):
            if isinstance(leaf, bool) or leaf is None or (choices and leaf in choices):
                continue
            if isinstance(leaf, str):
                texts.append(leaf)
            else:
                numbers.append(float(leaf))
    # A day alone names nothing.
    return [text for text in texts if not (len(text) == 10 and text[:4].isdigit() and text[4] == "-")], numbers


def application(rows: Rows, worlds: Worlds) -> Callable[[Any, Any, Any], Awaitable[None]]:
    """The ASGI application; servers are numbered as `numbered` does."""
    servers = [CannedServer(name, own, worlds) for name, own in numbered(rows)]

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = b""
        more = True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        status, content = _answered(servers, scope["method"], scope["path"], body)
        encoded = b"" if content is None else json.dumps(content, ensure_ascii=False).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(encoded)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": encoded})

    return app


def numbered(rows: Rows) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """The servers of a catalogue with their rows, in the order of their numbers."""
    for name, own in groupby(sorted(rows, key=lambda row: row["server"]), key=lambda row: row["server"]):
        yield name, list(own)


def worlds_of(rows: Rows, tasks: Path) -> Worlds:
    """Raises Missing where the file holds no tasks."""
    words = {(row["server"], row["tool"]): str(row["tool_description"] or "") for row in rows}
    return Worlds(read_work(tasks), words)


def _answered(servers: Sequence[CannedServer], verb: str, path: str, body: bytes) -> Answer:
    number = path.strip("/").partition("/")[0]
    if not path.endswith("/mcp") or not number.isdigit() or int(number) >= len(servers):
        return 404, None
    if verb != "POST":
        return 405, None
    request = json.loads(body)
    if "id" not in request:
        return 202, None
    answer = servers[int(number)].answer(request["method"], request.get("params") or {})
    return 200, {"jsonrpc": "2.0", "id": request["id"], **answer}


def _leaves(value: object) -> Iterator[str | int | float | bool | None]:
    if isinstance(value, Mapping):
        for each in value.values():  # pyright: ignore[reportUnknownVariableType]
            yield from _leaves(each)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list):
        for each in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _leaves(each)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, str | int | float | bool) or value is None:
        yield value


def _problem(schema: str, arguments: Mapping[str, Any]) -> str | None:
    validator = validator_of(schema)
    error = None if validator is None else next(iter(validator.iter_errors(dict(arguments))), None)
    return None if error is None else error.message[:200]


@cache
def validator_of(schema: str) -> Validator | None:
    """Of a schema as JSON; none where it is no usable schema, which some catalogues have."""
    try:
        return validator_for(json.loads(schema), validate_formats=False, offline=True)
    except ValueError:
        return None


def main() -> None:
    catalog, tasks, port = sys.argv[1:]
    rows = rows_of(Path(catalog))
    app = application(rows, worlds_of(rows, Path(tasks)))
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(port),
        log_level="warning",
        access_log=False,
        timeout_keep_alive=900,
        http="httptools",
    )


if __name__ == "__main__":
    main()
