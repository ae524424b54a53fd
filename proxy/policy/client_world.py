"""A running gateway as the world of an agent: an ordinary MCP client over streamable HTTP, with a session for the task.

Above: the command `agent` and the bench. Below: the SDK's client. Nobody can be asked anything in the middle of a call:
what needs the user's consent is denied, and the model reads that.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from proxy import __version__
from proxy.errors import ConfigurationError
from proxy.policy.base import Action, Variant

CONNECT_S = 30.0
ANSWER_S = 300.0
"""How long a call may take; servers have limits of their own, which the gateway keeps."""
CLIENT = "toolatlas-agent"


class ClientWorld:
    """Implements `World`."""

    @classmethod
    async def of(cls, client: Client) -> ClientWorld:
        """Over a client whose session is open."""
        return cls(client, await _listed(client))

    def __init__(self, client: Client, actions: tuple[Action, ...]) -> None:
        self._client = client
        self._actions = actions

    @property
    def introduction(self) -> str:
        return self._client.instructions or ""

    @property
    def actions(self) -> tuple[Action, ...]:
        return self._actions

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `World`."""
        params = types.CallToolRequestParams(name=name, arguments=dict(arguments))
        try:
            # Not by `call_tool`, which refuses results that do not fit what their server declared.
            result = await self._client.session.send_request(
                types.CallToolRequest(params=params), types.CallToolResult, request_read_timeout_seconds=ANSWER_S
            )
        except MCPError as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)


def logged_as(client_name: str) -> str:
    """The client of an episode, as the log of the gateway has it."""
    return f"{client_name} {__version__}"


@asynccontextmanager
async def connected(
    url: str, variant: Variant, token: str | None = None, *, client_name: str = CLIENT
) -> AsyncGenerator[ClientWorld]:
    """A session with the gateway whose MCP endpoint `url` is; the log knows it by `client_name`. What is raised inside
    comes out as it is.

    Raises:
        ConfigurationError: It does not answer, or refuses the token.
    """
    parts = urlsplit(url)
    mode = "direct" if variant is Variant.EAGER else "search"
    target = parts._replace(query="&".join(filter(None, (parts.query, f"mode={mode}")))).geturl()
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    info = types.Implementation(name=client_name, version=__version__)
    failure: BaseException | None = None
    refused: list[int] = []

    async def look(response: httpx2.Response) -> None:
        if response.status_code in (401, 403, 404):
            refused.append(response.status_code)

    inside = False
    try:
        async with httpx2.AsyncClient(
            headers=headers, timeout=httpx2.Timeout(CONNECT_S, read=None), event_hooks={"response": [look]}
        ) as http:
            transport = streamable_http_client(target, http_client=http, max_sse_event_size=None)
            client = Client(transport, mode="legacy", client_info=info, read_timeout_seconds=CONNECT_S)
            async with client:
                world = await ClientWorld.of(client)
                inside = True
                try:
                    yield world
                except Exception as error:
                    # Raised outside, for the client's task group would wrap it.
                    failure = error
    except Exception as error:
        if inside:
            raise
        raise ConfigurationError(_unreachable(url, refused)) from error
    if failure is not None:
        raise failure


async def _listed(client: Client) -> tuple[Action, ...]:
    actions: list[Action] = []
    cursor: str | None = None
    with anyio.fail_after(CONNECT_S):
        while True:
            page = await client.list_tools(cursor=cursor)
            for tool in page.tools:
                actions.append(Action(name=tool.name, description=tool.description or "", parameters=tool.input_schema))
            cursor = page.next_cursor
            if cursor is None:
                return tuple(actions)


def _unreachable(url: str, refused: list[int]) -> str:
    if 401 in refused or 403 in refused:
        return f"the gateway at {url} wants a token: put it into a variable and name that with --token-env"
    if refused:
        return f"there is no MCP endpoint at {url}: its address usually ends with /mcp"
    return f"no gateway answers at {url}: start it with `toolatlas serve`, or name another with --url"
