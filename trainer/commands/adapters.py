"""`toolatlas adapters list`, `rollback`, `diff` and `approve`: which adapters there are, the way back, what differs.

Above: trainer/cli.py. Below: proxy/store/registry.py. A gateway that runs takes up what changes here by itself, within
seconds and without a restart.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from proxy.catalog.text import one_line
from proxy.commands.database_option import DatabaseOption, wide_console, with_database
from proxy.commands.local import emit
from proxy.errors import UnknownName
from proxy.router.adapters import MANIFEST
from proxy.settings import Folders
from proxy.store.database import Database
from proxy.store.registry import SHORT, Entry, approve, entries, entry, in_force, roll_back

REASON_CHARS = 160

AdapterArgument = Annotated[str, typer.Argument(metavar="HASH", help="The beginning of its hash is enough.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer as JSON on stdout.")]
ByOption = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Whom the registry names; the user of this machine without.")
]
FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--adapters",
        metavar="FOLDER",
        envvar="TOOLATLAS_ADAPTERS",
        help="Where adapters lie; `adapters` in the state folder without it.",
    ),
]


def register(family: typer.Typer) -> None:
    family.command("list")(list_adapters)
    family.command("rollback")(rollback)
    family.command("diff")(diff)
    family.command("approve")(approve_adapter)


def list_adapters(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """All adapters with their states, the newest first. Exit code 3 without any."""
    found = with_database(database, entries)

    def text() -> None:
        from rich.table import Table

        table = Table("adapter", "kind", "made (UTC)", "state", "since (UTC)", "by", "why")
        for each in found:
            last = each.history[-1]
            share = "" if last.share is None else f" {last.share:.0%}"
            table.add_row(
                each.adapter.hash[:SHORT],
                each.adapter.kind,
                f"{each.adapter.created_at:%Y-%m-%d %H:%M}",
                f"{each.state}{share}",
                f"{each.since:%Y-%m-%d %H:%M}",
                last.by or "",
                one_line(last.reason or "", REASON_CHARS),
            )
        wide_console().print(table)

    emit([described(each) for each in found], as_json, text)
    if not found:
        typer.echo("There is no adapter yet; `toolatlas learn` makes one from the log.", err=True)
        raise typer.Exit(3)


def rollback(
    adapter: Annotated[
        str | None,
        typer.Argument(metavar="[HASH]", help="The canary if there is one, else the active one, without it."),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why, for the history.")] = "rolled back by hand",
    folder: FolderOption = None,
    by: ByOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take an adapter back at once. Behind an active one, the one that it had replaced is active again."""
    may_return = usable(folder)

    async def work(log: Database) -> tuple[str, str | None] | None:
        hashed = None if adapter is None else (await entry(log, adapter)).adapter.hash
        return await roll_back(log, reason, by=by or user(), hashed=hashed, usable=may_return)

    done = with_database(database, work)
    if done is None:
        typer.echo("Nothing is changed: no such adapter answers agents.", err=True)
        raise typer.Exit(3)
    retired, active = done
    now = "the router without an adapter" if active is None else f"the adapter {active[:SHORT]}"
    emit(
        {"retired": retired, "active": active},
        as_json,
        lambda: typer.echo(f"{retired[:SHORT]} is retired; active is {now}"),
    )


def approve_adapter(
    adapter: AdapterArgument,
    note: Annotated[str | None, typer.Option("--note", help="What was looked at.")] = None,
    by: ByOption = None,
    database: DatabaseOption = None,
) -> None:
    """Say that agents may be served by an adapter; with --require-approval none is without."""
    name = by or user()

    async def work(log: Database) -> str:
        hashed = (await entry(log, adapter)).adapter.hash
        await approve(log, hashed, by=name, note=note)
        return hashed

    typer.echo(f"{with_database(database, work)[:SHORT]} is approved by {name}")


def diff(
    one: AdapterArgument,
    other: Annotated[str | None, typer.Argument(metavar="[OTHER]", help="The active one without it.")] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """What differs between two adapters: base, data, settings, figures."""

    async def work(log: Database) -> tuple[Entry, Entry]:
        name = other or (await in_force(log)).active
        if name is None:
            raise UnknownName("no adapter is active; name the one to compare with")
        return await entry(log, one), await entry(log, name)

    first, second = with_database(database, work)
    left, right = dict(_leaves(_said(first))), dict(_leaves(_said(second)))
    differing = {
        name: (left.get(name), right.get(name))
        for name in dict.fromkeys((*left, *right))
        if left.get(name) != right.get(name)
    }

    def text() -> None:
        from rich.table import Table

        table = Table("", first.adapter.hash[:SHORT], second.adapter.hash[:SHORT])
        for name, values in differing.items():
            table.add_row(one_line(name, REASON_CHARS), *(_shown(value) for value in values))
        wide_console().print(table)

    emit(differing, as_json, text)


def usable(folder: Path | None) -> Callable[[str], bool]:
    """Whether an adapter lies where gateways look for it. Where there is no such folder at all, as on a machine that
    only reaches the database, that cannot be said, and gateways will see."""
    place = (folder or Folders.from_environment(os.environ).state_dir / "adapters").expanduser()
    return lambda hashed: not place.is_dir() or (place / hashed / MANIFEST).is_file()


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        # A container's user has no name.
        return f"user {os.getuid()}"


def described(found: Entry) -> dict[str, Any]:
    whole: dict[str, Any] = asdict(found)
    whole["adapter"]["created_at"] = found.adapter.created_at.isoformat()
    for each in (*whole["history"], *whole["approvals"]):
        each["at"] = each["at"].isoformat()
    return {"hash": found.adapter.hash, "state": found.state, "since": found.since.isoformat(), **whole}


def _said(found: Entry) -> dict[str, Any]:
    """What may differ."""
    from trainer.promotion.evidence import EVIDENCE

    adapter = found.adapter
    metrics = {name: value for name, value in (adapter.metrics or {}).items() if name != EVIDENCE}
    known = {"kind": adapter.kind, "base": adapter.base_hash, "data": adapter.data_hash, "run": adapter.run}
    return {**known, "state": found.state.value, "config": adapter.config, "metrics": metrics}


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, each in cast("Mapping[str, Any]", value).items():
            yield from _leaves(each, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else one_line(str(value), REASON_CHARS)
