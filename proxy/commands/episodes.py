"""`toolatlas episodes`: what agents did through the gateway, as lists, timelines and files; deleting.py takes it away.

Above: cli.py. Below: the reading side of store/. What was asked for goes to standard output, what is said about it to
standard error.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from proxy.catalog.text import one_line
from proxy.commands import deleting
from proxy.commands.database_option import DatabaseOption, wide_console, with_database
from proxy.commands.local import emit
from proxy.commands.timeline import remarks, timeline
from proxy.errors import ConfigurationError, UnknownName
from proxy.store.database import Database
from proxy.store.exporting import episode_line, export, members
from proxy.store.filters import Filters
from proxy.store.importing import Imported, import_lines
from proxy.store.judgements import judgements, labels
from proxy.store.lines import schema
from proxy.store.messages import export_messages
from proxy.store.trajectories import Cursor, heads, load
from proxy.store.trajectory import EpisodeHead

SHOWN_CHARS = 800
TASK_CHARS = 80
_DATES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"]


class Format(StrEnum):
    """How an export is written."""

    TRAJECTORIES = "trajectories"
    MESSAGES = "messages"


JsonOption = Annotated[bool, typer.Option("--json", help="Answer as JSON on stdout.")]
AgentOption = Annotated[str | None, typer.Option("--agent", metavar="LABEL", help="Only this agent's.")]
SinceOption = Annotated[
    datetime | None, typer.Option("--since", formats=_DATES, help="Only what began then or later; local time.")
]
BeforeOption = Annotated[
    datetime | None, typer.Option("--before", formats=_DATES, help="Only what began before; local time.")
]
ServerOption = Annotated[str | None, typer.Option("--server", metavar="NAME", help="Only with a call to this server.")]
ToolOption = Annotated[
    str | None, typer.Option("--tool", metavar="NAME", help="Only with a call of a tool that its server calls so.")
]
OutcomeOption = Annotated[
    str | None, typer.Option("--outcome", metavar="WORD", help="Only what the agent said is done, failed or abandoned.")
]
EndedOption = Annotated[bool | None, typer.Option("--ended/--running", help="Only what has ended, or is running.")]


def register(app: typer.Typer) -> None:
    """Add the `episodes` family."""
    family = typer.Typer(help="The log: what agents did, task by task.", no_args_is_help=True)
    family.command("list")(list_episodes)
    family.command("show")(show)
    family.command("export")(export_episodes)
    family.command("import")(import_episodes)
    family.command("schema")(print_schema)
    deleting.register(family)
    app.add_typer(family, name="episodes")


def print_schema() -> None:
    """The JSON Schema of a line of an export."""
    typer.echo(json.dumps(schema(), indent=2))


def list_episodes(
    agent: AgentOption = None,
    since: SinceOption = None,
    before: BeforeOption = None,
    server: ServerOption = None,
    tool: ToolOption = None,
    outcome: OutcomeOption = None,
    ended: EndedOption = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 30,
    after: Annotated[str | None, typer.Option(metavar="ID", help="Go on behind this one.")] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Episodes, the newest first. Exit code 3 where there are none."""
    filters = _filters(agent, since, before, server, tool, outcome, ended)

    async def work(database: Database) -> list[EpisodeHead]:
        cursor = None
        if after is not None:
            last = await heads(database, Filters(ids=(after,)), 1)
            if not last:
                raise _unknown(after)
            cursor = Cursor(last[0].began_at, last[0].id)
        # One more shows whether there are more.
        return await heads(database, filters, limit + 1, after=cursor)

    found = with_database(database, work)
    more, found = len(found) > limit, found[:limit]
    emit([_listed(head) for head in found], as_json, lambda: _print_list(found))
    if more:
        typer.echo(f"There are more: toolatlas episodes list --after {found[-1].id}", err=True)
    if not found:
        typer.echo("No such episodes are in the log.", err=True)
        raise typer.Exit(3)


