"""The contract of a meta-tool, and what it is told of the request it serves.

Above: endpoint/search_mode.py lists and runs them. Their definitions are kept short on purpose: an agent pays for them
in every conversation (`make bench-tokens` is the gate).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from mcp.shared.dispatcher import ProgressFnT

from proxy.catalog.records import ToolRecord
from proxy.servers.origin import Origin
from proxy.store.recorder import Call, Decision, Level, Outcome, Revealed, new_step_id
from proxy.tasks import Task


@dataclass(slots=True)
class Target:
    """What a request came to, for the log."""

    tool: ToolRecord | None = None
    """The tool that it ended up calling, or was refused to call."""
    call: Call | None = None
    """What was sent to the tool's server and came from it, if anything was."""
    outcome: Outcome | None = None
    """Where the result alone does not tell."""
    revealed: list[Revealed] = field(default_factory=list[Revealed])
    decision: Decision | None = None
    level: Level = Level.FULL
    """The most that may be written of it."""
    on_level: Callable[[Level], None] = lambda level: None
    """Tells the task that it belongs to."""

    def of_level(self, level: Level) -> None:
        """A server is called that is logged at this level: from now on, what it says may turn up in all that follows,
        also while the call waits for a reply."""
        self.level = level
        self.on_level(level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The agent behind a request, as far as serving it needs to know."""

    agent: str
    """Label of its credential."""
    origin: Origin
    """The way back to it for servers, and whose own connections to use."""
    on_progress: ProgressFnT | None = None
    resumed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """`inputResponses` and `requestState` of a retried call."""
    target: Target = field(default_factory=Target)
    step_id: str = field(default_factory=new_step_id)
    """What this request will be in the log."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a meta-tool."""

    task: Task
    caller: Caller
    arguments: Mapping[str, Any]
    """Checked against the meta-tool's input schema."""
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The rest of the request's parameters, `_meta` for instance: for a server that is called."""


class MetaTool(Protocol):
    """One tool of the gateway itself. Failures are raised as GatewayError; the endpoint turns them into answers."""

    @property
    def name(self) -> str: ...

    def definition(self) -> dict[str, Any]:
        """The tool object for `tools/list`: name, description, inputSchema, annotations."""
        ...

    async def run(self, request: Request) -> dict[str, Any]:
        """The raw `tools/call` result."""
        ...


def definition(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    required: tuple[str, ...] = (),
    *,
    read_only: bool = True,
) -> dict[str, Any]:
    """A tool object with a flat schema; `anthropic/alwaysLoad` keeps Claude Code from hiding it behind its search."""
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": {"readOnlyHint": True} if read_only else {"destructiveHint": True},
        "_meta": {"anthropic/alwaysLoad": True},
    }


STRING: Mapping[str, str] = {"type": "string"}
INTEGER: Mapping[str, str] = {"type": "integer"}


def text_result(text: str, *, is_error: bool = False) -> dict[str, Any]:
    """A `tools/call` result of one text."""
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if is_error:
        result["isError"] = True
    return result
