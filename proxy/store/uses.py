"""How many episodes used each server lately: the prior of the index that agents read first.

Above: logbook.py. Below: tables.py. Episodes count, not calls: a loop in an agent's code is one use.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select

from proxy.store.database import Database
from proxy.store.tables import CallRow, EpisodeRow


async def uses(database: Database, since: datetime) -> dict[str, int]:
    """By configured name, the episodes since then that called a tool of the server. Those not called are not in it."""
    statement = (
        select(CallRow.server, func.count(CallRow.episode_id.distinct()).label("episodes"))
        .join(EpisodeRow, EpisodeRow.id == CallRow.episode_id)
        .where(EpisodeRow.began_at >= since)
        .group_by(CallRow.server)
    )
    async with database.reading() as connection:
        return {row.server: row.episodes for row in await connection.execute(statement)}
