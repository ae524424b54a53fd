"""A small server of invented tools, to find out what a model can do. It notes how it is called.

Above: probe.py has the tasks for it. Below: the SDK's server. What its tools answer cannot be guessed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp.server import Server, ServerRequestContext

_STRING: Mapping[str, Any] = {"type": "string"}
_NUMBER: Mapping[str, Any] = {"type": "number"}


def _tool(name: str, description: str, required: tuple[str, ...] = (), /, **properties: Any) -> types.Tool:
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    # Nobody is there to be asked for consent.
    harmless = types.ToolAnnotations(read_only_hint=True)
    return types.Tool(name=name, description=description, input_schema=schema, annotations=harmless)


TOOLS = (
    _tool(
        "count_units",
        "Count the units of an article in a warehouse.",
        ("article", "warehouse"),
        article={"type": "string", "description": "Such as AB-100."},
        warehouse=_STRING,
    ),
    _tool("list_warehouses", "List all warehouses."),
    _tool("set_price", "Change the price of an article.", ("article", "price"), article=_STRING, price=_NUMBER),
    _tool(
        "book_room",
        "Book a meeting room for a day.",
        ("room", "date", "people"),
        room=_STRING,
        date={"type": "string", "description": "YYYY-MM-DD"},
        people={"type": "integer"},
    ),
    _tool("cancel_booking", "Cancel the booking of a meeting room.", ("code",), code=_STRING),
    _tool(
        "find_employee",
        "Look up an employee by full name: number, and number of the manager.",
        ("name",),
        name=_STRING,
    ),
    _tool(
        "get_extension",
        "The telephone extension of an employee.",
        ("employee",),
        employee={"type": "string", "description": "Number of the employee, such as E-1000."},
    ),
    _tool("list_birthdays", "Birthdays of employees in a month.", ("month",), month={"type": "integer"}),
)
ANSWERS: Mapping[tuple[str, str], str] = {
    ("count_units", '{"article": "KX-417", "warehouse": "Lund"}'): '{"units": 3862}',
    ("book_room", '{"date": "2031-03-14", "people": 6, "room": "Aurora"}'): "Booked. Confirmation code: QZ-5591",
    ("find_employee", '{"name": "Ines Falk"}'): '{"number": "E-2207", "manager": "E-1040"}',
    ("get_extension", '{"employee": "E-1040"}'): '{"extension": "7719"}',
    ("get_extension", '{"employee": "E-2207"}'): '{"extension": "7304"}',
}
"""By the tool and its arguments, as JSON with sorted keys."""


@dataclass
class Toy:
    """One server, and what it was asked."""

    called: list[str] = field(default_factory=list[str])
    """Names of tools that were called with arguments that there is an answer for."""

    def server(self) -> Server[Any]:
        words = "Stock, rooms and people of a company."
        return Server("office", instructions=words, on_list_tools=self._list, on_call_tool=self._call)

    async def _list(
        self, context: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(TOOLS))

    async def _call(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        text = ANSWERS.get((params.name, json.dumps(params.arguments or {}, sort_keys=True)))
        if text is not None:
            self.called.append(params.name)
        answer = types.TextContent(text="Nothing is known of that." if text is None else text)
        return types.CallToolResult(content=[answer], is_error=text is None)
