"""Migrations on both databases: up, down with rows in the tables, several at once, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import Connection, func, inspect, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.errors import ConfigurationError
from proxy.store.database import Database
from proxy.store.migrating import HEAD, differences, migrate, revision
from proxy.store.tables import Base, DecisionRow, EpisodeRow, JudgementRow, ShadowRow, StepRow
from tests.fixtures.rows import fill, row, tables

pytestmark = pytest.mark.anyio

WAIT_S = 60.0


@asynccontextmanager
async def writing(url: str) -> AsyncIterator[AsyncConnection]:
    database = Database(url)
    try:
        async with database.writing() as connection:
            yield connection
    finally:
        await database.close()


async def counts(url: str) -> dict[str, int]:
    async with writing(url) as connection:
        return {
            table.__tablename__: (await connection.execute(select(func.count()).select_from(table))).scalar_one()
            for table in tables()
        }


OLD_ROWS = """
INSERT INTO rubrics (hash, scope, target, writer, content, created_at) VALUES
  ('of_one', 'task', 'x', 'somebody', '{"text":"old"}', '2026-11-30 12:00:00'),
  ('of_many', 'family', 'f_1', 'somebody', '{}', '2026-11-30 12:00:00'),
  ('of_all', 'default', NULL, 'somebody', '{}', '2026-11-30 12:00:00');
INSERT INTO judgements
  (id, episode_id, rubric_hash, judge, prompt_hash, seed, verdicts, subtotals, reward, cost, created_at) VALUES
  ('j_later', 'x', 'of_one', 'm', NULL, 2, '[{"a":1}]', '{}', 0.5, NULL, '2026-11-30 12:00:02'),
  ('j_first', 'x', 'of_one', 'm', 'p', 1, '[]', '{}', NULL, '{"tokens":1}', '2026-11-30 12:00:01'),
  ('j_other', 'x', 'of_all', 'm', NULL, NULL, '[]', '{}', 0.25, NULL, '2026-11-30 12:00:00');
