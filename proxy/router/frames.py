"""What the gateway and its router's process say to each other: JSON objects, each behind four bytes of length.

Above: process.py and worker.py. Below: the catalogue's records. Of a server goes over what rankers read: names, what it
is for, descriptions of tools, names and descriptions of their parameters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from proxy.catalog.records import ServerRecord, ToolRecord
from proxy.router.base import History, Query, Ranked
from proxy.router.lexical import MAX_PARAMETERS, MAX_QUERY_CHARS

HEAD_BYTES = 4
MAX_BYTES = 256 << 20
"""Of one message: no server's tools are that long."""
MAX_HISTORY = 64
"""The last searches and tools of a task that go over."""


def frame(message: Mapping[str, Any]) -> bytes:
    content = json.dumps(message, separators=(",", ":")).encode()
    return len(content).to_bytes(HEAD_BYTES, "big") + content


class Unframed:
    """Messages out of bytes that come in any pieces."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def take(self, content: bytes) -> Iterator[dict[str, Any]]:
        """Those that are complete now.

        Raises:
            ValueError: These are no messages.
        """
        self._bytes += content
        begin = 0
        try:
            while len(self._bytes) >= begin + HEAD_BYTES:
                start = begin + HEAD_BYTES
                length = int.from_bytes(self._bytes[begin:start], "big")
                if length > MAX_BYTES:
                    raise ValueError(f"a message of {length} bytes")
                if len(self._bytes) < start + length:
                    return
                begin = start + length
                message = json.loads(self._bytes[start:begin])
                if not isinstance(message, dict):
                    raise ValueError("a message that is no object")
                yield cast("dict[str, Any]", message)
        finally:
            # Once for all of them: what is left moves to the front.
            del self._bytes[:begin]


def told_server(server: ServerRecord) -> dict[str, Any]:
    """A server as it goes over, of which `server_of` makes a record again that ranks alike."""
    return {
        "name": server.name,
        "written": server.written,
        "purpose": server.purpose,
        "tools": [
            {
                "name": tool.name,
                "written": tool.written,
                "description": tool.description,
                "parameters": _parameters(tool),
            }
            for tool in server.tools
        ],
    }


def server_of(told: Mapping[str, Any]) -> ServerRecord:
    tools = [
        ToolRecord(
            server=told["name"],
            name=tool["name"],
            written=tool["written"],
            raw={
                "name": tool["name"],
                "description": tool["description"],
                "inputSchema": {"properties": {name: {"description": text} for name, text in tool["parameters"]}},
            },
        )
        for tool in told["tools"]
    ]
    return ServerRecord(told["name"], told["written"], told["purpose"], tuple(tools), None)


def told_query(query: Query) -> dict[str, Any]:
    history = query.history
    return {
        "text": query.text[:MAX_QUERY_CHARS],
        "task": None if query.task is None else query.task[:MAX_QUERY_CHARS],
        "servers": None if query.servers is None else sorted(query.servers),
        "episode": query.episode,
        "history": {
            "searched": [text[:MAX_QUERY_CHARS] for text in history.searched[-MAX_HISTORY:]],
            "revealed": history.revealed[-MAX_HISTORY:],
            "called": history.called[-MAX_HISTORY:],
        },
    }


def query_of(told: Mapping[str, Any]) -> Query:
    return Query(
        told["text"],
        told["task"],
        None if told["servers"] is None else frozenset(told["servers"]),
        History(**{name: tuple(values) for name, values in told["history"].items()}),
        told["episode"],
    )


def told_ranked(ranked: Sequence[Ranked]) -> list[tuple[str, float]]:
    return [(found.tool, float(found.score)) for found in ranked]


def ranked_of(told: list[tuple[str, float]]) -> tuple[Ranked, ...]:
    return tuple(Ranked(tool, score) for tool, score in told)


def _parameters(tool: ToolRecord) -> list[tuple[str, str]]:
    properties = tool.input_schema.get("properties")
    if not isinstance(properties, Mapping):
        return []
    told: list[tuple[str, str]] = []
    for name, schema in list(cast("Mapping[str, Any]", properties).items())[:MAX_PARAMETERS]:
        text = cast("Mapping[str, Any]", schema).get("description") if isinstance(schema, Mapping) else None
        told.append((name, text if isinstance(text, str) else ""))
    return told
