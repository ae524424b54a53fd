"""Resources and prompts of all servers at one address, for the modes that show many servers.

Above: modes.py. They are listed from the catalogue, so that asking for the list starts no server, and addressed without
collisions: a resource as `toolatlas://SERVER/URI-OF-THE-SERVER`, a prompt as `server__prompt`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from proxy.catalog.catalog import Catalog
from proxy.catalog.names import TOOL_LIMIT, exposed_names, written_names
from proxy.catalog.records import ServerRecord
from proxy.errors import InvalidArguments, UnknownName

SCHEME = "toolatlas://"
PAGE = 200
LISTS: Mapping[str, str] = {
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
ADDRESSED = frozenset({"resources/read", "prompts/get", "completion/complete"})


def address(server: ServerRecord, uri: str) -> str:
    """The address of a server's resource, or of its template."""
    return f"{SCHEME}{server.written}/{uri}"


def resource(catalog: Catalog, uri: object) -> tuple[ServerRecord, str]:
    """The server and its own URI behind an address. A URI as a server wrote it, in a result for instance, is understood
    when only one server lists it.

    Raises:
        UnknownName: No such server or resource, or several that could be meant.
    """
    if not isinstance(uri, str):
        raise InvalidArguments("uri: give the address of a resource as a string; resources/list shows them")
    if uri.startswith(SCHEME):
        name, _, own = uri.removeprefix(SCHEME).partition("/")
        return catalog.server(name), own
    listing = [
        server
        for server in catalog.servers
        if server.listing is not None and any(each.get("uri") == uri for each in server.listing.resources)
    ]
    if len(listing) == 1:
        return listing[0], uri
    some = ", ".join(address(server, uri) for server in listing[:5])
    how = f"say which: {some}" if some else f"write {SCHEME}SERVER/ before the URI of a server's resource"
    raise UnknownName(f"no resource {uri[:200]!r}; {how}")


def prompt(catalog: Catalog, name: object) -> tuple[ServerRecord, str]:
    """The server and its own name of a prompt.

    Raises:
        UnknownName: There is none.
    """
    found = _prompts(catalog).get(name) if isinstance(name, str) else None
    if found is None:
        raise UnknownName(f"no prompt {str(name)[:120]!r}; prompts/list shows what there is")
    server, raw = found
    return server, str(raw["name"])


def listed(catalog: Catalog, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """One page of a list of `LISTS`.

    Raises:
        InvalidArguments: A cursor that was not given out.
    """
    items: Sequence[Mapping[str, Any]]
    if method == "prompts/list":
        items = [{**raw, "name": exposed} for exposed, (_, raw) in _prompts(catalog).items()]
    elif method == "resources/list":
        items = [
            {**raw, "uri": address(server, str(raw["uri"]))}
            for server in catalog.servers
            for raw in (server.listing.resources if server.listing is not None else ())
        ]
    else:
        items = [
            {**raw, "uriTemplate": address(server, str(raw["uriTemplate"]))}
            for server in catalog.servers
            for raw in (server.listing.templates if server.listing is not None else ())
        ]
    cursor = params.get("cursor", "0")
    if not isinstance(cursor, str) or not (cursor.isdecimal() and len(cursor) < 10):
        raise InvalidArguments("cursor: this is none that was given out; list again from the start")
    start, end = int(cursor), int(cursor) + PAGE
    more = {"nextCursor": str(end)} if end < len(items) else {}
    return {LISTS[method]: list(items[start:end]), **more}


def addressed(catalog: Catalog, method: str, params: Mapping[str, Any]) -> tuple[ServerRecord, dict[str, Any]]:
    """Which server a request of `ADDRESSED` is for, and its parameters in that server's own words.

    Raises:
        UnknownName, InvalidArguments: There is no such resource or prompt.
    """
    if method == "resources/read":
        server, uri = resource(catalog, params.get("uri"))
        return server, {**params, "uri": uri}
    if method == "prompts/get":
        server, name = prompt(catalog, params.get("name"))
        return server, {**params, "name": name}
    given = params.get("ref")
    ref = cast(dict[str, Any], given) if isinstance(given, dict) else {}
    if ref.get("type") == "ref/prompt":
        server, name = prompt(catalog, ref.get("name"))
        return server, {**params, "ref": {**ref, "name": name}}
    server, uri = resource(catalog, ref.get("uri"))
    return server, {**params, "ref": {**ref, "uri": uri}}


def capabilities(catalog: Catalog, tools_change: bool) -> dict[str, Any]:
    """What an agent is told that it may ask for: of resources and prompts only what a server has or may turn out to
    have, since some clients give the model extra tools for them."""
    declared: dict[str, Any] = {"tools": {"listChanged": True} if tools_change else {}, "logging": {}}
    listings = [server.listing for server in catalog.servers]
    unknown = any(listing is None for listing in listings)
    known = {name for listing in listings if listing is not None for name in listing.capabilities}
    if unknown or "resources" in known:
        declared["resources"] = {"subscribe": True, "listChanged": True}
    if unknown or "prompts" in known:
        declared["prompts"] = {"listChanged": True}
    if unknown or "completions" in known:
        declared["completions"] = {}
    return declared


def with_addresses(server: ServerRecord, result: dict[str, Any]) -> dict[str, Any]:
    """A `resources/read` result under the addresses that the agent reads by."""
    contents = result.get("contents")
    if not isinstance(contents, list):
        return result
    known: list[Any] = [
        {**cast(dict[str, Any], item), "uri": address(server, cast(dict[str, Any], item)["uri"])}
        if isinstance(item, dict) and isinstance(cast(dict[str, Any], item).get("uri"), str)
        else item
        for item in cast(list[Any], contents)
    ]
    return {**result, "contents": known}


def _prompts(catalog: Catalog) -> dict[str, tuple[ServerRecord, Mapping[str, Any]]]:
    """By exposed name."""
    found: dict[str, tuple[ServerRecord, Mapping[str, Any]]] = {}
    for server in catalog.servers:
        prompts = {str(raw["name"]): raw for raw in (server.listing.prompts if server.listing is not None else ())}
        for name, written in written_names(prompts, TOOL_LIMIT).items():
            found[f"{server.written}.{written}"] = (server, prompts[name])
    return {exposed: found[written] for exposed, written in exposed_names(found).items()}
