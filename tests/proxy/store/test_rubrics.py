"""Rubrics as the log keeps them, and which one judges an episode, on both databases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from proxy.store.database import Database
from proxy.store.rubrics import attachments, rubric_for, rubrics
from proxy.store.tables import AttachmentRow, EpisodeRow, FilingRow, RubricRow, RubricSourceRow
from tests.fixtures.lamp import NOON, at, episode, put

pytestmark = pytest.mark.anyio


def rubric(hash: str) -> dict[str, Any]:
    return {"hash": hash, "writer": "a person", "content": {"criteria": [hash]}, "created_at": NOON}


async def attach(database: Database, *places: tuple[str | None, str, str | None]) -> None:
    rows = [
        {"rubric_hash": hash, "scope": scope, "target": target, "attached_at": at(number)}
        for number, (hash, scope, target) in enumerate(places)
    ]
    async with database.writing() as connection:
        for each in rows:
            await database.add(connection, AttachmentRow, [each])


async def put_filed(database: Database, **filed: Mapping[str, str | None]) -> None:
    """Episodes with their filings, and four rubrics."""
    await put(
        database,
        {
            EpisodeRow: [episode(name) for name in (*filed, "e_unfiled")],
            FilingRow: [{"episode_id": name, "filed_at": NOON, **filing} for name, filing in filed.items()],
            RubricRow: [rubric(hash) for hash in ("general", "family", "task", "second")],
        },
    )


async def chosen(database: Database, episode_id: str) -> str | None:
    found = await rubric_for(database, episode_id)
    return None if found is None else found.hash


async def test_the_most_specific_rubric_judges_an_episode(database: Database) -> None:
    await put_filed(
        database,
        e_task={"task_key": "t_1", "family": "f_1"},
        e_family={"task_key": "t_2", "family": "f_1"},
        e_other={"task_key": "t_3", "family": "f_2"},
        e_untold={"task_key": None, "family": None},
    )
    assert await chosen(database, "e_task") is None
    await attach(database, ("task", "task", "t_1"), ("family", "family", "f_1"), ("general", "default", None))
    names = ("e_task", "e_family", "e_other", "e_untold", "e_unfiled", "e_unknown")
    assert [await chosen(database, name) for name in names] == [
        "task",
        "family",
        "general",
        "general",
        "general",
        "general",
    ]


async def test_the_latest_attachment_of_a_place_counts_and_may_be_none(database: Database) -> None:
    await put_filed(database, e_1={"task_key": "t_1", "family": "f_1"})
    await attach(
        database,
        ("general", "default", None),
        ("task", "task", "t_1"),
        ("second", "task", "t_1"),
        ("family", "family", "f_1"),
        (None, "family", "f_1"),
    )
    assert await chosen(database, "e_1") == "second"
    await attach(database, (None, "task", "t_1"))
    assert await chosen(database, "e_1") == "general"
    await attach(database, (None, "default", None))
    assert await chosen(database, "e_1") is None
    assert await attachments(database) == ()


async def test_no_rubric_judges_an_episode_that_it_was_made_from(database: Database) -> None:
    await put_filed(database, e_1={"task_key": "t_1", "family": "f_1"}, e_2={"task_key": "t_1", "family": "f_1"})
    await put(database, {RubricSourceRow: [{"rubric_hash": "task", "episode_id": "e_1"}]})
    await attach(database, ("task", "task", "t_1"), ("family", "family", "f_1"))
    assert (await chosen(database, "e_1"), await chosen(database, "e_2")) == ("family", "task")


async def test_a_rubric_comes_with_where_it_counts_and_what_it_was_made_from(database: Database) -> None:
    await put_filed(database)
    sources = [{"rubric_hash": "task", "episode_id": each} for each in ("e_2", "e_1")]
    await put(database, {RubricSourceRow: sources})
    await attach(database, ("task", "task", "t_1"), ("task", "task", "t_2"), ("second", "task", "t_1"))
    found = await rubrics(database)
    assert list(found) == ["family", "general", "second", "task"]
    assert [(each.scope, each.target) for each in found["task"].attachments] == [("task", "t_2")]
    assert found["task"].sources == ("e_1", "e_2")
    assert (found["general"].attachments, found["general"].sources) == ((), ())
    assert found["general"].content == {"criteria": ["general"]}
    assert list(await rubrics(database, ["second", "unknown"])) == ["second"]
    assert [each.rubric_hash for each in await attachments(database)] == ["task", "second"]