def show(
    episode: Annotated[str, typer.Argument(metavar="ID", help="Episode.")],
    full: Annotated[bool, typer.Option("--full", help="Show long texts as far as the log has them.")] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """One episode, step by step."""

    async def work(database: Database) -> tuple[Any, ...]:
        trajectory = await load(database, episode)
        if trajectory is None:
            raise _unknown(episode)
        judged, labelled = await judgements(database, [episode]), await labels(database, [episode])
        return trajectory, judged.get(episode, ()), labelled.get(episode, ())

    trajectory, judged, labelled = with_database(database, work)

    def text() -> None:
        console = Console(highlight=False, soft_wrap=True)
        for line in timeline(trajectory, None if full else SHOWN_CHARS):
            console.print(line)
        for line in remarks(judged, labelled):
            console.print(line)

    emit(episode_line(trajectory, judged, labelled), as_json, text)


def export_episodes(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[IDS]...", help="Episodes; all without.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of stdout; for its owner alone.")
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="trajectories can be imported again, messages are for other trainers.")
    ] = Format.TRAJECTORIES,
    agent: AgentOption = None,
    since: SinceOption = None,
    before: BeforeOption = None,
    server: ServerOption = None,
    tool: ToolOption = None,
    outcome: OutcomeOption = None,
    ended: EndedOption = None,
    full: Annotated[bool, typer.Option("--full", help="Only what was logged with all its contents.")] = False,
    judged: Annotated[bool | None, typer.Option("--judged/--not-judged", help="Only with, or without, one.")] = None,
    database: DatabaseOption = None,
) -> None:
    """Write the log as lines of JSON, one an episode, with the catalogues that they need; docs/trajectories.md."""
    filters = _filters(agent, since, before, server, tool, outcome, ended, tuple(ids) if ids else None, full, judged)

    async def work(database: Database) -> int:
        lines = export(database, filters) if form is Format.TRAJECTORIES else export_messages(database, filters)
        return await _write(lines, output)

    count = with_database(database, work)
    typer.echo(f"{count} lines written", err=True)


def import_episodes(
    file: Annotated[str, typer.Argument(metavar="FILE", help="An export, or - for stdin.")],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add what an export says. Exit code 1 where a line was refused; all others are imported."""

    async def work(database: Database) -> Imported:
        with _lines(file) as lines:
            return await import_lines(database, lines)

    done = with_database(database, work)
    answer = {
        "episodes": done.episodes,
        "steps": done.steps,
        "known": done.known,
        "refused": [members(each) for each in done.refused],
    }
    said = f"{done.episodes} episodes are new, {done.known} were known; {done.steps} steps are new"
    emit(answer, as_json, lambda: typer.echo(said))
    for refused in done.refused:
        typer.echo(f"line {refused.line}: {one_line(refused.why, 400)}", err=True)
    if done.refused:
        raise typer.Exit(1)


def _filters(
    agent: str | None,
    since: datetime | None,
    before: datetime | None,
    server: str | None,
    tool: str | None,
    outcome: str | None,
    ended: bool | None,
    ids: tuple[str, ...] | None = None,
    full: bool = False,
    judged: bool | None = None,
) -> Filters:
    return Filters(
        ids=ids,
        agent=agent,
        # Local time, unless it has a zone.
        since=since and since.astimezone(),
        before=before and before.astimezone(),
        ended=ended,
        outcome=outcome,
        server=server,
        tool=tool,
        full=full,
        judged=judged,
    )


def _unknown(episode: str) -> UnknownName:
    return UnknownName(
        f"there is no episode {one_line(episode, 80)!r} in the log; `toolatlas episodes list` shows them"
    )


def _listed(head: EpisodeHead) -> dict[str, Any]:
    ending = head.ending
    return {
        **members(head),
        "ending": None if ending is None else members(ending),
        "task_missing": head.task_missing,
        "answer_missing": head.answer_missing,
    }


def _print_list(found: Sequence[EpisodeHead]) -> None:
    if not found:
        return
    table = Table("episode", "began (UTC)", "agent", "ended", "steps", "failed", "tokens seen", "task")
    for head in found:
        ending = head.ending
        sums = ("", "", "") if ending is None else (ending.steps, ending.failures, f"{ending.tokens_seen:,}")
        table.add_row(
            head.id,
            f"{head.began_at:%Y-%m-%d %H:%M}",
            one_line(head.agent, 30),
            "running" if ending is None else one_line(ending.outcome or ending.reason, 20),
            *map(str, sums),
            one_line(head.task or "", TASK_CHARS),
        )
    wide_console().print(table)


async def _write(lines: AsyncIterator[str], output: Path | None) -> int:
    """How many there were."""
    count = 0
    with _replacing(output) as file:
        async for line in lines:
            file.write(f"{line}\n")
            count += 1
    return count


@contextmanager
def _replacing(path: Path | None) -> Generator[IO[str]]:
    """Where to write: stdout, or a file that takes the place of `path` when all is written."""
    if path is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    draft = None
    try:
        # Mode 0600, and it stays so: an export holds what agents and servers said.
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with open(handle, "w", encoding="utf-8") as file:
            yield file
        os.replace(draft, path)
        draft = None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        if draft is not None:
            with suppress(FileNotFoundError):
                os.unlink(draft)


@contextmanager
def _lines(file: str) -> Generator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        opened = open(file, "rb")  # noqa: SIM115 - the error of opening is ours, not those of reading the database
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from error
    with opened:
        yield opened
