"""What commands share that read the log: how they are told of its database, open it, and print tables of it.

Above: episodes.py, stats.py. Below: store/database.py and store/migrating.py.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from proxy.errors import ConfigurationError
from proxy.settings import Folders
from proxy.store.database import Database, read_url, sqlite_path
from proxy.store.migrating import HEAD, revision

PIPED_COLUMNS = 160

T = TypeVar("T")

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        envvar="TOOLATLAS_DATABASE",
        show_envvar=True,
        help="sqlite:///file or postgresql://user:password@host/database; a file in the state folder without it.",
    ),
]


def wide_console() -> Console:
    """For tables, which are not to be folded where a program or a file reads them. It takes no text for markup."""
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else PIPED_COLUMNS)


def with_database(url: str | None, work: Callable[[Database], Awaitable[T]]) -> T:
    """Run `work` on the log, which must be there and at the revision of this version.

    Raises:
        ConfigurationError: It is not, cannot be reached, or fails.
        GatewayError: What `work` raises.
    """
    url = url or Folders.from_environment(os.environ).database
    parsed = read_url(url)
    if parsed.drivername == "sqlite" and not sqlite_path(parsed).exists():
        raise ConfigurationError(
            f"there is no log database {sqlite_path(parsed)}: a gateway makes it when it starts, or `toolatlas migrate`"
        )

    async def run() -> T:
        # A reader of much may take its time: nobody waits for it.
        database = Database(url, statement_s=None)
        try:
            if (now := await revision(url)) != HEAD:
                raise ConfigurationError(
                    f"the log {database.shown} is at revision {now or 'base'}, this version needs {HEAD}: "
                    "run `toolatlas migrate`"
                )
            return await work(database)
        finally:
            await database.close()

    try:
        return asyncio.run(run())
    except (SQLAlchemyError, ConnectionError, TimeoutError) as error:
        if isinstance(error, BrokenPipeError):
            # Whoever read our output went away.
            raise
        said = error.driver_exception if isinstance(error, DBAPIError) else error
        shown = Database(url).shown
        raise ConfigurationError(f"the log {shown} cannot be used: {str(said) or type(said).__name__}") from error
