"""Every failure the gateway itself reports, named by whose fault it is and who can act on it.

GatewayError
├── AgentError             the agent can repair it; the text goes back to it as a tool error
│   ├── UnknownName        no such server, tool, result or task
│   ├── InvalidArguments   arguments that do not fit the tool's input schema
│   └── Denied             a permission of the gateway's owner forbids it
├── ServerError            a server behind the gateway failed; names the server
│   ├── ServerDown         it cannot be started, or it died
│   ├── CallTimeout        it did not answer in time
│   └── ProtocolFault      it answered with a JSON-RPC error, or with something that is not MCP
├── SandboxError           the interpreter for run_python failed, or there is none; not the code in it
│   └── SandboxBusy        all are in use now
├── ModelError             the model that works tasks cannot be asked, or answers nothing that can be read
└── ConfigurationError     the gateway's owner has to change a file or a flag
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar


class Outcome(StrEnum):
    """How a call ended. A tool's own failure (`TOOL_ERROR`) is never counted as `OK`."""

    OK = "ok"
    TOOL_ERROR = "tool_error"
    INVALID_ARGUMENTS = "invalid_arguments"
    DENIED = "denied"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    SERVER_DOWN = "server_down"
    PROTOCOL_ERROR = "protocol_error"


class GatewayError(Exception):
    """Root of everything we raise on purpose. `str(error)` is complete: what happened, and what to do."""

    outcome: ClassVar[Outcome] = Outcome.TOOL_ERROR


class AgentError(GatewayError):
    """The agent asked for something that cannot be done as asked."""

    outcome = Outcome.INVALID_ARGUMENTS


class UnknownName(AgentError):
    """A server, tool, result or task that does not exist, with the nearest real names in the text."""


class InvalidArguments(AgentError):
    """Arguments that do not fit; the text names each parameter, what was expected and what was given."""


class Denied(AgentError):
    """Forbidden by the configuration; the text names the setting."""

    outcome = Outcome.DENIED


class ServerError(GatewayError):
    """A server behind the gateway failed. `server` is its name in the configuration."""

    outcome = Outcome.SERVER_DOWN

    def __init__(self, server: str, message: str) -> None:
        super().__init__(message)
        self.server = server


class ServerDown(ServerError):
    """The server cannot be started, or its connection ended."""


class CallTimeout(ServerError):
    """The server gave neither an answer nor progress within its time limit."""

    outcome = Outcome.TIMEOUT


class ProtocolFault(ServerError):
    """The server answered with a JSON-RPC error (`code`, `data` as it sent them) or broke the protocol."""

    outcome = Outcome.PROTOCOL_ERROR

    def __init__(self, server: str, message: str, *, code: int, data: object = None) -> None:
        super().__init__(server, message)
        self.code = code
        self.data = data


class SandboxError(GatewayError):
    """The interpreter failed, or none can be had. What the code raised is no error of this kind."""

    outcome = Outcome.SERVER_DOWN


class SandboxBusy(SandboxError):
    """All interpreters are in use; whatever the task has is still there."""


class ModelError(GatewayError):
    """The model that works tasks failed; the text says where it was asked and what it said."""

    outcome = Outcome.SERVER_DOWN


class ConfigurationError(GatewayError):
    """A file, flag or environment variable that the gateway's owner has to change."""
