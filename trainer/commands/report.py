"""`toolatlas train report`: what a run was made of, how it went, and what its evaluation found.

Above: training.py. Below: the runs of this machine, the store's reports of those of all machines, and evaluation/,
which writes them out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proxy.commands.database_option import DatabaseOption, with_database
from proxy.commands.local import emit
from proxy.errors import ConfigurationError, UnknownName
from proxy.store.database import Database
from trainer.commands.adapters import JsonOption
from trainer.commands.options import RunsOption, runs_of

if TYPE_CHECKING:
    from proxy.store.training_report import Report
    from trainer.loop.runs import Run

LAST = "last"
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The beginning of its id, or `last`.")]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write the page with plots to this file, too.")
]


def report(
    run: RunArgument = LAST,
    html: HtmlOption = None,
    runs: RunsOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """What a run was made of, how it went, and what its evaluation found. The dashboard shows the same."""
    here = _here(run, runs)
    found = with_database(database, lambda opened: _stored(opened, run if here is None else here.id, here is None))
    if found is None:
        assert here is not None
        if html is not None:
            raise ConfigurationError(f"the run {here.id} was not evaluated yet, so that there is no page of it")
        emit(_facts(here), as_json, lambda: _so_far(here))
        return
    if html is not None:
        _write(html, found)
    emit({**({} if here is None else _facts(here)), "report": found.to_json()}, as_json, lambda: _print(found))


def _here(run: str, runs: Path | None) -> Run | None:
    """The run in a folder of this machine; None where only the store may know it."""
    known = runs_of(runs)
    try:
        return known.named(run)
    except UnknownName:
        if run != LAST and any(each.id.startswith(run) for each in known.all()):
            # Several.
            raise
        return None


async def _stored(database: Database, run: str, by_beginning: bool) -> Report | None:
    """Raises UnknownName where a run, by the beginning of its id, is in no folder and not in the store either."""
    from proxy.store.training_runs import read, recent

    if by_beginning:
        reports = await recent(database)
        ids = [each.run for each in reports if run == LAST or each.run.startswith(run)]
        ids = ids[:1] if run == LAST else ids
        if len(ids) != 1:
            how_many = "no run" if not ids else f"{len(ids)} runs"
            raise UnknownName(f"{how_many} here or in the store for {run!r}; `toolatlas train list` shows those here")
        run = ids[0]
    try:
        return await read(database, run)
    except ValueError as error:
        raise ConfigurationError(f"the report of the run {run} cannot be shown: {error}") from error


def _print(found: Report) -> None:
    from trainer.evaluation.text import render_text

    typer.echo(render_text(found), nl=False)


def _write(path: Path, found: Report) -> None:
    from proxy.files import replace_file
    from trainer.evaluation.page import render_html

    try:
        replace_file(path, render_html(found).encode())
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error


def _facts(run: Run) -> dict[str, Any]:
    from trainer.loop.metrics import read

    return {**run.facts, "metrics": read(run.folder), "result": run.result}


def _so_far(run: Run) -> None:
    """Of a run that was not evaluated."""
    from trainer.loop.metrics import read

    facts, data = run.facts, run.facts["data"]
    typer.echo(f"Run {run.id}, version {facts['version']}, commit {(facts['commit'] or 'not known')[:12]}")
    typer.echo(f"Command: {facts['command']}")
    typer.echo(f"Data {facts['data_hash'][:16]}: {data['episodes']:,} episodes, {data['rankings']:,} rankings")
    for line in read(run.folder):
        if line["kind"] == "validation":
            figures = ", ".join(f"{name} {value:.4f}" for name, value in line.items() if name not in ("step", "kind"))
            typer.echo(f"after {line['step']:,} updates: {figures}")
    result = run.result
    if result is None:
        typer.echo(f"It has not ended; `toolatlas train run --resume {run.id}` goes on.")
    elif "failed" in result:
        typer.echo(f"It came to nothing: {result['failed']}")
    else:
        typer.echo("Its report is not in this database: it was trained with another one, or the report was removed.")
