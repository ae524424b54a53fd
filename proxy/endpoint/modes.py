"""What an agent sees behind one address: meta-tools (`search`), all tools (`direct`), or one server as it is.

Above: server.py, which asks the mode of a request for tools, instructions, calls and the rest of MCP. All modes resolve
names in the same catalogue and call through the same `ToolCaller`, so permissions hold alike. Search is in
search_mode.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from proxy.catalog.arguments import understand
from proxy.catalog.purpose import index_lines
from proxy.catalog.records import ServerRecord
from proxy.endpoint import aggregate
from proxy.endpoint.shown_tools import DirectTools, passed_through
from proxy.errors import InvalidArguments, UnknownName
from proxy.metatools.base import Caller
from proxy.metatools.calling import ToolCaller
from proxy.servers.flights import Call
from proxy.servers.permission import least_level
from proxy.sight import Sight
from proxy.tasks import Task

BeginTask = Callable[[str | None], Task]
"""The task of a request, given the id of one that its arguments name; UnknownName where that does not run."""

INDEX_BYTES = 1_700
"""Claude Code cuts instructions at 2 KB; every byte here is paid for in every conversation."""
PASSED_CAPABILITIES = frozenset({"resources", "prompts", "completions", "logging", "experimental"})


class Mode(Protocol):
    """One way to show the catalogue. All methods raise GatewayError; `list_tools` gives raw tool objects."""

    @property
    def label(self) -> str: ...

    @property
    def server(self) -> str | None:
        """The configured name of the only server behind it, if there is only one."""
        ...

    @property
    def tools_change(self) -> bool:
        """Whether the list of tools changes with the catalogue."""
        ...

    async def list_tools(self, caller: Caller) -> list[Mapping[str, Any]]: ...

    async def instructions(self) -> str | None: ...

    async def introduced(self, introduction: dict[str, Any]) -> dict[str, Any]:
        """The answer to `initialize` or `server/discover`, with what is behind this mode put in."""
        ...

    async def call(
        self, name: str, arguments: Any, params: Mapping[str, Any], caller: Caller, task: BeginTask
    ) -> dict[str, Any]: ...

    async def relay(self, method: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any] | None:
        """The raw answer to any other request of MCP; None when it is not one that is passed on."""
        ...

    async def resource(self, uri: Any) -> tuple[str, str]:
        """The configured server of a resource, and the URI that the server knows it by."""
        ...


class ManyServers:
    """What the modes that show many servers have in common: resources, prompts and completion of all of them."""

    server = None

    def __init__(self, gateway: Sight) -> None:
        self._gateway = gateway

    async def relay(self, method: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any] | None:
        catalog = self._gateway.catalog
        if method in aggregate.LISTS:
            return aggregate.listed(catalog, method, params)
        if method not in aggregate.ADDRESSED:
            return None
        server, own = aggregate.addressed(catalog, method, params)
        result = await _passed_on(self._gateway, server.name, method, own, caller)
        return aggregate.with_addresses(server, result) if method == "resources/read" else result

    async def resource(self, uri: Any) -> tuple[str, str]:
        server, own = aggregate.resource(self._gateway.catalog, uri)
        return server.name, own


class DirectMode(ManyServers):
    """Every permitted tool under a name that every client accepts."""

    label = "direct"
    tools_change = True

    def __init__(self, gateway: Sight, caller: ToolCaller, wait_s: float) -> None:
        """`wait_s`: how long a call waits for servers that are being listed for the first time."""
        super().__init__(gateway)
        self._caller = caller
        self._wait_s = wait_s
        self._tools = DirectTools()

    async def list_tools(self, caller: Caller) -> list[Mapping[str, Any]]:
        return self._tools.of(self._gateway.catalog)

    async def instructions(self) -> str:
        index = index_lines(self._gateway.catalog.servers, INDEX_BYTES - 100)
        return "Tools of several MCP servers, named server__tool:\n" + "\n".join(index.lines)

    async def introduced(self, introduction: dict[str, Any]) -> dict[str, Any]:
        return {**introduction, "capabilities": aggregate.capabilities(self._gateway.catalog, tools_change=True)}

    async def call(
        self, name: str, arguments: Any, params: Mapping[str, Any], caller: Caller, task: BeginTask
    ) -> dict[str, Any]:
        exposed = self._gateway.catalog.exposed.get(name)
        tool = exposed if exposed is not None else await self._gateway.tool(name, self._wait_s)
        task(None)
        return await self._caller.call(tool, understand(arguments, tool.input_schema), caller, params=params)


class ServerMode:
    """One server passed through: its own names, its own words, its own checks."""

    label = "server"
    tools_change = True

    def __init__(self, gateway: Sight, caller: ToolCaller, name: str) -> None:
        self._gateway = gateway
        self._caller = caller
        self._name = name

    @property
    def server(self) -> str:
        try:
            return self._gateway.catalog.server(self._name).name
        except UnknownName:
            # Removed while sessions to it are open; whatever is asked says so.
            return self._name

    async def record(self) -> ServerRecord:
        """The server, listed now if it never was.

        Raises:
            GatewayError: It cannot be reached.
        """
        server = self._gateway.catalog.server(self._name)
        if server.listing is None:
            await self._gateway.pool.refresh(server.name)
            server = self._gateway.catalog.server(self._name)
        return server

    async def list_tools(self, caller: Caller) -> list[Mapping[str, Any]]:
        return [passed_through(tool.raw, caller.origin.modern) for tool in (await self.record()).tools]

    async def instructions(self) -> str | None:
        listing = (await self.record()).listing
        return listing.instructions if listing else None

    async def call(
        self, name: str, arguments: Any, params: Mapping[str, Any], caller: Caller, task: BeginTask
    ) -> dict[str, Any]:
        server = await self.record()
        # Only now: listing the server has replaced the catalogue.
        tool = self._gateway.catalog.own_tool(server, name)
        task(None)
        return await self._caller.call(tool, arguments, caller, check=False, params=params)

    async def introduced(self, introduction: dict[str, Any]) -> dict[str, Any]:
        listing = (await self.record()).listing
        if listing is None:
            return introduction
        passed_on = {key: value for key, value in listing.capabilities.items() if key in PASSED_CAPABILITIES}
        return {
            **introduction,
            "capabilities": {**passed_on, "tools": {"listChanged": True}},
            "serverInfo": dict(listing.server_info) or introduction.get("serverInfo"),
        }

    async def relay(self, method: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """Whatever it is, the server answers it."""
        return await _passed_on(self._gateway, (await self.record()).name, method, params, caller)

    async def resource(self, uri: Any) -> tuple[str, str]:
        if not isinstance(uri, str):
            raise InvalidArguments("uri: give the URI of a resource as a string")
        return (await self.record()).name, uri


async def _passed_on(
    gateway: Sight, server: str, method: str, params: Mapping[str, Any], caller: Caller
) -> dict[str, Any]:
    config = gateway.pool.configs[server]
    caller.target.of_level(least_level(config))
    call = Call(
        method, {**params, **caller.resumed}, config.timeout_s, origin=caller.origin, on_progress=caller.on_progress
    )
    return await gateway.pool.request(server, call)
