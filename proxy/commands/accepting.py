"""`toolatlas tools list` and `accept`: what differs from what was accepted, and its owner's word that it is well.

Above: tools.py joins both to its group. Below: the pins and the listings that the gateway keeps; only a server that was
never listed is started for it. A gateway that serves sees within a second what is accepted here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from proxy.catalog.cache import ListingCache
from proxy.catalog.catalog import Catalog, Source, build_catalog
from proxy.catalog.names import SERVER_LIMIT, TOOL_LIMIT, written_names
from proxy.catalog.records import Listing
from proxy.catalog.text import first_sentence, one_line
from proxy.commands.local import emit, settings_for, with_gateway
from proxy.commands.servers import ConfigOption, JsonOption
from proxy.errors import UnknownName
from proxy.servers.config import ServerConfig
from proxy.servers.configfile import load
from proxy.servers.permission import Permissions
from proxy.servers.pins import Differences, PinStore
from proxy.servers.review import Review, Reviewer
from proxy.settings import Settings

NOTHING_TO_DO = 3


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of all servers without starting any."""

    catalog: Catalog
    permissions: Permissions


def known(settings: Settings, servers: Sequence[ServerConfig]) -> Known:
    """As a gateway would know it from its cache and its pins."""
    cache, reviewer = ListingCache(settings.cache_dir / "listings"), Reviewer(PinStore(settings.state_dir / "pins"))
    reviews: dict[str, Review] = {}
    sources: list[Source] = []
    for config in servers:
        if config.usable:
            listing = cache.load(config.identity)
            review = reviewer.admit(config) if listing is None else reviewer.review(config, listing)
            reviews[config.name] = review
            sources.append(Source(config.name, "", listing if review.withheld is None else None, review.withheld))
    permissions = Permissions({config.name: config for config in servers}, reviews)
    return Known(build_catalog(sources, permissions.refusal), permissions)


def list_tools(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """The tools that are known, without starting anything, and what is not as it was accepted."""
    settings = settings_for(config)
    rows = list(_rows(known(settings, load(settings.config, os.environ).servers)))

    def show() -> None:
        for row in rows:
            name = row["tool"] or row["server"]
            typer.echo(f"{name} [{row['state']}] {row['about']}" if row["state"] else f"{name}: {row['about']}")

    emit(rows, as_json, show)


def accept(
    target: Annotated[str, typer.Argument(help="SERVER or SERVER.TOOL")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be accepted.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Accept a server, or one tool of it, as it is now. A gateway that serves takes it over. Exit code 3: as it was."""
    settings = settings_for(config)
    server, rest = _server_of(target, load(settings.config, os.environ).servers)
    listing = ListingCache(settings.cache_dir / "listings").load(server.identity)
    if listing is None:
        listing = with_gateway(config, lambda app: app.gateway.inspect(server.name), only=server.name)
    tool = _own_name(rest, server, listing) if rest is not None else None
    pins = PinStore(settings.state_dir / "pins")
    # What is damaged is accepted anew as what was never accepted is.
    reviewed = Reviewer(pins).admit(server)
    pin = None if reviewed.withheld or reviewed.problem else pins.load(server)
    found = pin.differences(listing) if pin is not None else None
    accepted = [_accepted(raw, found) for raw in listing.tools if tool in (None, raw["name"])]
    accepted = [row for row in accepted if row["state"]]
    texts = list(found.texts) if found is not None and tool is None else []
    changed = bool(pin is None or accepted or texts)
    if changed and not dry_run:
        pins.accept(server, listing, tool)

    def show() -> None:
        for row in accepted:
            fields = f": {', '.join(row['fields'])}" if row["fields"] else ""
            typer.echo(f"{one_line(row['tool'], 80)} [{row['state']}{fields}] {row['about']}")
        if texts:
            typer.echo(f"what {server.name} says of itself changed: {', '.join(texts)}")
        done = "would be accepted" if dry_run else "accepted"
        typer.echo(f"{done}: {target}" if changed else f"{target} is as it was accepted", err=not changed)

    emit({"server": server.name, "accepted": changed and not dry_run, "tools": accepted, "texts": texts}, as_json, show)
    if not changed:
        raise typer.Exit(NOTHING_TO_DO)


def _accepted(raw: Mapping[str, Any], found: Differences | None) -> dict[str, Any]:
    name = str(raw["name"])
    new = found is None or name in found.new
    fields = () if found is None else found.changed.get(name, ())
    about = one_line(str(raw.get("description") or ""), 300)
    return {
        "tool": name,
        "state": "new" if new else "changed" if fields else "",
        "fields": list(fields),
        "about": about,
    }


def _rows(known: Known) -> Iterator[dict[str, Any]]:
    for server in known.catalog.servers:
        review = known.permissions.review(server.name)
        differences = review.differences
        if server.withheld is not None:
            state = "waiting" if review.waiting else "withheld"
            yield _row(server.written, None, state, server.withheld)
        elif review.problem is not None:
            yield _row(server.written, None, "not pinned", review.problem)
        elif server.listing is None:
            yield _row(server.written, None, "not listed yet", "")
        if differences.texts:
            state = "changed, withheld" if review.blocks else "changed"
            yield _row(server.written, None, state, f"what it says of itself: {', '.join(differences.texts)}")
        refused = {name: item for name, item in known.catalog.refused.items() if item.tool.server == server.name}
        for tool in sorted([*server.tools, *(item.tool for item in refused.values())], key=lambda tool: tool.written):
            fields = ", ".join(differences.changed.get(tool.name, ()))
            states = [f"changed: {fields}"] if fields else ["new"] if tool.name in differences.new else []
            if tool.written in refused:
                states.append("withheld" if tool.name in review.held_back else "denied")
            yield _row(server.written, tool.written, ", ".join(states), first_sentence(tool.description, 140))


def _row(server: str, tool: str | None, state: str, about: str) -> dict[str, Any]:
    return {"server": server, "tool": tool, "state": state, "about": one_line(about, 600)}


def _server_of(target: str, servers: Sequence[ServerConfig]) -> tuple[ServerConfig, str | None]:
    """The server that `target` names, and what follows its name; the longest name counts, for names may have dots."""
    written = written_names((server.name for server in servers), SERVER_LIMIT)
    spelled = [(name, server) for server in servers for name in (server.name, written[server.name])]
    for name, server in sorted(spelled, key=lambda pair: -len(pair[0])):
        if target == name:
            return server, None
        if target.startswith(f"{name}."):
            return server, target[len(name) + 1 :]
    there_are = ", ".join(sorted(server.name for server in servers)) or "none"
    raise UnknownName(f"no server of the configuration is meant by '{target}'; there are {there_are}")


def _own_name(name: str, server: ServerConfig, listing: Listing) -> str:
    names = written_names((str(tool["name"]) for tool in listing.tools), TOOL_LIMIT)
    # By its own name first: a tool must not be accepted under a name that another one is only written with.
    if name in names:
        return name
    for own, written in names.items():
        if written == name:
            return own
    raise UnknownName(f"server '{server.name}' has no tool '{name}'; `toolatlas tools list` shows those it has")
