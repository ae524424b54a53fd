"""`toolatlas episodes delete` and `prune`: take what was logged away for good.

Above: episodes.py joins both to its group. Below: store/deletions.py, store/retention.py. Exit code 1: some of it could
not be made to go entirely; the message says what is left and where.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from sqlalchemy import select

from proxy.catalog.shapes import Shapes
from proxy.commands.database_option import DatabaseOption, with_database
from proxy.commands.local import emit
from proxy.errors import InvalidArguments
from proxy.settings import Folders
from proxy.store.database import Database
from proxy.store.deletions import Deleted, Selection, counted, delete, journals_clear
from proxy.store.retention import prune
from proxy.store.tables import EpisodeRow

JOURNALS_S = 30.0

JsonOption = Annotated[bool, typer.Option("--json", help="Answer as JSON on stdout.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
_DATES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"]


def register(family: typer.Typer) -> None:
    """Add both to the family `episodes`."""
    family.command("delete")(delete_episodes)
    family.command("prune")(prune_episodes)


def delete_episodes(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[IDS]...", help="Episodes.")] = None,
    agent: Annotated[str | None, typer.Option(metavar="LABEL", help="Only this agent's.")] = None,
    since: Annotated[datetime | None, typer.Option(formats=_DATES, help="Only what began then or later.")] = None,
    before: Annotated[datetime | None, typer.Option(formats=_DATES, help="Only what began before.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that was logged until now.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Delete episodes: rows, journals, kept results. It cannot be undone. Times are local unless they have a zone."""
    chosen = bool(ids or agent is not None or since or before)
    if chosen == everything:
        raise InvalidArguments(
            "Nothing was deleted: say which episodes, by id, --agent, --since or --before, or say --all."
            if not chosen
            else "Nothing was deleted: --all goes with no other choice."
        )
    try:
        selection = Selection(
            agent=agent,
            since=since and since.astimezone(),
            before=before and before.astimezone(),
            episodes=tuple(dict.fromkeys(ids)) if ids else None,
        )
    except ValueError as error:
        raise InvalidArguments(f"Nothing was deleted: {error}.") from None
    folders = Folders.from_environment(os.environ)

    async def work(database: Database) -> tuple[Deleted, list[str], list[str]]:
        about, unknown = await _look(database, selection)
        for name in unknown:
            typer.echo(f"No episode {name} is in the database; what a journal holds of it goes all the same.", err=True)
        if not yes:
            typer.confirm(f"Delete {_shown(about.episodes, about.steps)} for good?", abort=True, err=True)
        deleted = await delete(database, selection)
        # Examples of results; a gateway that runs loses those that it has in memory within seconds.
        Shapes(folders.cache_dir / "shapes").forget()
        return deleted, unknown, await journals_clear(journals_in(folders.state_dir), JOURNALS_S)

    deleted, unknown, streams = with_database(database, work)
    answer: dict[str, Any] = {
        "episodes": deleted.episodes,
        "steps": deleted.steps,
        "unknown": unknown,
        "remains": deleted.remains,
        "journals": streams,
    }

    def show() -> None:
        typer.echo(f"Deleted {_shown(deleted.episodes, deleted.steps)}.")
        if not streams:
            typer.echo("No journal here holds anything of it.")

    emit(answer, as_json, show)
    if deleted.remains is not None:
        typer.echo(f"Bytes of it may still be in the database: {deleted.remains}. Run the same once more.", err=True)
    if streams:
        typer.echo(
            f"Journals still hold some of it: {', '.join(streams)}. It is dropped before it reaches the database, as "
            "soon as a gateway runs and the database takes the rest.",
            err=True,
        )
    if deleted.remains is not None or streams:
        raise typer.Exit(1)


def prune_episodes(
    days: Annotated[int, typer.Option(min=0, metavar="N", help="Keep what ended within the last N days.")],
    yes: YesOption = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Delete what ended, or began without ending, more than N days ago; little by little, beside a gateway at work."""
    if not yes:
        typer.confirm(f"Delete all that ended more than {days} days ago for good?", abort=True, err=True)
    pruned = with_database(database, lambda database: prune(database, days))
    answer = {"episodes": pruned.episodes, "steps": pruned.steps}
    emit(answer, as_json, lambda: typer.echo(f"Deleted {_shown(pruned.episodes, pruned.steps)}."))


def journals_in(state_dir: Path) -> Path:
    """Folder of the journals."""
    return state_dir / "log"


async def _look(database: Database, selection: Selection) -> tuple[Deleted, list[str]]:
    """What would go, and the ids that are in no row."""
    async with database.reading() as connection:
        about = await counted(connection, selection.condition())
        wanted = selection.episodes or ()
        query = select(EpisodeRow.id).where(EpisodeRow.id.in_(wanted))
        there = set((await connection.execute(query)).scalars()) if wanted else set[str]()
    return about, [name for name in wanted if name not in there]


def _shown(episodes: int, steps: int) -> str:
    return f"{episodes} episode{'' if episodes == 1 else 's'} with {steps} step{'' if steps == 1 else 's'}"
