"""Logs for tests of the running judge: episodes of a few steps, ended and filed as a test says.

Above: tests of claims, running and commands. Below: tests/fixtures/logged.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from judge.rubric import Category, Criterion, Kind, Rubric
from proxy.store.database import Database
from proxy.store.judging_tables import FilingRow, RubricRow
from tests.fixtures.logged import NOON, Episode, Rows, text, write

TASK = "What time is it in Oslo?"
ANSWER = "It is 14:05 in Oslo."


def an_episode(number: int, *, task: str | None = TASK, answer: str | None = ANSWER, **columns: Any) -> Rows:
    """The `number`-th to begin: a search and a call that gave the answer."""
    made = Episode(number, began_at=NOON + timedelta(seconds=number), **columns)
    made.step("search_tools", {"query": "time in a city", "task": task}, text("time.now(timezone: str) - the time"))
    made.call("time", "now", {"timezone": "Europe/Oslo"}, text('{"datetime": "2026-11-30T14:05:00+01:00"}'))
    made.step("finish_task", {"outcome": "done", "answer": answer}, text("finished"))
    return made.end(task, answer=answer)


def running(number: int) -> Rows:
    """One that has not ended."""
    made = Episode(number, began_at=NOON + timedelta(seconds=number))
    made.call("time", "now", {"timezone": "Europe/Oslo"}, text("14:05"))
    return made.rows


def id_of(number: int) -> str:
    return f"e_{number:024x}"


async def write_episodes(database: Database, numbers: Sequence[int]) -> None:
    await write(database, *(an_episode(number) for number in numbers))


async def filed(
    database: Database, numbers: Sequence[int], *, key: str | None = "t_1", family: str | None = "f_1"
) -> None:
    rows = [
        {"episode_id": id_of(number), "task_key": key, "family": family, "filed_at": NOON + timedelta(days=1)}
        for number in numbers
    ]
    async with database.writing() as connection:
        await database.add(connection, FilingRow, rows)


def a_rubric(text: str = "Something was called.", **changed: Any) -> Rubric:
    """One criterion, which a model would decide: nobody here does."""
    given: dict[str, Any] = {
        "id": "worked",
        "category": Category.TASK_FULFILMENT,
        "text": text,
        "weight": 5,
        "kind": Kind.JUDGE,
    }
    return Rubric((Criterion(**(given | changed)),))


async def rubric_row(database: Database, hash_: str) -> str:
    """A row of `rubrics` of that name; its content is nothing."""
    async with database.writing() as connection:
        await database.add(
            connection, RubricRow, [{"hash": hash_, "writer": "a test", "content": {}, "created_at": NOON}]
        )
    return hash_
