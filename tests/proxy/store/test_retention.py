"""What is old goes, in small pieces, and nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from proxy.store.database import Database
from proxy.store.retention import prune
from tests.proxy.store.test_deletions import AT, an_episode, there

pytestmark = pytest.mark.anyio
NOW = AT + timedelta(days=100)


async def test_what_ended_or_began_without_ending_long_ago_goes(database: Database) -> None:
    await an_episode(database, "e_old", began=NOW - timedelta(days=31))
    await an_episode(database, "e_new", began=NOW - timedelta(days=29))
    await an_episode(database, "e_left", began=NOW - timedelta(days=31), ended=False)
    await an_episode(database, "e_open", began=NOW - timedelta(days=29), ended=False)
    pruned = await prune(database, 30, now=NOW)
    assert (pruned.episodes, pruned.steps, pruned.called) == (2, 2, {("mail", "send")})
    assert await there(database) == {"e_new", "e_open"}
    assert (await prune(database, 30, now=NOW)).episodes == 0


async def test_more_than_one_batch_goes_in_one_run(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.store.retention.BATCH", 2)
    for number in range(5):
        await an_episode(database, f"e_{number}")
    assert (await prune(database, 0, now=NOW)).episodes == 5
    assert await there(database) == set()


async def test_a_negative_time_is_refused(database: Database) -> None:
    with pytest.raises(ValueError, match="negative"):
        await prune(database, -1)
