"""Deleting for good: rows of every table, what is still to come, and the bytes on the disk."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import InstrumentedAttribute

from proxy.store.database import Database, read_url, sqlite_path
from proxy.store.deletions import Deletions, Selection, counted, delete, deletions_since, journals_clear
from proxy.store.orphans import KEPT
from proxy.store.retention import prune
from proxy.store.tables import (
    AttachmentRow,
    Base,
    CallRow,
    ClaimRow,
    DecisionRow,
    DefinitionRow,
    DeletionRow,
    EndingRow,
    EpisodeRow,
    FamilyRow,
    FilingRow,
    JudgementRow,
    LabelRow,
    RubricRow,
    RubricSourceRow,
    ShadowRow,
    SnapshotRow,
    StepRow,
)
from tests.fixtures.rows import row

pytestmark = pytest.mark.anyio
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MARK = "Xylophonbauer"


OF_EPISODES: tuple[type[Base], ...] = (
    StepRow,
    CallRow,
    DecisionRow,
    ShadowRow,
    EndingRow,
    RubricRow,
    RubricSourceRow,
    AttachmentRow,
    FamilyRow,
    FilingRow,
    ClaimRow,
    JudgementRow,
    LabelRow,
)


async def an_episode(
    database: Database, name: str, *, agent: str = "alice", began: datetime = AT, ended: bool = True, mark: str = MARK
) -> None:
    """An episode with a row in every table that belongs to one; its contents hold its name and the mark."""
    said = f"{mark} {name}"
    catalogue = {"catalog": "c_now"}
    rows: list[tuple[type[Base], dict[str, Any]]] = [
        (EpisodeRow, row(EpisodeRow, said, id=name, agent=agent, began_at=began, **catalogue)),
        (
            StepRow,
            row(StepRow, said, id=f"s_{name}", episode_id=name, stream=name, observation=said * 500, **catalogue),
        ),
        (CallRow, row(CallRow, said, step_id=f"s_{name}", episode_id=name, server="mail", tool="send")),
        (DecisionRow, row(DecisionRow, said, step_id=f"s_{name}", episode_id=name, **catalogue)),
        (ShadowRow, row(ShadowRow, said, step_id=f"s_{name}", episode_id=name)),
        (RubricRow, row(RubricRow, said, hash=f"r_{name}")),
        (RubricSourceRow, {"rubric_hash": f"r_{name}", "episode_id": name}),
        (AttachmentRow, {"rubric_hash": f"r_{name}", "scope": "task", "target": name, "attached_at": AT}),
        (FamilyRow, row(FamilyRow, said, id=f"f_{name}")),
        (FilingRow, row(FilingRow, said, episode_id=name, family=f"f_{name}")),
        (ClaimRow, row(ClaimRow, said, episode_id=name)),
        (JudgementRow, row(JudgementRow, said, id=f"j_{name}", episode_id=name, rubric_hash=f"r_{name}")),
        (LabelRow, row(LabelRow, said, id=f"l_{name}", episode_id=name)),
    ]
    if ended:
        rows.append((EndingRow, row(EndingRow, said, episode_id=name, ended_at=began)))
    async with database.writing() as connection:
        for table, values in rows:
            assert await database.add(connection, table, [_short(table, values)]) == 1


def _short(table: type[Base], values: dict[str, Any]) -> dict[str, Any]:
    """Only as long as the column takes."""
    lengths = {column.name: getattr(column.type, "length", None) for column in table.__table__.columns}
    return {
        name: value[: lengths[name]] if isinstance(value, str) and lengths[name] else value
        for name, value in values.items()
    }


async def count(database: Database, table: type[Base]) -> int:
    async with database.reading() as connection:
        return (await connection.execute(select(func.count()).select_from(table))).scalar_one()


async def there(database: Database) -> set[str]:
    async with database.reading() as connection:
        return set((await connection.execute(select(EpisodeRow.id))).scalars())


@pytest.mark.parametrize(
    ("selection", "left"),
    [
        (Selection(episodes=("e_1", "e_unknown")), {"e_2", "e_3"}),
        (Selection(agent="bob"), {"e_1", "e_2"}),
        (Selection(before=AT + timedelta(days=1)), {"e_2", "e_3"}),
        (Selection(since=AT + timedelta(days=1)), {"e_1"}),
        (Selection(since=AT + timedelta(days=1), agent="alice"), {"e_1", "e_3"}),
        (Selection(), set[str]()),
    ],
)
async def test_what_is_selected_goes_from_every_table_and_the_rest_stays(
    database: Database, selection: Selection, left: set[str]
) -> None:
    await an_episode(database, "e_1")
    await an_episode(database, "e_2", began=AT + timedelta(days=2))
    await an_episode(database, "e_3", began=AT + timedelta(days=2), agent="bob")
    deleted = await delete(database, selection)
    assert (deleted.episodes, deleted.steps, deleted.remains) == (3 - len(left), 3 - len(left), None)
    assert deleted.called == {("mail", "send")}
    assert await there(database) == left
    for table in OF_EPISODES:
        assert await count(database, table) == len(left), table.__tablename__


async def test_no_byte_of_it_is_left_on_the_disk(database: Database, database_url: str) -> None:
    # Others between them, shorter and longer, so that rows are moved about and no page is free of rows in the end.
    for number in range(60):
        await an_episode(database, f"e_{number}")
        await an_episode(database, f"k_{number}", agent="bob", mark="w" * (number * 7 % 300))
    if not database.sqlite:
        await _checkpoint(database)
    files = await _files(database, database_url)
    assert any(MARK.encode() in path.read_bytes() for path in files)
    assert (await delete(database, Selection(agent="alice"))).remains is None
    assert len(await there(database)) == 60
    if not database.sqlite:
        await _checkpoint(database)
    for path in await _files(database, database_url):
        assert MARK.encode() not in path.read_bytes(), path


async def judged_by_each_other(database: Database) -> None:
    """Two episodes, each judged and labelled by the rubric that was made from the other one, and a rubric of nobody."""
    for name in ("e_1", "e_2"):
        await an_episode(database, name, agent=name)
    async with database.writing() as connection:
        await database.add(connection, RubricRow, [row(RubricRow, hash="r_all")])
        for by, of in (("e_1", "e_2"), ("e_2", "e_1"), ("all", "e_2")):
            said = {"episode_id": of, "rubric_hash": f"r_{by}", "judge": "another"}
            await database.add(connection, JudgementRow, [row(JudgementRow, id=f"j_{by}_{of}", **said)])
            label = {"episode_id": of, "rubric_hash": f"r_{by}"}
            await database.add(connection, LabelRow, [row(LabelRow, id=f"l_{by}_{of}", **label)])
        whole = row(LabelRow, id="l_whole", episode_id="e_2", rubric_hash=None, criterion=None)
        await database.add(connection, LabelRow, [whole])


async def ids(database: Database, column: InstrumentedAttribute[str]) -> set[str]:
    async with database.reading() as connection:
        return set((await connection.execute(select(column))).scalars())


async def test_a_rubric_goes_with_an_episode_that_it_was_made_from_and_all_that_was_said_by_it(
    database: Database,
) -> None:
    await judged_by_each_other(database)
    async with database.reading() as connection:
        assert (await counted(connection, EpisodeRow.agent == "e_1")).rubrics == 1
    deleted = await delete(database, Selection(agent="e_1"))
    assert (deleted.episodes, deleted.rubrics) == (1, 1)
    assert await ids(database, RubricRow.hash) == {"r_e_2", "r_all"}
    assert await ids(database, JudgementRow.id) == {"j_e_2", "j_all_e_2"}
    # Whatever was said of it by no rubric, or by another one, stays.
    assert await ids(database, LabelRow.id) == {"l_e_2", "l_all_e_2", "l_whole"}
    assert await ids(database, AttachmentRow.rubric_hash) == {"r_e_2"}
    assert await ids(database, FamilyRow.id) == {"f_e_2"}


async def test_retention_takes_the_rubrics_of_what_it_takes(database: Database) -> None:
    await judged_by_each_other(database)
    pruned = await prune(database, 0, now=AT + timedelta(days=1))
    assert (pruned.episodes, pruned.rubrics) == (2, 2)
    assert await ids(database, RubricRow.hash) == {"r_all"}
    for table in (JudgementRow, LabelRow, RubricSourceRow, AttachmentRow, FamilyRow, FilingRow, ClaimRow):
        assert await count(database, table) == 0, table.__tablename__


async def test_a_family_that_a_rubric_is_attached_to_outlives_its_episodes(database: Database) -> None:
    await an_episode(database, "e_1")
    async with database.writing() as connection:
        await database.add(connection, RubricRow, [row(RubricRow, hash="r_all")])
        kept = {"rubric_hash": "r_all", "scope": "family", "target": "f_e_1", "attached_at": AT}
        await database.add(connection, AttachmentRow, [kept])
    await delete(database, Selection())
    assert await ids(database, FamilyRow.id) == {"f_e_1"}


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_a_rubric_that_is_being_written_goes_with_the_episode_that_it_is_made_from(database: Database) -> None:
    # SQLite has one writer at a time.
    await an_episode(database, "e_1")
    async with anyio.create_task_group() as tasks:
        async with database.writing() as connection:
            there = select(EpisodeRow.id).where(EpisodeRow.id == "e_1").with_for_update(read=True, key_share=True)
            assert (await connection.execute(there)).scalar_one() == "e_1"
            tasks.start_soon(partial(prune, database, 0, now=AT + timedelta(days=1)))
            await _wait_for_a_waiter(database)
            await database.add(connection, RubricRow, [row(RubricRow, hash="r_new")])
            await database.add(connection, RubricSourceRow, [{"rubric_hash": "r_new", "episode_id": "e_1"}])
    assert await there_are(database) == {"episodes": 0, "rubrics": 0}


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_a_judgement_that_is_being_written_goes_with_its_rubric(database: Database) -> None:
    await an_episode(database, "e_1")
    await an_episode(database, "e_2", agent="bob")
    async with anyio.create_task_group() as tasks:
        async with database.writing() as connection:
            said = row(JudgementRow, id="j_new", episode_id="e_2", rubric_hash="r_e_1", judge="slow")
            await database.add(connection, JudgementRow, [said])
            tasks.start_soon(delete, database, Selection(agent="alice"))
            await _wait_for_a_waiter(database)
    assert await ids(database, JudgementRow.id) == {"j_e_2"}


async def there_are(database: Database) -> dict[str, int]:
    return {table.__tablename__: await count(database, table) for table in (EpisodeRow, RubricRow)}


async def _checkpoint(database: Database) -> None:
    async with database.writing() as connection:
        await connection.execute(text("CHECKPOINT"))


async def _files(database: Database, url: str) -> list[Path]:
    """Where rows lie: files of SQLite, or of PostgreSQL's tables and their indexes and long values."""
    if database.sqlite:
        return [path for path in sqlite_path(read_url(url)).parent.iterdir() if path.is_file()]
    query = text(
        "SELECT current_setting('data_directory'), pg_relation_filepath(oid) FROM pg_class "
        "WHERE relkind IN ('r', 'i', 't')"
    )
    async with database.reading() as connection:
        found = [Path(folder) / path for folder, path in (await connection.execute(query)).all() if path is not None]
    if not found or not os.access(found[0].parent, os.R_OK):
        pytest.skip("PostgreSQL's files are not readable here")
    return [path for path in found if path.exists()]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_reader_that_is_busy_is_told_of_and_the_next_try_succeeds(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of its write-ahead log, which PostgreSQL has not in this way.
    monkeypatch.setattr("proxy.store.erasing.WAIT_S", 0.05)
    await an_episode(database, "e_1")
    async with database.reading() as connection:
        await connection.execute(select(EpisodeRow.id))
        deleted = await delete(database, Selection(episodes=("e_1",)))
        assert deleted.episodes == 1
        assert deleted.remains is not None
    assert (await delete(database, Selection(episodes=("e_1",)))).remains is None


async def test_later_episodes_of_the_agent_are_kept_and_those_deleted_are_not_written_again(database: Database) -> None:
    await delete(database, Selection(agent="alice"))
    await delete(database, Selection(episodes=("e_7",)))
    await delete(database, Selection(before=datetime.now(UTC) + timedelta(days=900), agent="carol"))
    async with database.writing() as connection:
        deletions = await Deletions.load(connection)
    later = datetime.now(UTC) + timedelta(seconds=1)
    assert deletions.covers("e_1", "alice", AT)
    assert not deletions.covers("e_1", "alice", later)
    assert not deletions.covers("e_1", "bob", AT)
    assert deletions.covers("e_7", "bob", later)
    assert not deletions.covers("e_1", "carol", later)


async def test_a_writer_that_has_not_seen_the_deletion_is_waited_for(database: Database) -> None:
    async with anyio.create_task_group() as tasks:
        async with database.writing() as connection:
            assert not (await Deletions.load(connection)).covers("e_1", "alice", AT)
            tasks.start_soon(delete, database, Selection(episodes=("e_1",)))
            if not database.sqlite:
                await _wait_for_a_waiter(database)
            await database.add(connection, EpisodeRow, [row(EpisodeRow, id="e_1", agent="alice", began_at=AT)])
    assert await there(database) == set()
    async with database.writing() as connection:
        assert (await Deletions.load(connection)).covers("e_1", "alice", AT)


async def _wait_for_a_waiter(database: Database) -> None:
    with anyio.fail_after(30):
        while True:
            async with database.reading() as connection:
                if (await connection.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted"))).scalar_one():
                    return


async def test_new_deletions_are_told_once(database: Database) -> None:
    assert await deletions_since(database, 0) == ([], 0)
    await delete(database, Selection(agent="alice"))
    first, last = await deletions_since(database, 0)
    assert [selection.agent for selection in first] == ["alice"]
    assert first[0].covers("e_1", "alice", AT)
    assert await deletions_since(database, last) == ([], last)
    await delete(database, Selection(episodes=("e_1", "e_2")))
    second, _ = await deletions_since(database, last)
    assert second == [Selection(episodes=("e_1", "e_2"))]


async def test_catalogues_that_nothing_refers_to_go_after_a_while_with_definitions_of_their_own(
    database: Database,
) -> None:
    now = datetime.now(UTC)
    old = now - KEPT - timedelta(days=1)
    await an_episode(database, "e_1")
    async with database.writing() as connection:
        for name in ("shared", "only_old", "only_new"):
            await database.add(connection, DefinitionRow, [row(DefinitionRow, hash=name)])
        for name, taken, tools in (
            ("c_now", old, ["shared"]),
            ("c_old", old, ["shared", "only_old"]),
            ("c_new", now, ["only_new"]),
        ):
            tools = [[tool, tool] for tool in tools]
            await database.add(connection, SnapshotRow, [row(SnapshotRow, hash=name, taken_at=taken, tools=tools)])
    await delete(database, Selection(episodes=("e_none",)))
    async with database.reading() as connection:
        assert set((await connection.execute(select(SnapshotRow.hash))).scalars()) == {"c_now", "c_new"}
        assert set((await connection.execute(select(DefinitionRow.hash))).scalars()) == {"shared", "only_new"}
    await delete(database, Selection())
    async with database.reading() as connection:
        assert set((await connection.execute(select(SnapshotRow.hash))).scalars()) == {"c_new"}
        assert set((await connection.execute(select(DefinitionRow.hash))).scalars()) == {"only_new"}


async def test_a_failed_deletion_leaves_no_trace(database: Database) -> None:
    await an_episode(database, "e_1")
    async with database.writing() as connection:
        await connection.execute(text("DROP TABLE decisions"))
    with pytest.raises(Exception, match="decisions"):
        await delete(database, Selection(episodes=("e_1",)))
    assert await there(database) == {"e_1"}
    assert await count(database, DeletionRow) == 0


async def test_journals_are_clear_once_what_they_held_is_gone(tmp_path: Path) -> None:
    assert await journals_clear(tmp_path / "none", 0) == []
    stream = tmp_path / "stream"
    stream.mkdir()
    segment = stream / "000000000001.journal"
    segment.write_bytes(b"x")
    assert await journals_clear(tmp_path, 0) == ["stream"]
    async with anyio.create_task_group() as tasks:

        async def ship() -> None:
            segment.unlink()

        tasks.start_soon(ship)
        assert await journals_clear(tmp_path, 30) == []


@pytest.mark.parametrize("wrong", [{"since": datetime(2026, 1, 1)}, {"episodes": ("e",) * 1_001}])  # noqa: DTZ001
def test_a_selection_that_cannot_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"zone|at most"):
        Selection(**wrong)
