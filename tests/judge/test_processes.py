"""Several processes on one log: what is judged is judged once, limits hold, and a refusal stops all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import pytest
from sqlalchemy import func, select

from judge.case import Case
from judge.checks.library import library
from judge.claims import Wanted
from judge.judging import Judge
from judge.keeping import keep_rubric
from judge.processes import Job, run_processes, until_told
from judge.rubric import Rubric
from judge.running import Pace, Refused, Worker
from judge.settings import RewardSettings
from judge.tally import Tally
from proxy.errors import GatewayError
from proxy.store.database import Database
from proxy.store.judging_tables import ClaimRow, JudgementRow
from proxy.store.rewards import batches
from tests.judge.kill.killed import RUBRIC
from tests.judge.logs import filed, write_episodes

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

EPISODES = 60


@pytest.fixture
async def job(database: Database, database_url: str) -> Job:
    await write_episodes(database, range(EPISODES))
    await filed(database, range(EPISODES))
    hash_ = await keep_rubric(database, RUBRIC, writer="a test")
    settings = RewardSettings()
    wanted = Wanted(judge=Judge(library(), settings).name, default=hash_)
    pace = Pace(batch=5, lease_s=600.0)
    return Job(url=database_url, reward=settings, wanted=wanted, pace=pace, canaries=RUBRIC)


async def run(job: Job, told: Callable[[Tally], None] = lambda _: None) -> bool:
    # On this thread: signal handlers are set in the main one. The loop has nothing else to do.
    return run_processes(job, 2, told)


async def numbers(database: Database) -> tuple[int, int]:
    async with database.reading() as connection:
        judged = await connection.execute(select(func.count(JudgementRow.episode_id.distinct())))
        claimed = await connection.execute(select(func.count()).select_from(ClaimRow))
        return judged.scalar_one(), claimed.scalar_one()


async def test_each_episode_is_judged_once_by_several(database: Database, job: Job) -> None:
    sums = Tally()

    def told(done: Tally) -> None:
        nonlocal sums
        sums += done

    assert not await run(job, told)
    assert (sums.judged, sums.rewarded, sums.mean_reward) == (EPISODES, EPISODES, 1.0)
    assert await numbers(database) == (EPISODES, 0)
    workers = Counter(batch.worker for batch in await batches(database))
    assert sum(workers.values()) == EPISODES / job.pace.batch


async def test_a_limit_is_shared_out(database: Database, job: Job) -> None:
    await run(replace(job, pace=replace(job.pace, limit=31)))
    assert await numbers(database) == (31, 0)


async def test_a_refusal_in_one_stops_all_and_is_told(database: Database, job: Job) -> None:
    with pytest.raises(Refused, match="cannot be trusted"):
        await run(replace(job, canaries=_praising()))
    assert await numbers(database) == (0, 0)
    assert not any(batch.accepted for batch in await batches(database))


async def test_told_to_stop_they_end_with_the_batches_that_they_had_begun(database: Database, job: Job) -> None:
    def told(_: Tally) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    assert await run(job, told)
    judged, claimed = await numbers(database)
    assert judged % job.pace.batch == 0
    assert claimed == 0
    assert signal.getsignal(signal.SIGTERM) is before


async def test_what_fails_in_a_process_is_told_here(job: Job) -> None:
    broken = replace(job, wanted=replace(job.wanted, default="9" * 64))
    with pytest.raises(GatewayError, match="rubric 999999999999 was deleted"):
        await run(broken)


async def test_a_second_signal_breaks_a_batch_off_and_gives_it_back(database: Database, job: Job) -> None:
    class Endless(Judge):
        async def judge(self, rubric: Rubric, case: Case) -> Any:
            os.kill(os.getpid(), signal.SIGTERM)
            await anyio.sleep_forever()

    judge = Endless(library(), job.reward)
    # Two episodes are judged side by side: each sends one signal.
    pace = replace(job.pace, batch=2, at_once=2)
    worker = Worker(database, judge, job.wanted, pace, canaries=RUBRIC)
    with anyio.fail_after(100):
        assert await until_told(worker, signal.SIGTERM)
    assert await numbers(database) == (0, 0)


async def test_the_first_signal_lets_the_batch_be_finished(database: Database, job: Job) -> None:
    def told(_: Tally) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    worker = Worker(database, Judge(library(), job.reward), job.wanted, job.pace, canaries=RUBRIC, told=told)
    with anyio.fail_after(100):
        assert await until_told(worker, signal.SIGTERM)
    judged, claimed = await numbers(database)
    assert claimed == 0
    assert judged % job.pace.batch == 0
    assert 0 < judged < EPISODES


def _praising() -> Rubric:
    (criterion,) = RUBRIC.criteria
    return Rubric((replace(criterion, check="calls_within", parameters={"most": 1_000}),))


def test_a_process_imports_what_judging_needs_and_no_gateway() -> None:
    # Started from the command, a process imports the command's module first.
    code = "import sys, proxy.cli, judge.processes; print(*{name.partition('.')[0] for name in sys.modules})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    imported = set(ran.stdout.split())
    assert {"sqlalchemy", "judge"} <= imported
    assert not {"fastapi", "mcp", "uvicorn", "numpy", "scipy", "alembic", "openai", "torch"} & imported
