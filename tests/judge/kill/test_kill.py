"""`kill -9` of a worker in the middle of a batch: its lease runs out, another one finishes, each is judged once."""

from __future__ import annotations

import sys

import anyio
import pytest
from sqlalchemy import func, select

from judge.checks.library import library
from judge.judging import Judge
from judge.settings import RewardSettings
from proxy.store.database import Database
from proxy.store.judging_tables import ClaimRow, JudgementRow
from tests.judge.kill.killed import worker_of
from tests.judge.logs import filed, write_episodes

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

EPISODES, BATCH = 60, 20
LIMIT_S = 200.0


async def test_a_killed_workers_episodes_are_judged_by_another_one_and_each_once(
    database: Database, database_url: str
) -> None:
    await write_episodes(database, range(EPISODES))
    await filed(database, range(EPISODES))
    command = [sys.executable, "-m", "tests.judge.kill.killed", database_url, str(BATCH)]
    async with await anyio.open_process(command, stderr=None) as victim:
        try:
            assert victim.stdout is not None
            with anyio.fail_after(LIMIT_S):
                assert (await victim.stdout.receive()).startswith(b"half")
        finally:
            victim.kill()
    assert await numbers(database) == (0, BATCH), "nothing of a batch is written before all of it"
    other = await worker_of(database, Judge(library(), RewardSettings()), batch=BATCH, lease_s=2.0)
    with anyio.fail_after(LIMIT_S):
        sums = await other.run(anyio.Event())
    # All: what the victim had claimed is among it.
    assert sums.judged == EPISODES
    assert await numbers(database) == (EPISODES, 0)
    async with database.reading() as connection:
        episodes = await connection.execute(select(func.count(JudgementRow.episode_id.distinct())))
        assert episodes.scalar_one() == EPISODES


async def numbers(database: Database) -> tuple[int, int]:
    """Of judgements and of claims."""
    async with database.reading() as connection:
        judged = (await connection.execute(select(func.count()).select_from(JudgementRow))).scalar_one()
        claimed = (await connection.execute(select(func.count()).select_from(ClaimRow))).scalar_one()
    return judged, claimed
