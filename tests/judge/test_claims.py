"""Claims on real databases: who judges what, once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import anyio
import pytest
from sqlalchemy import delete, select, update

from judge.claims import Claim, Claims, Wanted
from judge.keeping import attach, keep_judgements
from proxy.store.database import Database
from proxy.store.filters import Filters
from proxy.store.judging_tables import ClaimRow, RubricSourceRow
from proxy.store.rubrics import Attached
from proxy.store.tables import EpisodeRow
from tests.fixtures.logged import NOON, write
from tests.judge.logs import filed, id_of, rubric_row, running, write_episodes

pytestmark = pytest.mark.anyio

JUDGE = "checks-1/ab12cd34"
DEFAULT, OF_FAMILY, OF_TASK, OTHER = "d" * 64, "f" * 64, "a" * 64, "0" * 64
LONG_S = 600.0


@pytest.fixture
async def log(database: Database) -> Database:
    """Ten episodes, all ended and filed, and the default rubric."""
    await write_episodes(database, range(10))
    await filed(database, range(10))
    for hash_ in (DEFAULT, OF_FAMILY, OF_TASK, OTHER):
        await rubric_row(database, hash_)
    return database


def claims(database: Database, worker: str = "w_1", *, lease_s: float = LONG_S, **given: Any) -> Claims:
    values: dict[str, Any] = {"judge": JUDGE, "default": DEFAULT}
    return Claims(database, Wanted(**(values | given)), worker=worker, lease_s=lease_s)


async def judge(database: Database, taken: Sequence[Claim], *, judge: str = JUDGE, repeat: int = 0) -> None:
    rows = [
        {
            "id": f"j_{claim.episode_id}_{claim.rubric_hash[:4]}_{judge[:5]}_{repeat}"[-40:],
            "episode_id": claim.episode_id,
            "rubric_hash": claim.rubric_hash,
            "judge": judge,
            "prompt_hash": None,
            "seed": None,
            "verdicts": [],
            "subtotals": {},
            "reward": 0.5,
            "cost": None,
            "created_at": NOON,
            "repeat": repeat,
            "scope": "calls",
            "unrewarded": None,
            "credits": None,
            "batch": None,
        }
        for claim in taken
    ]
    assert await keep_judgements(database, rows) == len(rows)


async def expire(database: Database) -> None:
    async with database.writing() as connection:
        await connection.execute(update(ClaimRow).values(until=NOON - timedelta(days=900)))


async def claimed(database: Database) -> dict[str, str]:
    async with database.reading() as connection:
        rows = await connection.execute(select(ClaimRow.episode_id, ClaimRow.worker))
        return {row.episode_id: row.worker for row in rows}


def numbers(taken: Sequence[Claim]) -> list[int]:
    return [int(claim.episode_id[2:], 16) for claim in taken]


async def test_the_oldest_come_first_and_each_only_once(log: Database) -> None:
    one, two = claims(log, "w_1"), claims(log, "w_2")
    assert numbers(await one.take(3)) == [0, 1, 2]
    assert numbers(await two.take(4)) == [3, 4, 5, 6]
    assert numbers(await one.take(50)) == [7, 8, 9]
    assert await one.take(50) == []
    assert await two.take(50) == []
    assert sorted(await claimed(log)) == [id_of(number) for number in range(10)]


async def test_only_what_has_ended_and_is_filed_is_claimed(log: Database) -> None:
    await write(log, running(20))
    await write_episodes(log, [21])
    await filed(log, [20])
    assert numbers(await claims(log).take(50)) == list(range(10))


async def test_what_is_judged_is_not_claimed_again_unless_by_another_judge_or_once_more(log: Database) -> None:
    one = claims(log)
    taken = await one.take(50)
    assert (await one.left(), await one.waiting()) == (True, 10)
    await judge(log, taken)
    await one.release([claim.episode_id for claim in taken])
    assert await claims(log).take(50) == []
    assert (await one.left(), await one.waiting()) == (False, 0)
    assert len(await claims(log, repeat=1).take(50)) == 10
    assert len(await claims(log, judge="another").take(50)) == 10


async def test_what_was_given_back_is_found_in_the_next_round(log: Database) -> None:
    one, two = claims(log, "w_1"), claims(log, "w_2")
    await one.take(5)
    assert numbers(await two.take(5)) == [5, 6, 7, 8, 9]
    await one.release([id_of(number) for number in range(5)])
    assert numbers(await two.take(5)) == [0, 1, 2, 3, 4]


async def test_a_lease_that_ran_out_is_taken_over_and_the_first_worker_can_neither_renew_nor_release_it(
    log: Database,
) -> None:
    one, two = claims(log, "w_1"), claims(log, "w_2")
    ids = [claim.episode_id for claim in await one.take(50)]
    assert await two.take(50) == []
    assert await two.left()
    await expire(log)
    assert len(await two.take(50)) == 10
    await one.renew(ids)
    await one.release(ids)
    assert await claimed(log) == dict.fromkeys(ids, "w_2")
    assert await claims(log, "w_3").take(50) == []


async def test_a_renewed_lease_holds(log: Database) -> None:
    one, two = claims(log, "w_1"), claims(log, "w_2")
    ids = [claim.episode_id for claim in await one.take(50)]
    await expire(log)
    await one.renew(ids)
    assert await two.take(50) == []


async def test_the_clock_of_the_database_decides(log: Database) -> None:
    """A lease of a second, taken by the database's time, is over when the database says so."""
    await claims(log, "w_1", lease_s=0.05).take(50)
    two = claims(log, "w_2")
    with anyio.fail_after(60):
        while not (taken := await two.take(50)):
            pass
    assert len(taken) == 10


