"""A schema that refers to elsewhere is never followed there, whoever reads it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from jsonschema_rs import ReferencingError, validator_for

from proxy.catalog.arguments import ArgumentChecker, understand
from proxy.catalog.records import ToolRecord
from proxy.catalog.schema_reader import Reader
from proxy.catalog.stubs import signature, stub

LIMIT_S = 10.0


class Door:
    """A loopback port, and whether anybody has ever knocked."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def knocked(self) -> bool:
        self._listener.setblocking(False)
        try:
            self._listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def answer(self, document: object) -> None:
        """Serve the document to the one who knocks first."""
        self._listener.settimeout(LIMIT_S)
        connection, _ = self._listener.accept()
        with connection:
            connection.recv(65536)
            body = json.dumps(document).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            connection.sendall(head.encode() + body)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door()
    yield door
    door.close()


def tool(schema: dict[str, Any]) -> ToolRecord:
    raw = {"name": "look", "description": "Looks.", "inputSchema": schema}
    return ToolRecord(server="srv", name="look", written="srv.look", raw=raw)


def read_everywhere(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    """All that the gateway does with an input schema."""
    record = tool(schema)
    assert "look" in signature(record)
    assert "look" in stub(record)
    Reader(schema).fields(schema)
    ArgumentChecker().check(record, understand(arguments, schema))


def schemas(url: str) -> list[dict[str, Any]]:
    """Every way to refer to a document elsewhere."""
    reference = {"$ref": f"{url}/schema.json"}
    return [
        reference,
        {"type": "object", "properties": {"q": reference}},
        {"type": "object", "allOf": [reference]},
        {"type": "object", "properties": {"q": {"$dynamicRef": f"{url}/schema.json#x"}}},
        {"$id": f"{url}/", "type": "object", "properties": {"q": {"$ref": "schema.json"}}},
        {"$schema": f"{url}/meta.json", "type": "object", "properties": {"q": {"type": "string"}}},
        {"type": "object", "properties": {"q": {"$ref": "#/$defs/a"}}, "$defs": {"a": reference}},
    ]


@pytest.mark.parametrize("number", range(len(schemas(""))))
def test_a_reference_to_a_server_opens_no_connection(door: Door, number: int) -> None:
    read_everywhere(schemas(door.url)[number], {"q": "x"})
    assert not door.knocked


@pytest.mark.parametrize("number", range(len(schemas(""))))
def test_a_reference_to_a_file_is_not_read(tmp_path: Path, number: int) -> None:
    # Read, it would refuse the arguments.
    for name in ("schema.json", "meta.json"):
        (tmp_path / name).write_text(json.dumps({"type": "integer"}))
    read_everywhere(schemas(tmp_path.as_uri())[number], {"q": "x"})


def test_the_door_would_notice_a_library_that_is_left_to_itself(door: Door, tmp_path: Path) -> None:
    """What the other tests rest on: without `offline` the validator's library fetches both."""
    answering = Thread(target=door.answer, args=({"type": "integer"},))
    answering.start()
    try:
        fetched = validator_for({"$ref": f"{door.url}/schema.json"})
    finally:
        answering.join(LIMIT_S)
    assert not fetched.is_valid({"q": "x"})
    (tmp_path / "schema.json").write_text('{"type": "integer"}')
    with pytest.raises((ReferencingError, ValueError)):
        validator_for({"$ref": f"{(tmp_path / 'other.json').as_uri()}"})
    assert not validator_for({"$ref": f"{tmp_path.as_uri()}/schema.json"}).is_valid({"q": "x"})
