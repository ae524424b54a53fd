"""What all spans have in common: names of attributes, and how a failure is told.

Above: requests.py, servers.py and steps.py. Below: the API of OpenTelemetry alone; without an SDK behind it nothing
happens. Names are those of OpenTelemetry's conventions for MCP and GenAI where these have one.

Spans hold no contents: no arguments, results, error texts or exceptions, which may quote both, and no name that an
agent made up.
"""

from __future__ import annotations

from opentelemetry.trace import Span, StatusCode

METHOD = "mcp.method.name"
PROTOCOL = "mcp.protocol.version"
SESSION = "mcp.session.id"
REQUEST_ID = "jsonrpc.request.id"
STATUS_CODE = "rpc.response.status_code"
OPERATION = "gen_ai.operation.name"
EXECUTE_TOOL = "execute_tool"
TOOL = "gen_ai.tool.name"
ERROR_TYPE = "error.type"
TRANSPORT = "network.transport"
APPLICATION_PROTOCOL = "network.protocol.name"
ADDRESS = "server.address"
PORT = "server.port"

# Ours, where the conventions have no name.
SERVER = "toolatlas.server"
MODE = "toolatlas.mode"
AGENT = "toolatlas.agent"
OUTCOME = "toolatlas.outcome"
EPISODE = "toolatlas.episode.id"
STEP = "toolatlas.step.id"

CALL = "tools/call"
TOOL_ERROR = "tool_error"
CANCELLED = "cancelled"


def fail(span: Span, kind: str) -> None:
    """The operation failed: `kind` is a class of errors, not a text."""
    span.set_attribute(ERROR_TYPE, kind)
    span.set_status(StatusCode.ERROR)


def fail_with_code(span: Span, code: int) -> None:
    """It was answered with a JSON-RPC error."""
    span.set_attribute(STATUS_CODE, str(code))
    fail(span, str(code))
