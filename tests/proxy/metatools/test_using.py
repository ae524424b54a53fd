"""Calling with the names that a stub shows."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.catalog.records import ToolRecord
from proxy.catalog.stubs import parameters
from proxy.metatools.calling import as_the_server_names_them

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"from": {"type": "string"}, "max-count": {"type": "integer"}, "plain": {"type": "string"}},
}
TOOL = ToolRecord(server="s", name="t", written="s.t", raw={"name": "t", "inputSchema": SCHEMA})


def test_every_name_of_the_stub_becomes_the_servers_own() -> None:
    shown = dict.fromkeys(parameters(TOOL), 1)
    assert set(shown) != set(SCHEMA["properties"])
    assert as_the_server_names_them(TOOL, shown) == dict.fromkeys(SCHEMA["properties"], 1)


@pytest.mark.parametrize("arguments", [{}, {"plain": "x"}, {"from": "a", "max-count": 1}, {"unknown": 1}])
def test_other_names_stay_as_they_are(arguments: dict[str, Any]) -> None:
    assert as_the_server_names_them(TOOL, arguments) == arguments
