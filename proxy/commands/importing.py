"""`toolatlas import`: the servers of other MCP clients, taken into our configuration file.

Above: cli.py. Below: clients/importing.py. Questions and the preview go to stderr, stdout has the answer alone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from proxy.clients.backup import Backups
from proxy.clients.base import Client, Surroundings
from proxy.clients.importing import ACTION, ImportPlan, apply_import, plan_import
from proxy.clients.known import CLIENTS, find_client
from proxy.clients.masking import summary
from proxy.clients.reading import Reading, read_existing
from proxy.errors import ConfigurationError
from proxy.settings import DEFAULT_PORT, Folders

NOTHING_TO_DO = 3
OWN_URL = f"http://127.0.0.1:{DEFAULT_PORT}/mcp"
OWN_URLS = frozenset((OWN_URL,))

ClientArgument = Annotated[
    str | None,
    typer.Argument(metavar="CLIENT", help="One of: " + ", ".join(client.key for client in CLIENTS) + "."),
]
ConfigOption = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Our configuration file.")]
PathOption = Annotated[
    Path | None, typer.Option("--path", metavar="FILE", help="The client's file, where it is not in its usual place.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
UndoOption = Annotated[bool, typer.Option("--undo", help="Take the last change back.")]
ForceOption = Annotated[bool, typer.Option("--force", help="With --undo: even if what was changed since is lost.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer as JSON on stdout.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("import")(import_servers)


def import_servers(
    client: ClientArgument = None,
    every: Annotated[bool, typer.Option("--all", help="All clients that are found.")] = False,
    path: PathOption = None,
    config: ConfigOption = None,
    yes: YesOption = False,
    undo: UndoOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Import the servers of an MCP client, or of all that are installed here. Shows what it would do and asks."""
    folders = Folders.from_environment(os.environ)
    target = (config or folders.config).expanduser()
    backups = Backups(folders.state_dir)
    if force and not undo:
        raise typer.BadParameter("--force goes with --undo.")
    if undo:
        if client is not None or every or path is not None:
            raise typer.BadParameter("--undo takes back the whole last import: name no client with it.")
        take_back(backups, ACTION, target, force=force, as_json=as_json)
        return
    if (client is None) == (not every):
        raise typer.BadParameter("name a client, or give --all.")
    if every and path is not None:
        raise typer.BadParameter("--path is the file of one client: name that client.")
    readings, unread = _read_all() if client is None else (_read_one(known(client), path), [])
    plan = plan_import(target, readings)
    show_import(plan, stderr())
    for problem in unread:
        stderr().print(f"! not read: {problem}", style="yellow")
    answer = {**describe_import(plan), "unread": unread}
    if plan.empty:
        finish({**answer, "done": False}, as_json, "Nothing to import.")
        raise typer.Exit(NOTHING_TO_DO)
    confirm(f"Write this to {target}?", yes=yes)
    backup = apply_import(plan, backups)
    count = f"{len(plan.added)} server{'s' if len(plan.added) > 1 else ''}"
    text = f"Imported {count} into {target}. To take it back: toolatlas import --undo"
    finish({**answer, "backup": None if backup is None else str(backup), "done": True}, as_json, text)


def surroundings() -> Surroundings:
    """Where this command runs."""
    return Surroundings(Path.home(), os.environ, sys.platform, Path.cwd())


def known(key: str) -> Client:
    """The client of this name; another name is a mistake in the command line."""
    try:
        return find_client(key)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from None


def stderr() -> Console:
    """For what is not the answer."""
    return Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


def confirm(question: str, *, yes: bool) -> None:
    """Returns when the user agrees."""
    if yes:
        return
    # typer.confirm would write a blank to stdout, which belongs to the answer.
    typer.echo(f"{question} [y/N] ", nl=False, err=True)
    line = sys.stdin.readline()
    if not line:
        typer.echo(err=True)
        raise ConfigurationError("Nothing was changed: there was nobody to ask. Add --yes to agree beforehand.")
    if line.strip().casefold() not in ("y", "yes"):
        raise ConfigurationError("Nothing was changed.")


def finish(answer: Mapping[str, object], as_json: bool, text: str) -> None:
    """The answer of the command, in one of its two forms."""
    typer.echo(json.dumps(answer, ensure_ascii=False, indent=2) if as_json else text)


def take_back(backups: Backups, action: str, path: Path, *, force: bool, as_json: bool) -> None:
    """Undo the last change of one file."""
    done = backups.undo(action, path, force=force)
    text = f"{path} is again as it was before." if done else f"There is no change of {path} to take back."
    finish({"path": str(path), "undone": done}, as_json, text)
    if not done:
        raise typer.Exit(NOTHING_TO_DO)


def show_import(plan: ImportPlan, console: Console) -> None:
    """The preview: what comes in, under which name, what does not, and why."""
    for addition in plan.added:
        renamed = f" (called {addition.name} there; that name is taken)" if addition.written != addition.name else ""
        console.print(f"+ {addition.written}{renamed}: {summary(addition.entry)}", style="green")
        console.print(f"    from {addition.source}")
    for omission in plan.skipped:
        console.print(f"- {omission.name}: {omission.reason}", style="yellow")
        console.print(f"    from {omission.source}")
    for warning in plan.warnings:
        console.print(f"! {warning}", style="yellow")


def describe_import(plan: ImportPlan) -> dict[str, Any]:
    """The plan for the answer, without any value that may be a secret."""
    return {
        "config": str(plan.config),
        "added": [
            {"name": addition.name, "written": addition.written, "from": str(addition.source)}
            for addition in plan.added
        ],
        "skipped": [
            {"name": omission.name, "reason": omission.reason, "from": str(omission.source)}
            for omission in plan.skipped
        ],
        "warnings": list(plan.warnings),
    }


def _read_one(client: Client, path: Path | None) -> list[Reading]:
    around = surroundings()
    if path is not None and not path.expanduser().exists():
        raise ConfigurationError(f"There is no file {path}. Name the file in which {client.title} keeps its servers.")
    places = client.places(around) if path is None else client.at(path.expanduser(), around)
    readings = read_existing(client, places, OWN_URLS)
    if not readings:
        looked = ", ".join(dict.fromkeys(str(place.path) for place in places))
        stderr().print(f"No file of {client.title} was found. Looked for: {looked}. Name another with --path.")
    return readings


def _read_all() -> tuple[list[Reading], list[str]]:
    """All clients. The file of one that cannot be read does not keep the others from being imported."""
    around = surroundings()
    readings: list[Reading] = []
    unread: list[str] = []
    for client in CLIENTS:
        for place in client.places(around):
            try:
                readings += read_existing(client, [place], OWN_URLS)
            except ConfigurationError as error:
                unread.append(str(error))
    return readings, list(dict.fromkeys(unread))
