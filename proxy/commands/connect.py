"""`toolatlas connect`: our entry in the file of an MCP client, and with --replace instead of all its other servers.

Above: cli.py. Below: clients/connecting.py. Questions and the diff go to stderr, stdout has the answer alone.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Protocol

import typer
from rich.console import Console

from proxy.clients.backup import Backups
from proxy.clients.base import OWN_NAME, Entry
from proxy.clients.connecting import ACTION, Connection, ConnectPlan, apply_connect, plan_connect
from proxy.clients.known import CLIENTS
from proxy.commands.importing import (
    NOTHING_TO_DO,
    OWN_URL,
    OWN_URLS,
    ConfigOption,
    ForceOption,
    JsonOption,
    PathOption,
    UndoOption,
    YesOption,
    confirm,
    describe_import,
    finish,
    known,
    show_import,
    stderr,
    surroundings,
    take_back,
)
from proxy.settings import Folders


class Count(Protocol):
    """As CountTokens, for the gateway of a configuration file."""

    def __call__(
        self, seen: Mapping[str, Entry], behind: Mapping[str, Entry] | None, config: Path | None
    ) -> int | None: ...


def register(app: typer.Typer, count: Count | None = None) -> None:
    """Add the command. `count` tells what the client's servers cost its model."""

    def connect(
        client: Annotated[
            str, typer.Argument(metavar="CLIENT", help="One of: " + ", ".join(each.key for each in CLIENTS) + ".")
        ],
        url: Annotated[
            str | None, typer.Option("--url", metavar="URL", help=f"MCP endpoint of the gateway; else {OWN_URL}.")
        ] = None,
        stdio: Annotated[
            bool, typer.Option("--stdio", help="Let the client start `toolatlas stdio` instead of giving it a URL.")
        ] = False,
        token_env: Annotated[
            str | None,
            typer.Option("--token-env", metavar="VAR", help="Environment variable of the client that holds the token."),
        ] = None,
        path: PathOption = None,
        replace: Annotated[
            bool, typer.Option("--replace", help="Import the client's other servers and take them out of its file.")
        ] = False,
        config: ConfigOption = None,
        yes: YesOption = False,
        undo: UndoOption = False,
        force: ForceOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """Connect an MCP client to the gateway. Shows what it would change and asks."""
        if url is not None and stdio:
            raise typer.BadParameter("give --url or --stdio, not both.")
        if url is not None and not url.startswith(("http://", "https://")):
            raise typer.BadParameter("--url has to begin with http:// or https://.")
        # The value is not repeated: it may be the token itself.
        if token_env is not None and not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", token_env):
            raise typer.BadParameter("--token-env is the name of an environment variable, not the token.")
        if force and not undo:
            raise typer.BadParameter("--force goes with --undo.")
        if undo and (url is not None or stdio or token_env is not None or replace):
            raise typer.BadParameter(
                "--undo takes the last change of the client's file back, and nothing else with it."
            )
        folders = Folders.from_environment(os.environ)
        backups = Backups(folders.state_dir)
        chosen = known(client)
        around = surroundings()
        file = chosen.places(around)[0].path if path is None else path.expanduser()
        if undo:
            take_back(backups, ACTION, file, force=force, as_json=as_json)
            return
        target = (config or folders.config).expanduser().absolute()
        usual = Folders.from_environment({}).config
        connection = Connection(
            url=None if stdio or (url is None and chosen.http is None) else url or OWN_URL,
            command=shutil.which(OWN_NAME) or OWN_NAME,
            config=None if target == usual else target,
            token_env=token_env,
        )
        plan = plan_connect(
            chosen,
            chosen.at(file, around),
            connection,
            config=target if replace else None,
            urls=OWN_URLS if url is None else OWN_URLS | {url},
            count_tokens=None if count is None else partial(count, config=config),
        )
        _show(plan, stderr())
        answer = _describe(plan)
        if plan.empty:
            finish({**answer, "done": False}, as_json, f"{chosen.title} is connected already: {file} stays as it is.")
            raise typer.Exit(NOTHING_TO_DO)
        imports = plan.imported is not None and not plan.imported.empty
        confirm(f"Write this to {file}" + (f" and to {target}?" if imports else "?"), yes=yes)
        backup = apply_connect(plan, backups)
        taken = f", and {len(plan.moved)} of its servers are behind the gateway now" if plan.moved else ""
        back = f"toolatlas connect {client} --undo" + ("" if path is None else f" --path {path}")
        back += ", and for what was imported: toolatlas import --undo" if imports else ""
        text = f"{chosen.title} is connected{taken}. Restart it. To take it back: {back}"
        finish({**answer, "backup": None if backup is None else str(backup), "done": True}, as_json, text)

    app.command("connect")(connect)


def _show(plan: ConnectPlan, console: Console) -> None:
    if plan.imported is not None:
        show_import(plan.imported, console)
        for name, reason in plan.kept:
            console.print(f"= {name} stays in the client's file: {reason}", style="yellow")
        before, after = (
            "unknown" if count is None else f"{count:,}" for count in (plan.tokens.before, plan.tokens.after)
        )
        console.print(f"Tokens that {plan.client.title} shows its model for tools: {before} now, {after} then.")
    for line in plan.diff.splitlines():
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        console.print(line, style=style)


def _describe(plan: ConnectPlan) -> dict[str, object]:
    return {
        "client": plan.client.key,
        "path": str(plan.path),
        "diff": plan.diff,
        "moved": list(plan.moved),
        "kept": [{"name": name, "reason": reason} for name, reason in plan.kept],
        "tokens": asdict(plan.tokens),
        "import": None if plan.imported is None else describe_import(plan.imported),
    }
