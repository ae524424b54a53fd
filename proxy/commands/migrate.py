"""`toolatlas migrate`: makes the tables of the log, or brings them to another revision.

Above: cli.py. Below: store/migrating.py. What is said goes to standard error.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Annotated

import typer
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from proxy.errors import ConfigurationError
from proxy.settings import Folders
from proxy.store.database import Database, is_outage
from proxy.store.migrating import HEAD, differences, revision
from proxy.store.migrating import migrate as move

POLL_S = 0.5


def register(app: typer.Typer) -> None:
    app.command("migrate")(migrate)


def migrate(
    database: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="TOOLATLAS_DATABASE",
            show_envvar=True,
            help="sqlite:///file or postgresql://user:password@host/database; a file in the state folder without it.",
        ),
    ] = None,
    to: Annotated[
        str,
        typer.Option(metavar="REVISION", help="Going back loses what later revisions keep; `base` loses everything."),
    ] = "head",
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 where the tables are not as they should be.")
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Keep trying for a database that is still starting.")
    ] = 0.0,
) -> None:
    """Make or change the tables of the log."""
    url = database or Folders.from_environment(os.environ).database
    shown = Database(url).shown
    try:
        asyncio.run(_run(url, to, check, time.monotonic() + wait))
    except (OSError, SQLAlchemyError) as error:
        said = error.driver_exception if isinstance(error, DBAPIError) else error
        what = "cannot be reached, or is busy" if is_outage(error) else "refuses that"
        raise ConfigurationError(f"{shown} {what}: {str(said) or type(said).__name__}") from error
    typer.echo(f"{shown} is at revision {HEAD if to == 'head' else to}", err=True)


async def _run(url: str, to: str, check: bool, deadline: float) -> None:
    while True:
        try:
            await (_check(url) if check else move(url, to=to))
        except Exception as error:
            if not is_outage(error) or time.monotonic() > deadline:
                raise
            await asyncio.sleep(POLL_S)
        else:
            return


async def _check(url: str) -> None:
    """Raises ConfigurationError for what differs."""
    if (now := await revision(url)) != HEAD:
        raise ConfigurationError(f"the database is at revision {now or 'base'}, not {HEAD}: run `toolatlas migrate`")
    if found := await differences(url):
        raise ConfigurationError("the tables are not what revision " + HEAD + " makes: " + "; ".join(found))
