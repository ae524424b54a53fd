"""The catalogue: an immutable snapshot of all servers and permitted tools, and the only way from a name to a tool.

Above: meta-tools and endpoint. Every path resolves names here, so what is denied is denied on all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

from rapidfuzz import process

from proxy.catalog.names import OWN_TOOLS, SERVER_LIMIT, TOOL_LIMIT, exposed_names, squashed, written_names
from proxy.catalog.records import Listing, ServerRecord, ToolRecord
from proxy.catalog.text import one_line
from proxy.errors import Denied, UnknownName

Refusal = Callable[[str, str], str | None]
"""(server, the server's own tool name) -> None, or why the tool may not be used."""
_OWN = frozenset(map(squashed, OWN_TOOLS))


@dataclass(frozen=True, slots=True)
class Source:
    """What the catalogue is told of one server."""

    name: str
    purpose: str
    listing: Listing | None
    withheld: str | None = None
    """Why nothing of it may be used; it has no listing then."""
    digest: str | None = None
    """`digest_of` its listing, where that is known already: thousands of tools take a tenth of a second."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A tool that may not be used, and why."""

    tool: ToolRecord
    reason: str


@dataclass(frozen=True)
class Catalog:
    """All servers in the order of the configuration. Replaced as a whole, never changed."""

    servers: tuple[ServerRecord, ...] = ()
    refused: Mapping[str, Refused] = field(default_factory=dict[str, Refused])
    """By written tool name."""

    @cached_property
    def tools(self) -> Mapping[str, ToolRecord]:
        return {tool.written: tool for server in self.servers for tool in server.tools}

    @cached_property
    def server_names(self) -> frozenset[str]:
        """As they are configured."""
        return frozenset(server.name for server in self.servers)

    @cached_property
    def written_servers(self) -> frozenset[str]:
        """Names as agents see them."""
        return frozenset(server.written for server in self.servers)

    @cached_property
    def exposed(self) -> Mapping[str, ToolRecord]:
        """The names of `direct` mode, in catalogue order."""
        return {exposed: self.tools[name] for exposed, name in self._exposed.items() if name in self.tools}

    @cached_property
    def hash(self) -> str:
        digest = sha256()
        for server in self.servers:
            digest.update(f"{server.name}\0{server.purpose}\0{server.digest}\0".encode("utf-8", "surrogatepass"))
        digest.update("\0".join(self.refused).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()[:16]

    def server(self, name: str) -> ServerRecord:
        """By written or configured name, case and punctuation forgiven.

        Raises:
            UnknownName: With the nearest names.
        """
        if (found := self._servers_by_name.get(name)) is not None:
            return found
        matches = [server for server in self.servers if squashed(server.written) == squashed(name)]
        if len(matches) == 1:
            return matches[0]
        raise UnknownName(
            f"no server '{name[:80]}'" + _nearest(name, [server.written for server in self.servers], "list_servers()")
        )

    def tool(self, name: str) -> ToolRecord:
        """By written name, by exposed name, by `server.tool` with the server's own spelling, or by a tool name that
        only one server has; case and punctuation forgiven.

        Tools that may not be used count as well, so that none is taken for another because that one is refused.

        Raises:
            UnknownName: With the nearest names.
            Denied: The tool exists and may not be used.
        """
        if (found := self.tools.get(name)) is not None:
            return found
        squeezed = squashed(name)
        matches = [name] if name in self.refused else self._by_full_name.get(squeezed, ())
        if not matches and squeezed not in _OWN:
            matches = self._by_tool_name.get(squeezed, ())
        usable = [match for match in matches if match in self.tools]
        if len(matches) == 1:
            if usable:
                return self.tools[usable[0]]
            raise Denied(self.refused[matches[0]].reason)
        if usable:
            raise UnknownName(f"'{name[:80]}' could be any of: {', '.join(usable[:8])}; name one of them in full")
        if matches:
            raise Denied(self.refused[matches[0]].reason)
        server = self._servers_by_name.get(name.partition(".")[0])
        if server is not None and server.withheld is not None:
            raise Denied(f"'{name[:120]}' is withheld: {server.withheld}")
        if server is not None and server.listing is None:
            raise UnknownName(f"the tools of '{server.written}' are not known yet; list_servers() says why")
        raise UnknownName(f"no tool '{name[:120]}'" + _nearest(name, self.tools, "search_tools"))

    def own_tool(self, server: ServerRecord, name: str) -> ToolRecord:
        """By the server's own name of the tool, exactly.

        Raises:
            UnknownName, Denied: As `tool` does.
        """
        if (found := self._by_own_name.get((server.name, name))) is not None:
            return found
        for refused in self.refused.values():
            if (refused.tool.server, refused.tool.name) == (server.name, name):
                raise Denied(refused.reason)
        if server.withheld is not None:
            raise Denied(f"'{name[:120]}' is withheld: {server.withheld}")
        known = [one_line(tool.name, 80) for tool in server.tools]
        raise UnknownName(f"server '{server.name}' has no tool '{name[:120]}'" + _nearest(name, known, "tools/list"))

    def only(self, servers: Set[str]) -> Catalog:
        """The same without the servers that are not among these configured names; what is left keeps its names."""
        return Catalog(
            servers=tuple(server for server in self.servers if server.name in servers),
            refused={name: refused for name, refused in self.refused.items() if refused.tool.server in servers},
        )

    @cached_property
    def _servers_by_name(self) -> Mapping[str, ServerRecord]:
        by_own = {server.name: server for server in self.servers}
        return by_own | {server.written: server for server in self.servers}

    @cached_property
    def _by_own_name(self) -> Mapping[tuple[str, str], ToolRecord]:
        return {(tool.server, tool.name): tool for tool in self.tools.values()}

    @cached_property
    def _every(self) -> Mapping[str, ToolRecord]:
        return {**self.tools, **{written: refused.tool for written, refused in self.refused.items()}}

    @cached_property
    def _exposed(self) -> Mapping[str, str]:
        # Of all tools, so that refusing one never gives its name to another.
        return exposed_names(self._every)

    @cached_property
    def _by_full_name(self) -> Mapping[str, tuple[str, ...]]:
        """Squashed names that say which server is meant -> written names."""
        names: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for written, tool in self._every.items():
            names[squashed(written)][written] = names[squashed(f"{tool.server}.{tool.name}")][written] = None
        for exposed, written in self._exposed.items():
            names[squashed(exposed)][written] = None
        return {name: tuple(written) for name, written in names.items()}

    @cached_property
    def _by_tool_name(self) -> Mapping[str, tuple[str, ...]]:
        names: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for written, tool in self._every.items():
            names[squashed(tool.name)][written] = names[squashed(written.partition(".")[2])][written] = None
        return {name: tuple(written) for name, written in names.items()}


def digest_of(listing: Listing | None) -> str:
    """Tells the tools of one listing from those of any other."""
    digest = sha256()
    for tool in listing.tools if listing is not None else ():
        digest.update(repr(tool).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def build_catalog(sources: Iterable[Source], refusal: Refusal) -> Catalog:
    """Name all tools of all servers and leave out what `refusal` forbids."""
    sources = tuple(sources)
    server_names = written_names((source.name for source in sources), SERVER_LIMIT)
    refused: dict[str, Refused] = {}
    servers: list[ServerRecord] = []
    for source in sources:
        server = server_names[source.name]
        raw_tools = {str(tool["name"]): tool for tool in source.listing.tools} if source.listing else {}
        # Named before permission is applied, so that denying one tool never renames another.
        tool_names = written_names(raw_tools, TOOL_LIMIT)
        tools: list[ToolRecord] = []
        for name, raw in raw_tools.items():
            written = f"{server}.{tool_names[name]}"
            tool = ToolRecord(server=source.name, name=name, written=written, raw=raw)
            if (reason := refusal(source.name, name)) is not None:
                refused[written] = Refused(tool, reason)
            else:
                tools.append(tool)
        servers.append(
            ServerRecord(
                name=source.name,
                written=server,
                purpose=source.purpose,
                tools=tuple(tools),
                listing=source.listing,
                withheld=source.withheld,
                digest=source.digest if source.digest is not None else digest_of(source.listing),
            )
        )
    return Catalog(servers=tuple(servers), refused=refused)


def _nearest(name: str, known: Iterable[str], how_to_list: str) -> str:
    near = [choice for choice, _, _ in process.extract(name, list(known), limit=3, score_cutoff=60)]
    return f"; did you mean {', '.join(near)}?" if near else f"; {how_to_list} shows what there is"
