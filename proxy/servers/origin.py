"""The agent behind a request to a server, as far as a server may address it: with questions and messages.

Above: endpoint/, which makes one for each request of an agent. Below: connection.py, which routes what a server says
in the middle of a call to the agent whose call it is, and to nobody else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import mcp_types as types
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError

Ask = Callable[[str, Mapping[str, Any], ProgressFnT | None], Awaitable[dict[str, Any]]]
"""Put a question (`elicitation/create`, `sampling/createMessage`, `roots/list`) with its parameters to the agent, and
return its raw answer. The third takes the progress that the agent reports meanwhile, if the server wants it. Raises
MCPError when the agent refuses or cannot be reached."""

Tell = Callable[[str, Mapping[str, Any]], Awaitable[None]]
"""Send a notification, at best: what cannot be delivered is dropped."""

QUESTIONS: Mapping[str, str] = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
"""What a server may ask, and the capability of the agent that allows it."""

RESUMING = ("inputResponses", "requestState")
"""Parameters with which a 2026-07-28 agent carries on a request that was answered with a question."""

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Severities of log messages, the least severe first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One agent at the time of one request."""

    session: str
    """Whose own connections to use."""
    modern: bool
    """Speaks 2026-07-28: a question that the server returns is passed on, and the agent calls again with the reply."""
    ask: Ask
    tell: Tell
    one_agent: bool = True
    """Whether two requests with this session are certainly of one agent. In the era without sessions they are only when
    they carry on one task; a credential may be that of several programs."""
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What a server may rely on, of what the agent declared."""
    log_level: str | None = None
    """The least severe log message it asked for. None: an initialize-era agent gets what the server sends of itself,
    one of 2026-07-28 gets none."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Headers of its request by lower-case name; a server gets those that its configuration lists. They are secrets."""

    def wants(self, level: object) -> bool:
        """Whether a log message of that level is for this agent."""
        if self.log_level is None:
            return not self.modern
        return level not in LEVELS or LEVELS.index(str(level)) >= LEVELS.index(self.log_level)

    def check(self, method: str, params: Mapping[str, Any]) -> None:
        """Raise MCPError, in words for the server, when the agent did not declare that it can be asked this."""
        capability = QUESTIONS[method]
        declared = self.capabilities.get(capability)
        if not isinstance(declared, Mapping):
            raise MCPError(types.METHOD_NOT_FOUND, f"the agent behind this call does not support {capability}")
        if method == "elicitation/create":
            kind = params.get("mode", "form")
            kinds = cast(Mapping[str, Any], declared)
            # An empty object is how clients of 2025-06-18 say that they can show forms.
            if kind not in kinds and not (kind == "form" and not kinds):
                raise MCPError(types.INVALID_PARAMS, f"the agent behind this call does not support {kind} elicitation")


def asked_of(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """What an agent can be asked."""
    return {name: capabilities[name] for name in QUESTIONS.values() if isinstance(capabilities.get(name), Mapping)}


def passed_on(capabilities: Mapping[str, Any], roots: bool) -> dict[str, Any]:
    """An agent's capabilities as far as they hold through a gateway: not for tasks, which a server that many agents
    share cannot tell apart, and for roots only where agents may name folders of this machine."""
    rest = {name: value for name, value in capabilities.items() if name not in ("tasks", "extensions")}
    extensions = capabilities.get("extensions")
    if isinstance(extensions, Mapping):
        known = cast(Mapping[str, Any], extensions)
        rest["extensions"] = {name: value for name, value in known.items() if name != TASKS_EXTENSION}
    if not roots:
        rest.pop("roots", None)
    return rest