INSERT INTO labels (id, episode_id, labeller, value, created_at) VALUES ('l', 'x', 'ann', 0.5, '2026-11-30 12:00:00')
"""
"""What 0001 kept of judgements."""


async def rows_of(url: str, table: str) -> list[dict[str, Any]]:
    """All rows of a table, as the database has them now, in the order of their first column."""
    async with writing(url) as connection:
        found = (await connection.execute(text(f"SELECT * FROM {table} ORDER BY 1"))).mappings().all()
    return [dict(each) for each in found]


def old_episode() -> dict[str, Any]:
    """As the revisions before 0004 keep it."""
    return {name: value for name, value in row(EpisodeRow).items() if name != "parent_step"}


async def filled(url: str) -> None:
    database = Database(url)
    try:
        await fill(database)
    finally:
        await database.close()


def described(connection: Connection) -> dict[str, Any]:
    """Everything that the database knows of our tables, with the names of keys and indexes."""
    inspector = inspect(connection)

    def ordered(found: list[Any]) -> list[Any]:
        return sorted(found, key=lambda item: str(item["name"]))

    return {
        table: {
            "columns": [{**column, "type": str(column["type"])} for column in inspector.get_columns(table)],
            "key": inspector.get_pk_constraint(table),
            "references": ordered(list(inspector.get_foreign_keys(table))),
            "unique": ordered(list(inspector.get_unique_constraints(table))),
            "indexes": ordered(list(inspector.get_indexes(table))),
        }
        for table in Base.metadata.tables
    }


async def test_revisions_make_exactly_the_tables_that_the_code_describes(database_url: str) -> None:
    await migrate(database_url)
    assert await revision(database_url) == HEAD, "HEAD in migrating.py is not the newest revision"
    assert await differences(database_url) == []
    async with writing(database_url) as connection:
        migrated = await connection.run_sync(described)
    await migrate(database_url, to="base")
    async with writing(database_url) as connection:
        await connection.run_sync(Base.metadata.create_all)
        assert await connection.run_sync(described) == migrated


async def test_a_database_with_rows_goes_back_to_nothing_and_up_again(database_url: str) -> None:
    await migrate(database_url)
    await filled(database_url)
    await migrate(database_url)
    assert set((await counts(database_url)).values()) == {1}, "migrating again changed something"
    await migrate(database_url, to="base")
    assert await revision(database_url) is None
    async with writing(database_url) as connection:
        left = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    assert left == ["alembic_version"], "something stayed behind"
    await migrate(database_url, to="base")
    await migrate(database_url)
    assert set((await counts(database_url)).values()) == {0}, "the first revision taken back loses the whole log"
    await filled(database_url)


async def test_what_was_judged_under_the_first_revision_stays_and_comes_back(database_url: str) -> None:
    await migrate(database_url, to="0001")
    old = Database(database_url)
    async with old.writing() as connection:
        await old.add(connection, EpisodeRow, [old_episode()])
        for statement in OLD_ROWS.split(";"):
            await connection.exec_driver_sql(statement)
    await old.close()
    before = {table: await rows_of(database_url, table) for table in ("episodes", "rubrics", "judgements", "labels")}

    await migrate(database_url)
    assert await differences(database_url) == []
    kept = (
        "id",
        "episode_id",
        "rubric_hash",
        "judge",
        "prompt_hash",
        "seed",
        "verdicts",
        "subtotals",
        "reward",
        "cost",
    )
    judged = await rows_of(database_url, "judgements")
    assert [{name: each[name] for name in kept} for each in judged] == [
        {name: each[name] for name in kept} for each in before["judgements"]
    ]
    assert {(each["id"], each["repeat"], each["scope"], each["unrewarded"]) for each in judged} == {
        ("j_first", 0, "unknown", None),
        ("j_later", 1, "unknown", None),
        ("j_other", 0, "unknown", None),
    }
    assert [(each["hash"], each["content"]) for each in await rows_of(database_url, "rubrics")] == [
        ("of_all", "{}"),
        ("of_many", "{}"),
        ("of_one", '{"text":"old"}'),
    ]
    assert await rows_of(database_url, "rubric_sources") == [{"rubric_hash": "of_one", "episode_id": "x"}]
    attached = await rows_of(database_url, "attachments")
    assert [(each["rubric_hash"], each["scope"], each["target"]) for each in attached] == [
        ("of_all", "default", None),
        ("of_many", "family", "f_1"),
    ]

    await migrate(database_url, to="0001")
    after = {table: await rows_of(database_url, table) for table in before}
    # Columns that were put back stand at the end.
    assert after == before


async def test_going_back_keeps_what_the_first_revision_has_a_place_for(database_url: str) -> None:
    await migrate(database_url)
    await filled(database_url)
    new = Database(database_url)
    async with new.writing() as connection:
        again = row(JudgementRow, id="again", episode_id="x", rubric_hash="x", repeat=2)
        assert await new.add(connection, JudgementRow, [again]) == 1
        await connection.execute(
            text(
                "INSERT INTO labels (id, episode_id, labeller, created_at) SELECT "
                "'unsure', episode_id, labeller, created_at FROM labels"
            )
        )
    await new.close()
    await migrate(database_url, to="0001")
    assert {each["id"] for each in await rows_of(database_url, "judgements")} == {"x", "again"}
    assert [each["id"] for each in await rows_of(database_url, "labels")] == ["x"]
    (rubric,) = await rows_of(database_url, "rubrics")
    assert (rubric["scope"], rubric["target"]) == ("task", "x")
    await migrate(database_url)
    assert {(each["id"], each["repeat"]) for each in await rows_of(database_url, "judgements")} == {
        ("again", 0),
        ("x", 1),
    }, "of the same moment, the ids decide"
    assert await differences(database_url) == []


async def test_what_was_decided_under_the_second_revision_stays_and_comes_back(database_url: str) -> None:
    await migrate(database_url, to="0002")
    old = Database(database_url)
    async with old.writing() as connection:
        await old.add(connection, EpisodeRow, [old_episode()])
        await old.add(connection, StepRow, [row(StepRow)])
        await connection.exec_driver_sql(
            "INSERT INTO decisions (step_id, episode_id, policy, candidates, shown, catalog, decided_at, duration_ms) "
            "VALUES ('x', 'x', 'lexical', '[[\"a.b\",2.5]]', '[\"a.b\"]', 'c', '2026-11-30 12:00:00', 1.5)"
        )
    await old.close()
    before = await rows_of(database_url, "decisions")
    await migrate(database_url)
    assert await differences(database_url) == []
    unknown = dict.fromkeys(("asked", "cut", "entropy", "sure", "explored"))
    assert await rows_of(database_url, "decisions") == [{**before[0], **unknown}]
    await migrate(database_url, to="0002")
    assert await rows_of(database_url, "decisions") == before


async def test_going_back_from_the_fourth_revision_loses_links_and_shadows_alone(database_url: str) -> None:
    await migrate(database_url, to="0003")
    old = Database(database_url)
    async with old.writing() as connection:
        await old.add(connection, EpisodeRow, [old_episode()])
        await old.add(connection, StepRow, [row(StepRow)])
        await old.add(connection, DecisionRow, [row(DecisionRow)])
    await old.close()
    kept = ("episodes", "steps", "decisions")
    before = {table: await rows_of(database_url, table) for table in kept}
    await migrate(database_url)
    assert await differences(database_url) == []
    assert await rows_of(database_url, "episodes") == [{**before["episodes"][0], "parent_step": None}]
    new = Database(database_url)
    async with new.writing() as connection:
        await new.add(connection, ShadowRow, [row(ShadowRow)])
        await connection.execute(text("UPDATE episodes SET parent_step = 's'"))
    await new.close()
    await migrate(database_url, to="0003")
    assert {table: await rows_of(database_url, table) for table in kept} == before


async def test_adapters_of_before_the_fifth_revision_stay_with_their_states(database_url: str) -> None:
    await migrate(database_url, to="0004")
    async with writing(database_url) as connection:
        await connection.exec_driver_sql(
            "INSERT INTO adapters (hash, kind, base_hash, data_hash, config, metrics, created_at) "
            "VALUES ('h', 'head', 'b', 'd', '{}', NULL, '2026-11-30 12:00:00')"
        )
        await connection.exec_driver_sql(
            "INSERT INTO adapter_states (adapter_hash, state, reason, changed_at) "
            "VALUES ('h', 'active', 'because', '2026-11-30 12:00:00')"
        )
    kept = ("adapters", "adapter_states")
    before = {table: await rows_of(database_url, table) for table in kept}
    await migrate(database_url)
    assert await differences(database_url) == []
    assert await rows_of(database_url, "adapters") == [{**before["adapters"][0], "run": None}]
    (state,) = await rows_of(database_url, "adapter_states")
    assert state == {**before["adapter_states"][0], "share": None, "changed_by": None}
    await migrate(database_url, to="0004")
    assert {table: await rows_of(database_url, table) for table in kept} == before


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("ALTER TABLE steps ADD COLUMN mood TEXT", "mood"),
        ("DROP INDEX ix_episodes_began_at_id", "ix_episodes_began_at_id"),
        ("CREATE TABLE moods (mood TEXT)", "moods"),
    ],
)
async def test_the_check_finds_what_was_changed_by_hand(
    database: Database, database_url: str, change: str, name: str
) -> None:
    async with database.writing() as connection:
        await connection.execute(text(change))
    (found,) = await differences(database_url)
    assert name in found


async def test_processes_that_migrate_at_the_same_time_all_succeed(database_url: str) -> None:
    code = "import asyncio, sys; from proxy.store.migrating import migrate; asyncio.run(migrate(sys.argv[1]))"
    command = [sys.executable, "-c", code, database_url]
    with anyio.fail_after(WAIT_S):
        started = [
            await anyio.open_process(command, stdin=subprocess.DEVNULL, stdout=None, stderr=None) for _ in range(4)
        ]
        assert [await process.wait() for process in started] == [0] * 4
    assert await differences(database_url) == []


async def test_a_database_that_a_newer_version_migrated_is_refused_and_left_alone(
    database: Database, database_url: str
) -> None:
    async with database.writing() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for refused in (migrate(database_url), migrate(database_url, to="base"), revision(database_url)):
        with pytest.raises(ConfigurationError, match=r"revision 9999.*a newer version has migrated it"):
            await refused
    await filled(database_url)


async def test_tables_of_another_program_are_left_alone(database_url: str) -> None:
    async with writing(database_url) as connection:
        await connection.execute(text("CREATE TABLE steps (stair TEXT)"))
        await connection.execute(text("INSERT INTO steps VALUES ('first')"))
    with pytest.raises(ConfigurationError, match="a database of its own"):
        await migrate(database_url)
    async with writing(database_url) as connection:
        assert (await connection.execute(text("SELECT stair FROM steps"))).scalar_one() == "first"


async def test_an_unknown_revision_is_refused_with_those_there_are(database_url: str) -> None:
    with pytest.raises(
        ConfigurationError, match="no revision '7'; there are: base, 0001, 0002, 0003, 0004, 0005, 0006"
    ):
        await migrate(database_url, to="7")


async def test_asking_for_the_revision_of_a_file_that_is_not_there_makes_none(tmp_path: Path) -> None:
    assert await revision(f"sqlite:///{tmp_path / 'log.db'}") is None
    assert os.listdir(tmp_path) == []
