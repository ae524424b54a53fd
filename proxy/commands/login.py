"""`toolatlas servers login` and `logout`: logs in to a server with a browser, and forgets the login again.

Above: commands/servers.py, which has the family. Below: servers/oauth_login.py. A gateway that serves meanwhile takes
the login over by itself.
"""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.to_thread
import typer

from proxy.app import App, login_store
from proxy.commands.local import emit, settings_for, with_gateway
from proxy.errors import ConfigurationError, GatewayError
from proxy.servers.config import ServerConfig
from proxy.servers.configfile import load
from proxy.servers.oauth_login import LoggedIn, log_in

ConfigOption = Annotated[Path | None, typer.Option("--config", help="The mcpServers file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer as JSON on stdout.")]
Name = Annotated[str, typer.Argument(help="Name of the server.")]


def register(family: typer.Typer) -> None:
    """Add the two commands to `toolatlas servers`."""
    family.command("login")(login)
    family.command("logout")(logout)


def login(
    name: Name,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address to open.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Log in to a remote server (OAuth). Exit code 3 when it wants no login."""
    server = _server(config, name)
    store = login_store(settings_for(config), os.environ)

    async def show(address: str) -> None:
        typer.echo(f"Log in to {name} in your browser, which has to run on this machine:\n{address}", err=True)
        if not no_browser:
            # Some browsers keep the caller until they are closed.
            await anyio.to_thread.run_sync(webbrowser.open, address, abandon_on_cancel=True)

    async def run() -> LoggedIn | None:
        return await log_in(server, store, show)

    done = anyio.run(run)
    if done is None:
        emit({"server": name, "login": None}, as_json, lambda: typer.echo(f"{name} wants no login"))
        raise typer.Exit(3)

    async def list_tools(app: App) -> int:
        return len((await app.gateway.pool.refresh(name)).tools)

    answer: dict[str, Any] = {"server": name, "issuer": done.issuer, "scope": done.scope, "renewable": done.renewable}
    try:
        answer["tools"] = with_gateway(config, list_tools, only=name)
    except GatewayError as error:
        raise GatewayError(f"the login to '{name}' is kept, but the server cannot be used with it: {error}") from error

    def say() -> None:
        typer.echo(f"logged in to {name} at {done.issuer}; {answer['tools']} tools")
        if not done.renewable:
            typer.echo("the login cannot be renewed: once it expires, log in again", err=True)

    emit(answer, as_json, say)


def logout(name: Name, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Forget the login to a server. Exit code 3 when there is none."""
    count = login_store(settings_for(config), os.environ).forget(name)
    said = f"the login to {name} is removed from this machine" if count else f"there is no login to {name}"
    emit({"server": name, "removed": count}, as_json, lambda: typer.echo(said))
    if not count:
        raise typer.Exit(3)


def _server(config: Path | None, name: str) -> ServerConfig:
    servers = {server.name: server for server in load(settings_for(config).config, os.environ).servers}
    if name not in servers:
        there_are = ", ".join(sorted(servers)) or "none"
        raise ConfigurationError(f"no server '{name}' is configured; there are {there_are}")
    return servers[name]
