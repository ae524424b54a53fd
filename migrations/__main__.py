"""`python -m migrations MESSAGE`: drafts the revision that leads from the newest one to what tables.py says now.

The draft is to be read and reworded: Alembic sees a renamed column as one that goes and one that comes.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from alembic import command

from proxy.store.database import Database
from proxy.store.migrating import HEAD, configuration, migrate


async def draft(message: str) -> None:
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'draft.db'}"
        await migrate(url)
        database = Database(url)
        async with database.writing() as connection:
            await connection.run_sync(
                lambda sync: command.revision(
                    configuration(sync), message, autogenerate=True, rev_id=f"{int(HEAD) + 1:04}"
                )
            )
        await database.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m migrations MESSAGE")
    asyncio.run(draft(sys.argv[1]))
