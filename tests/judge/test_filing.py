"""Filing on real databases: every ended episode once, and nothing of its words."""

from __future__ import annotations

import anyio
import pytest
from sqlalchemy import delete, select, update

from judge.filing import file_episodes
from judge.writing.families import task_key
from proxy.store.database import Database
from proxy.store.judging_tables import FamilyRow, FilingRow
from proxy.store.tables import EndingRow, EpisodeRow
from tests.fixtures.logged import write
from tests.judge.logs import TASK, an_episode, id_of, running, write_episodes

pytestmark = pytest.mark.anyio

OTHER_CITY = "What time is it in Lima?"
OTHER_REQUEST = "Write a summary of the quarterly report and mail it to everybody in the sales team"


async def filings(database: Database) -> dict[str, tuple[str | None, str | None]]:
    async with database.reading() as connection:
        rows = await connection.execute(select(FilingRow.episode_id, FilingRow.task_key, FilingRow.family))
        return {row.episode_id: (row.task_key, row.family) for row in rows}


async def families(database: Database) -> list[str]:
    async with database.reading() as connection:
        return list((await connection.execute(select(FamilyRow.id))).scalars())


async def test_the_same_request_is_one_family_and_the_same_words_are_one_task(database: Database) -> None:
    tasks = [TASK, f"  {TASK.upper()} ", OTHER_CITY, OTHER_REQUEST]
    await write(database, *(an_episode(number, task=task) for number, task in enumerate(tasks)))
    assert await file_episodes(database) == 4
    filed = await filings(database)
    keys, its_families = zip(*(filed[id_of(number)] for number in range(4)), strict=True)
    assert keys == tuple(map(task_key, tasks))
    assert keys[0] == keys[1]
    assert its_families[0] == its_families[1] == its_families[2] != its_families[3]
    assert sorted(await families(database)) == sorted({its_families[0], its_families[3]})


async def test_without_a_task_in_the_users_words_there_is_neither_task_nor_family(database: Database) -> None:
    await write(database, an_episode(0, task=None), an_episode(1, task=" "), an_episode(2, task="time in a city"))
    async with database.writing() as connection:
        only_searched = update(EndingRow).where(EndingRow.episode_id == id_of(2)).values(task_source="queries")
        await connection.execute(only_searched)
    assert await file_episodes(database) == 3
    assert set((await filings(database)).values()) == {(None, None)}
    assert await families(database) == []


async def test_only_what_has_ended_is_filed_and_only_once(database: Database) -> None:
    await write(database, an_episode(0), running(1))
    assert await file_episodes(database) == 1
    assert await file_episodes(database) == 0
    await write_episodes(database, [2])
    assert await file_episodes(database) == 1
    filed = await filings(database)
    assert filed[id_of(0)] == filed[id_of(2)]
    assert len(await families(database)) == 1


async def test_several_that_file_at_once_file_each_episode_once(database: Database, database_url: str) -> None:
    await write_episodes(database, range(1_200))
    counts: list[int] = []

    async def work() -> None:
        own = Database(database_url)
        try:
            counts.append(await file_episodes(own))
        finally:
            await own.close()

    with anyio.fail_after(100):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(work)
    assert sum(counts) == 1_200
    filed = await filings(database)
    assert len(filed) == 1_200
    assert {family for _, family in filed.values()} == set(await families(database))
    assert len(await families(database)) == 1


async def test_a_filing_goes_with_its_episode(database: Database) -> None:
    await write_episodes(database, [0])
    await file_episodes(database)
    async with database.writing() as connection:
        await connection.execute(delete(EpisodeRow))
    assert await filings(database) == {}
