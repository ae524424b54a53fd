"""Values of the catalogue. Frozen; what a server sent is kept as it was sent and read through properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Listing:
    """What one server said of itself, raw: everything it lists, and the unit of the disk cache."""

    tools: tuple[Mapping[str, Any], ...]
    """Tool objects as received; each is a mapping with a non-empty string `name`, names are unique."""
    protocol_version: str
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    server_info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    instructions: str | None = None
    problems: tuple[str, ...] = ()
    """What had to be left out or cut, one sentence each."""
    resources: tuple[Mapping[str, Any], ...] = ()
    """Each with a string `uri`."""
    templates: tuple[Mapping[str, Any], ...] = ()
    """Each with a string `uriTemplate`."""
    prompts: tuple[Mapping[str, Any], ...] = ()
    """Each with a non-empty string `name`."""
    asks: bool = False
    """The server has put questions to agents, so those that can answer get a connection of their own."""


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """One tool of one server. `written` is what agents read and write, `server.tool`; `name` is the server's own."""

    server: str
    """Name of the server in the configuration."""
    name: str
    """The server's own name of the tool, sent back to it unchanged."""
    written: str
    """`server.tool`, both parts Python identifiers."""
    raw: Mapping[str, Any]

    @property
    def description(self) -> str:
        text = self.raw.get("description")
        return text if isinstance(text, str) else ""

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """The raw input schema; empty where the server sent none or something that is not an object."""
        schema = self.raw.get("inputSchema")
        return cast(Mapping[str, Any], schema) if isinstance(schema, Mapping) else {}

    @property
    def output_schema(self) -> Mapping[str, Any] | None:
        schema = self.raw.get("outputSchema")
        return cast(Mapping[str, Any], schema) if isinstance(schema, Mapping) else None

    @property
    def annotations(self) -> Mapping[str, Any]:
        value = self.raw.get("annotations")
        return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """One server and its permitted tools."""

    name: str
    """Name in the configuration."""
    written: str
    """The name agents read and write: a Python identifier."""
    purpose: str
    """One clean line for the index."""
    tools: tuple[ToolRecord, ...]
    listing: Listing | None
    """None until the server has been listed once."""
    withheld: str | None = None
    """Why nothing of it is shown; None when it is not withheld."""
    digest: str = ""
    """Tells its tools from those of any other listing."""
