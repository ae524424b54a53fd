"""`toolatlas token`: makes, lists and revokes the tokens of agents, and of people who read pages.

Above: cli.py. Below: endpoint/tokens.py. A secret goes to standard output, everything said about it to standard error.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from proxy.catalog.text import quoted
from proxy.endpoint.tokens import Scope, TokenInfo, TokenStore
from proxy.settings import Folders

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Label = Annotated[str, typer.Argument(metavar="LABEL", help="Names the agent in the log, or the person.")]


def register(app: typer.Typer) -> None:
    """Add the `token` family."""
    family = typer.Typer(help="Tokens of agents and of people.", no_args_is_help=True)
    family.command("create")(create)
    family.command("list")(show)
    family.command("revoke")(revoke)
    app.add_typer(family, name="token")


def create(
    label: Label,
    expires_days: Annotated[
        int | None,
        typer.Option("--expires-days", metavar="N", min=1, help="Valid for N days; otherwise until revoked."),
    ] = None,
    scope: Annotated[
        list[Scope] | None,
        typer.Option(
            "--scope",
            help="agent: calling tools. view: reading pages, REST, metrics. label: judging episodes. admin: all that "
            "people do. May be repeated, but agent stands alone.",
            show_default="agent",
        ),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(
            "--server", metavar="NAME", help="Only this configured server; may be repeated.", show_default="all"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token. It is shown this once."""
    scopes = tuple(scope or [Scope.AGENT])
    secret = _store().create(label, expires_days, scopes, server or None)
    if as_json:
        typer.echo(json.dumps({"label": label, "token": secret}))
        return
    typer.echo(secret)
    note = Console(stderr=True, highlight=False)
    use = (
        "agents send it as `Authorization: Bearer …`"
        if Scope.AGENT in scopes
        else "sign in with it at `/ui`; programs send it as `Authorization: Bearer …`"
    )
    note.print(f"Token of {label}. It is not shown again; {use}.", markup=False)


def show(as_json: AsJson = False) -> None:
    """List the tokens, without their secrets."""
    tokens = _store().list()
    if as_json:
        typer.echo(json.dumps([asdict(info) | {"expired": info.expired} for info in tokens], indent=2))
        return
    if not tokens:
        Console(stderr=True).print("There are no tokens: make one with `toolatlas token create LABEL`.", markup=False)
        return
    table = Table("label", "for", "servers", "created", "expires")
    for info in tokens:
        table.add_row(
            info.label,
            ", ".join(info.scopes),
            _servers(info),
            info.created_at,
            f"{info.expires_at or 'never'}{' (expired)' if info.expired else ''}",
        )
    Console().print(table)


def revoke(label: Label, as_json: AsJson = False) -> None:
    """Make a token worthless at once, also for sessions that are open."""
    _store().revoke(label)
    if as_json:
        typer.echo(json.dumps({"revoked": label}))
        return
    Console(stderr=True, highlight=False).print(f"The token of {label} is revoked.", markup=False)


def _servers(info: TokenInfo) -> str:
    if Scope.AGENT not in info.scopes:
        return "-"
    return "all" if info.servers is None else ", ".join(escape(quoted(name)) for name in info.servers)


def _store() -> TokenStore:
    return TokenStore(Folders.from_environment(os.environ).state_dir / "tokens.json")