async def test_filters_choose(log: Database) -> None:
    filters = Filters(since=NOON + timedelta(seconds=4), before=NOON + timedelta(seconds=7))
    assert numbers(await claims(log, filters=filters).take(50)) == [4, 5, 6]
    assert await claims(log, "w_2", filters=Filters(agent="nobody")).take(50) == []
    assert not await claims(log, "w_3", filters=Filters(agent="nobody")).left()


async def test_the_most_specific_rubric_counts(log: Database) -> None:
    async def now() -> str:
        one = claims(log)
        (taken,) = await one.take(1)
        await one.release([taken.episode_id])
        return taken.rubric_hash

    assert await now() == DEFAULT
    await attach(log, OTHER, Attached.DEFAULT)
    assert await now() == OTHER
    await attach(log, OF_FAMILY, Attached.FAMILY, "f_1")
    await attach(log, OF_FAMILY, Attached.FAMILY, "f_2")
    assert await now() == OF_FAMILY
    await attach(log, OF_TASK, Attached.TASK, "t_1")
    assert await now() == OF_TASK
    await attach(log, OTHER, Attached.TASK, "t_1")
    assert await now() == OTHER
    await attach(log, None, Attached.TASK, "t_1")
    await attach(log, None, Attached.FAMILY, "f_1")
    await attach(log, None, Attached.DEFAULT)
    assert await now() == DEFAULT


async def test_a_rubric_never_judges_what_it_was_made_from(log: Database) -> None:
    await attach(log, OF_TASK, Attached.TASK, "t_1")
    await attach(log, OF_FAMILY, Attached.FAMILY, "f_1")
    async with log.writing() as connection:
        made_from = [
            {"rubric_hash": OF_TASK, "episode_id": id_of(0)},
            {"rubric_hash": OF_TASK, "episode_id": id_of(1)},
            {"rubric_hash": OF_FAMILY, "episode_id": id_of(1)},
        ]
        await log.add(connection, RubricSourceRow, made_from)
    taken = await claims(log).take(3)
    assert [claim.rubric_hash for claim in taken] == [OF_FAMILY, DEFAULT, OF_TASK]
    named = await claims(log, "w_2", rubric=OF_TASK, repeat=1).take(50)
    assert numbers(named) == list(range(2, 10))
    assert {claim.rubric_hash for claim in named} == {OF_TASK}


async def test_an_episode_is_judged_again_when_another_rubric_comes_to_count(log: Database) -> None:
    one = claims(log)
    taken = await one.take(50)
    await judge(log, taken)
    await one.release([claim.episode_id for claim in taken])
    await attach(log, OF_FAMILY, Attached.FAMILY, "f_1")
    again = await one.take(50)
    assert {claim.rubric_hash for claim in again} == {OF_FAMILY}
    assert len(again) == 10


async def test_what_was_judged_or_deleted_between_finding_and_taking_is_not_taken(log: Database) -> None:
    one = claims(log)
    found = await one._find(50)  # pyright: ignore[reportPrivateUsage] - the moment between the two
    await judge(log, [Claim(id_of(0), DEFAULT)])
    async with log.writing() as connection:
        await connection.execute(delete(EpisodeRow).where(EpisodeRow.id == id_of(1)))
    taken = await one._take([each.id for each in found])  # pyright: ignore[reportPrivateUsage]
    assert numbers(taken) == list(range(2, 10))
    assert set(await claimed(log)) == {claim.episode_id for claim in taken}


async def test_workers_at_the_same_time_share_without_a_gap(log: Database, database_url: str) -> None:
    await write_episodes(log, range(10, 200))
    await filed(log, range(10, 200))
    taken: dict[str, list[Claim]] = {f"w_{number}": [] for number in range(4)}

    async def work(worker: str) -> None:
        database = Database(database_url)
        try:
            mine = claims(database, worker)
            while some := await mine.take(7):
                taken[worker] += some
        finally:
            await database.close()

    with anyio.fail_after(100):
        async with anyio.create_task_group() as tasks:
            for worker in taken:
                tasks.start_soon(work, worker)
    everything = [claim.episode_id for each in taken.values() for claim in each]
    assert sorted(everything) == [id_of(number) for number in range(200)]
