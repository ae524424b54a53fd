"""Takes over the streams of gateways that are gone: what is in their journals goes into the tables, what is missing is
said, and their episodes are ended.

Above: writer.py. Below: streams.py, shipping.py.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from proxy.store.database import Database
from proxy.store.inserting import Inserter
from proxy.store.journal import Journal
from proxy.store.shipping import Shipper
from proxy.store.streams import StreamFolder, abandoned

logger = logging.getLogger("toolatlas.log")


async def adopt_all(where: Path, database: Database, pause: Callable[[], Awaitable[None]]) -> None:
    """Every stream below `where` that nobody holds now. `pause` is awaited between two batches.

    Raises:
        Exception: The database's error; what is left can be taken later.
    """
    for folder in abandoned(where):
        await _adopt(folder, database, pause)


async def _adopt(folder: StreamFolder, database: Database, pause: Callable[[], Awaitable[None]]) -> None:
    about = folder.about()
    inserter = Inserter(database, folder.id, about)
    counters = folder.counters()
    try:
        journal = Journal(folder.path)
        shipper = Shipper(journal, inserter)
        while await shipper.ship():
            await pause()
        # A step may have become durable without the time to say so.
        counters.acknowledged = last = max(counters.acknowledged, shipper.last_seq)
        missing = (last + 1, counters.assigned) if counters.assigned > last else None
    finally:
        counters.close()
    if missing is not None:
        # Said first: whoever is killed in between says it twice rather than not at all.
        logger.warning(
            "a gateway (%s, begun %s) was killed: its steps %d to %d were not written yet and are not in the log",
            *(about["replica"], about["began_at"], *missing),
        )
    if lost := await inserter.close(missing):
        logger.warning("%d episodes of gateway %s were ended as lost", lost, about["replica"])
    folder.remove()
