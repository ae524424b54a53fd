"""Looks at the registry again and again: `toolatlas adapters watch`.

Above: commands/adapters.py, and `toolatlas learn` while it waits for a canary. Below: advancing.py. It runs beside the
gateway, not in it: reading a log is no work for a process that answers agents, and a judge's rewards arrive in the log,
not there. A gateway takes back by itself what fails at once (proxy/router/guard.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio

from proxy.store.database import Database, is_outage
from trainer.promotion.advancing import Look, advance
from trainer.promotion.canary import Tasks
from trainer.promotion.settings import PromotionSettings

logger = logging.getLogger("toolatlas.adapters")

EVERY_S = 60.0


async def watch(
    database: Database,
    settings: PromotionSettings,
    *,
    by: str,
    usable: Callable[[str], bool],
    told: Callable[[Look], None],
    every_s: float = EVERY_S,
    until: Callable[[], bool] = lambda: False,
) -> None:
    """Look, tell of what was found otherwise than before, wait; until `until` says so after a look. A database that is
    away is waited for."""
    known: dict[str, Look] = {}
    tasks = Tasks(database)
    while True:
        try:
            for look in await advance(database, settings, by=by, usable=usable, tasks=tasks):
                if known.get(look.hash) != look:
                    known[look.hash] = look
                    told(look)
        except Exception as error:
            if not is_outage(error):
                raise
            logger.warning("the log cannot be read now, and is tried again: %s", error)
        if until():
            return
        await anyio.sleep(every_s)
