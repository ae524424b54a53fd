"""Reports of training on both databases: what is saved is read, and words go with the episode that they are from."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update

from proxy.store.database import Database
from proxy.store.deletions import Selection, delete
from proxy.store.tables import TrainingReportRow
from proxy.store.training_report import Report
from proxy.store.training_runs import read, recent, save
from tests.fixtures import logged
from tests.fixtures.training_reports import EPISODE, RUN, off_policy, report

pytestmark = pytest.mark.anyio


def kept(made: Report) -> Report:
    return replace(made, slices=tuple(replace(each, differences=(), clusters=()) for each in made.slices))


async def test_what_is_saved_is_read(database: Database) -> None:
    await logged.write(database, *logged.sample())
    made = report(from_log=off_policy())
    await save(database, made)
    assert await read(database, RUN) == kept(made)
    assert await recent(database) == [replace(kept(made), changed=())]
    assert await read(database, "another") is None


async def test_the_latest_of_a_run_counts_and_runs_come_newest_first(database: Database) -> None:
    first = report(changed=())
    later = replace(first, latency_p95_ms=12.0)
    other = replace(first, run="20261201-000000-ffffff", made_at=first.made_at + timedelta(days=1))
    for made in (other, first, later):
        await save(database, made)
    found = await recent(database)
    assert [(each.run, each.latency_p95_ms) for each in found] == [(other.run, 31.4), (RUN, 12.0)]
    assert await read(database, RUN) == kept(later)


async def test_an_example_goes_with_its_episode(database: Database) -> None:
    await logged.write(database, *logged.sample())
    await save(database, report())
    await delete(database, Selection(episodes=(EPISODE,)))
    found = await read(database, RUN)
    assert found is not None
    assert [each.query for each in found.changed] == ["rows of the table of orders"]


async def test_an_example_of_an_episode_that_is_gone_is_not_kept(database: Database) -> None:
    await save(database, report())
    found = await read(database, RUN)
    assert found is not None
    assert [each.episode_id for each in found.changed] == [None]


async def test_a_report_of_another_version_is_told_from_one_that_is_not_there(database: Database) -> None:
    await save(database, report(changed=()))
    async with database.writing() as connection:
        await connection.execute(update(TrainingReportRow).values(report={"run": RUN}))
    assert await recent(database) == []
    with pytest.raises(ValueError, match="does not fit this version"):
        await read(database, RUN)
