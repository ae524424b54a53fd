"""The `toolatlas` command: joins the subcommands and turns our errors into messages and exit codes.

Exit codes: 0 done, 1 refused or failed (the message says why), 2 wrong usage, 3 nothing to do.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib.metadata import entry_points
from typing import Annotated

import typer

from proxy import __version__
from proxy.errors import GatewayError
from proxy.router.launching import launched_early
from proxy.settings import Folders


def build() -> typer.Typer:
    """The command with all subcommands; judge and trainer add theirs through entry points."""
    from proxy.commands import (
        agent,
        broker,
        connect,
        doctor,
        episodes,
        host,
        importing,
        migrate,
        sandbox,
        serve,
        servers,
        stats,
        stdio,
        token,
        tools,
    )
    from proxy.commands.counting import count_tokens

    app = typer.Typer(
        name="toolatlas",
        help="One MCP endpoint for many servers: a compact index, schemas on request.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    app.callback()(_options)
    for module in (
        *(serve, stdio, servers, tools, importing, token, episodes, stats, migrate),
        *(sandbox, broker, host, agent, doctor),
    ):
        module.register(app)
    connect.register(app, count_tokens)
    for entry in entry_points(group="toolatlas.commands"):
        entry.load()(app)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"toolatlas {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point of the command."""
    launched = launched_early(sys.argv[1:], os.environ, Folders.from_environment(os.environ).cache_dir)
    try:
        # What is imported stays: nothing to look for garbage in, now or later.
        gc.disable()
        command = build()
        gc.freeze()
        gc.enable()
        command(obj=launched)
    except GatewayError as error:
        typer.echo(f"toolatlas: {error}", err=True)
        sys.exit(1)
    finally:
        if launched is not None:
            launched.end()


if __name__ == "__main__":
    main()
