"""`toolatlas servers`: list, add, remove and test the configured servers; login.py adds login and logout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from proxy.app import App
from proxy.catalog.cache import ListingCache
from proxy.catalog.purpose import purpose
from proxy.catalog.text import one_line
from proxy.commands import login
from proxy.commands.local import emit, settings_for, with_gateway
from proxy.errors import ConfigurationError
from proxy.servers.config import ServerConfig
from proxy.servers.configedit import add_server, remove_server
from proxy.servers.configfile import load, parse

ConfigOption = Annotated[Path | None, typer.Option("--config", help="The mcpServers file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer as JSON on stdout.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="The configured servers.", no_args_is_help=True)
    group.command("list")(list_servers)
    group.command("add")(add)
    group.command("remove")(remove)
    group.command("test")(try_server)
    login.register(group)
    app.add_typer(group, name="servers")


def list_servers(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """What is configured, and what is known of it without starting anything."""
    settings = settings_for(config)
    configuration = load(settings.config, os.environ)
    cache = ListingCache(settings.cache_dir / "listings")
    rows = [_row(server, cache) for server in configuration.servers]
    for warning in configuration.warnings:
        typer.echo(f"warning: {warning}", err=True)

    def show() -> None:
        table = Table("server", "transport", "tools", "purpose, or why it cannot be used")
        for row in rows:
            table.add_row(row["name"], row["transport"], str(row["tools"]), row["disabled_reason"] or row["purpose"])
        Console().print(table)

    emit(rows, as_json, show)


def add(
    name: Annotated[str, typer.Argument(help="Name of the server.")],
    command: Annotated[list[str] | None, typer.Argument(help="Command and arguments, after `--`.")] = None,
    url: Annotated[str | None, typer.Option(help="URL of a remote server instead of a command.")] = None,
    env: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the child process.")] = None,
    header: Annotated[list[str] | None, typer.Option(help="Name: value, sent to a remote server.")] = None,
    description: Annotated[str | None, typer.Option(help="What the server is for.")] = None,
    replace: Annotated[bool, typer.Option(help="Replace an entry of that name.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a server: `servers add time -- uvx mcp-server-time`, or `servers add docs --url https://…/mcp`."""
    if bool(command) == bool(url):
        raise ConfigurationError("give either a command after `--` or a --url")
    entry: dict[str, Any] = {"url": url} if url else {"command": (command or [""])[0], "args": (command or [])[1:]}
    if env:
        entry["env"] = dict(_pair(item, "=", "--env NAME=VALUE") for item in env)
    if header:
        entry["headers"] = dict(_pair(item, ":", "--header 'Name: value'") for item in header)
    if description:
        entry["description"] = description
    parsed = parse({"mcpServers": {name: entry}}, os.environ).servers[0]
    path = settings_for(config).config
    add_server(path, name, entry, replace=replace)
    if parsed.disabled_reason:
        typer.echo(f"warning: it cannot be used yet: {parsed.disabled_reason}", err=True)
    emit({"added": name, "config": str(path)}, as_json, lambda: typer.echo(f"added {name} to {path}"))


def remove(
    name: Annotated[str, typer.Argument(help="Name of the server.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a server from the configuration."""
    path = settings_for(config).config
    remove_server(path, name)
    emit({"removed": name, "config": str(path)}, as_json, lambda: typer.echo(f"removed {name} from {path}"))


def try_server(
    name: Annotated[str, typer.Argument(help="Name of the server.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start a server, list its tools and say what is wrong with it."""
    configured = {server.name for server in load(settings_for(config).config, os.environ).servers}
    if name not in configured:
        there_are = ", ".join(sorted(configured)) or "none"
        raise ConfigurationError(f"no server '{name}' is configured; there are {there_are}")

    async def work(app: App) -> dict[str, Any]:
        listing = await app.gateway.pool.refresh(name)
        return {
            "server": name,
            "protocol_version": listing.protocol_version,
            "server_info": dict(listing.server_info),
            "tools": [str(tool["name"]) for tool in listing.tools],
            "problems": list(listing.problems),
        }

    answer = with_gateway(config, work, only=name)

    def show() -> None:
        typer.echo(f"{name} works: protocol {answer['protocol_version']}, {len(answer['tools'])} tools")
        for tool in answer["tools"]:
            typer.echo(f"  {one_line(tool, 120)}")
        for problem in answer["problems"]:
            typer.echo(f"  problem: {problem}")

    emit(answer, as_json, show)


def _row(server: ServerConfig, cache: ListingCache) -> dict[str, Any]:
    listing = cache.load(server.identity)
    reason = server.disabled_reason or (None if server.enabled else "switched off (enabled: false)")
    return {
        "name": server.name,
        "transport": server.transport.value,
        "tools": len(listing.tools) if listing else None,
        "purpose": purpose(server.description, listing),
        "disabled_reason": reason,
    }


def _pair(item: str, separator: str, form: str) -> tuple[str, str]:
    key, found, value = item.partition(separator)
    if not found or not key.strip():
        # The item is not shown: it may well be the secret alone.
        raise ConfigurationError(f"what was given is not of the form {form}")
    return key.strip(), value.strip()
