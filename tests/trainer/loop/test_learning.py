"""A turn of learning: what is due is done, once; a turn after it does what is new."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from judge.checks.library import library
from judge.judging import Judge
from judge.settings import RewardSettings
from proxy.store.database import Database
from proxy.store.registry import State, entries
from tests.trainer.loop.learnable import fill
from tests.trainer.loop.test_running import SETTINGS
from trainer.loop.judging import RubricSettings, judge_all, write_rubrics
from trainer.loop.learning import LearningSettings, Turn, turn
from trainer.loop.running import Place
from trainer.loop.runs import Runs
from trainer.loop.training import Interrupted

pytestmark = pytest.mark.anyio
LEARNING = LearningSettings(training=SETTINGS, new_episodes=30)


@pytest.fixture
async def judge(anyio_backend: str) -> AsyncIterator[Judge]:
    judge = Judge(library(), RewardSettings())
    yield judge
    await judge.close()


async def a_turn(database: Database, judge: Judge, place: Place, folder: Path) -> Turn:
    return await turn(
        database, judge, LEARNING, Runs(folder), place, command=["toolatlas", "learn"], usable=lambda _: True
    )


async def test_turn_after_turn(database: Database, judge: Judge, place: Place, tmp_path: Path) -> None:
    await fill(database, 20, judged=False)
    first = await a_turn(database, judge, place, tmp_path)
    assert (first.judged, first.adapter, first.too_little) == (20, None, True)
    assert first.idle is not None
    assert first.idle.startswith("20 of 40 episodes")
    await fill(database, 70, first=20, judged=False)
    second = await a_turn(database, judge, place, tmp_path)
    assert second.judged == 70
    assert second.adapter is not None
    assert [look.hash for look in second.looks] == [second.adapter]
    third = await a_turn(database, judge, place, tmp_path)
    assert (third.judged, third.run, third.adapter) == (0, None, None)
    assert third.idle is not None
    assert third.idle.startswith("0 of 30 new episodes")
    await fill(database, 40, first=90, judged=False)
    fourth = await a_turn(database, judge, place, tmp_path)
    assert fourth.adapter not in (None, second.adapter)
    assert len(await entries(database)) == 2


async def test_a_turn_that_was_stopped_is_gone_on_with(
    database: Database, judge: Judge, place: Place, tmp_path: Path
) -> None:
    await fill(database, 90)
    updates: list[int] = []
    with pytest.raises(Interrupted):
        await turn(
            database,
            judge,
            LEARNING,
            Runs(tmp_path),
            place,
            command=["toolatlas", "learn"],
            usable=lambda _: True,
            wanted=lambda: not (tmp_path / "stop").exists() and not updates.append(1) and len(updates) < 8,
        )
    (run,) = Runs(tmp_path).all()
    done = await a_turn(database, judge, place, tmp_path)
    assert done.run == run.id
    (entry,) = await entries(database)
    assert entry.adapter.hash == done.adapter
    assert entry.state in (State.CANDIDATE, State.SHADOW, State.RETIRED)


async def test_rubrics_are_written_once(database: Database, judge: Judge) -> None:
    await fill(database, 12, judged=False)
    assert (await judge_all(database, judge)).judged == 12
    assert (await judge_all(database, judge)).judged == 0
    written = await write_rubrics(database, library(), RubricSettings(least=2))
    assert await write_rubrics(database, library(), RubricSettings(least=2)) == 0
    assert await write_rubrics(database, library(), RubricSettings(derive=False)) == 0
    # Of families with one task each there is nothing to write from.
    assert written == 0
