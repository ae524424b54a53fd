"""Speaks with one server on the wire: the envelope around requests, and the server's own questions and messages.

Above: connection.py. Raw, because typed models drop unknown fields and one invalid schema would fail a whole listing;
the SDK's dispatcher and session do framing, ids and negotiation. `_build_capabilities`, `_on_request` and `_on_notify`
are private names of the SDK's session: mcp is pinned below 2.4 for this.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import anyio
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions, DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from proxy import __version__
from proxy.errors import InvalidArguments
from proxy.servers.flights import Call, Flights
from proxy.servers.origin import QUESTIONS, RESUMING

logger = logging.getLogger("toolatlas.servers")

ANSWER_WITHIN_S = 300.0
"""How long a server's question may stay open at the agent."""
CLIENT_INFO = types.Implementation(name="toolatlas", version=__version__)
CLIENT_INFO_ON_THE_WIRE = {"name": CLIENT_INFO.name, "version": CLIENT_INFO.version}
RESERVED_META = "io.modelcontextprotocol/"
NOTICES = frozenset(
    {
        "notifications/tools/list_changed",
        "notifications/resources/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/updated",
    }
)
"""About the server, not about a call."""
_DONE_BELOW = frozenset({"notifications/cancelled", "notifications/progress"})
"""The dispatcher has acted on these already."""

SEVERAL_AGENTS = (
    "several agents or calls use this connection, so it is not known whom to ask. By default each agent that can "
    "answer has a connection of its own from the next call on: call again"
)


class PeerSession(ClientSession):
    """The SDK's session with raw questions and notifications."""

    def __init__(
        self,
        dispatcher: JSONRPCDispatcher,
        flights: Flights,
        capabilities: Mapping[str, Any],
        on_notice: Callable[[str, Mapping[str, Any]], Awaitable[None]],
        on_asked: Callable[[], None],
    ) -> None:
        super().__init__(dispatcher=dispatcher, client_info=CLIENT_INFO)
        self._flights = flights
        self._declared = types.ClientCapabilities.model_validate(dict(capabilities))
        self._on_notice = on_notice
        self._on_asked = on_asked

    def _build_capabilities(self, version: str) -> types.ClientCapabilities:
        # Of 2026-07-28 servers each call carries the capabilities of its own agent.
        return types.ClientCapabilities() if version in MODERN_PROTOCOL_VERSIONS else self._declared

    async def _on_request(
        self, dctx: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        if method == "ping":
            return {}
        if method not in QUESTIONS:
            raise MCPError(types.METHOD_NOT_FOUND, f"the gateway does not answer {method}")
        self._on_asked()
        addressee = self._flights.addressee()
        if addressee is None or (method == "roots/list" and not self._flights.private):
            # Roots are of one agent, and a server keeps them for the connection.
            raise MCPError(types.INVALID_REQUEST, f"{method} was not passed on: {SEVERAL_AGENTS}")
        question, origin = _without_token(params or {}), addressee.origin
        origin.check(method, question)
        wants_progress = "progressToken" in ((params or {}).get("_meta") or {})
        try:
            with anyio.fail_after(ANSWER_WITHIN_S), addressee.questioned():
                return await origin.ask(method, question, dctx.progress if wants_progress else None)
        except TimeoutError:
            text = f"the agent did not answer {method} within {ANSWER_WITHIN_S:g} s"
            raise MCPError(types.REQUEST_TIMEOUT, text) from None

    async def _on_notify(
        self, dctx: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> None:
        if method in _DONE_BELOW:
            return
        if method in NOTICES:
            await self._on_notice(method, params or {})
            return
        is_log = method == "notifications/message"
        addressee = self._flights.hearer() if is_log else self._flights.addressee()
        if addressee is None:
            logger.debug("a %s of a server belongs to no call that is known and was dropped", method)
        elif not is_log or addressee.origin.wants((params or {}).get("level")):
            with addressee.telling():
                await addressee.origin.tell(method, params or {})


def addressed(call: Call, protocol_version: str, options: CallOptions) -> dict[str, Any]:
    """The parameters of a call with the envelope that the server's era wants; puts its headers into `options`."""
    params = dict(call.params)
    sent_meta = params.get("_meta")
    given = cast(dict[str, Any], sent_meta) if isinstance(sent_meta, dict) else {}
    meta = {k: v for k, v in given.items() if k != "progressToken" and not k.startswith(RESERVED_META)}
    headers = {MCP_PROTOCOL_VERSION_HEADER: protocol_version}
    if protocol_version in MODERN_PROTOCOL_VERSIONS:
        meta[types.PROTOCOL_VERSION_META_KEY] = protocol_version
        meta[types.CLIENT_INFO_META_KEY] = CLIENT_INFO_ON_THE_WIRE
        meta[types.CLIENT_CAPABILITIES_META_KEY] = dict(call.origin.capabilities) if call.origin is not None else {}
        if call.origin is not None and call.origin.log_level is not None:
            meta[types.LOG_LEVEL_META_KEY] = call.origin.log_level
        headers[MCP_METHOD_HEADER] = call.method
        headers |= _repeated(call, params)
    else:
        for key in RESUMING:
            params.pop(key, None)
    options["headers"] = headers
    params["_meta"] = meta
    return params


def _repeated(call: Call, params: Mapping[str, Any]) -> dict[str, str]:
    """What of a request has to stand in its headers too."""
    headers: dict[str, str] = {}
    name = params.get(NAME_BEARING_METHODS.get(call.method, ""))
    given = params.get("arguments")
    arguments = cast(dict[str, Any], given) if isinstance(given, dict) else {}
    wanted = x_mcp_header_map(dict(call.input_schema)) if call.input_schema is not None else {}
    try:
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
        if wanted:
            headers |= mcp_param_headers(wanted, arguments)
    except UnicodeEncodeError as error:
        raise InvalidArguments(
            "a name or argument holds half a surrogate pair, which is no text; send it whole"
        ) from error
    return headers


def _without_token(params: Mapping[str, Any]) -> dict[str, Any]:
    """A question as the agent gets it: the token is the server's, on the other connection."""
    question = dict(params)
    meta = question.get("_meta")
    if isinstance(meta, Mapping):
        rest = {key: value for key, value in cast(Mapping[str, Any], meta).items() if key != "progressToken"}
        if rest:
            question["_meta"] = rest
        else:
            del question["_meta"]
    return question
