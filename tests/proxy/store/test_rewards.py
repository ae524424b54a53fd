"""Rewards, scopes, batches and labels as their readers get them, on both databases."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.store import trajectories
from proxy.store.database import Database
from proxy.store.filters import Filters
from proxy.store.judgements import labels, labels_of
from proxy.store.rewards import Reward, batches, rewards, scopes
from proxy.store.tables import BatchRow, EpisodeRow, FilingRow, JudgementRow, LabelRow, RubricRow
from tests.fixtures.lamp import NOON, at, episode, put
from tests.fixtures.rows import row

pytestmark = pytest.mark.anyio


def judged(id: str, episode_id: str, reward: float | None, **changed: Any) -> dict[str, Any]:
    its = {"judge": id, "scope": "calls", "created_at": NOON, "credits": None, "unrewarded": None, **changed}
    return row(JudgementRow, id=id, episode_id=episode_id, rubric_hash="r", reward=reward, **its)


async def put_judged(database: Database) -> None:
    await put(
        database,
        {
            EpisodeRow: [episode(f"e_{number}", began_at=at(number), agent=f"a{number % 2}") for number in range(4)],
            RubricRow: [row(RubricRow, hash="r")],
            FilingRow: [{"episode_id": "e_1", "task_key": "t", "family": "f_1", "filed_at": NOON}],
            JudgementRow: [
                judged("late", "e_1", 0.75, judge="m", created_at=at(5), scope="calls+task", credits={"s": -0.5}),
                judged("early", "e_1", 0.25, judge="checks"),
                judged("none", "e_2", None, judge="checks", unrewarded="an essential criterion is missing"),
                judged("zero", "e_3", 0.0, judge="m", scope="calls+task"),
            ],
        },
    )


async def streamed(database: Database, filters: Filters | None = None, **options: Any) -> list[Reward]:
    return [reward async for reward in rewards(database, filters, **options)]


async def test_the_latest_judgement_of_each_episode_is_its_reward(database: Database) -> None:
    await put_judged(database)
    found = await streamed(database)
    assert [(each.episode_id, each.reward) for each in found] == [("e_1", 0.75), ("e_2", None), ("e_3", 0.0)]
    first, second, third = found
    assert (first.family, first.scope, first.judge, first.credits) == ("f_1", "calls+task", "m", {"s": -0.5})
    assert (second.unrewarded, second.family, second.credits) == ("an essential criterion is missing", None, {})
    assert third.unrewarded is None
    assert [each.reward for each in await streamed(database, judge="checks")] == [0.25, None]
    assert await streamed(database, judge="nobody") == []
    assert [each.episode_id for each in await streamed(database, Filters(agent="a1"))] == ["e_1", "e_3"]
    assert [each.episode_id for each in await streamed(database, Filters(ids=("e_3", "e_0", "e_1")))] == ["e_1", "e_3"]


async def test_rewards_of_a_long_log_come_page_by_page(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectories, "EPISODES_PER_PAGE", 2)
    await put_judged(database)
    assert [each.episode_id for each in await streamed(database)] == ["e_1", "e_2", "e_3"]


async def test_scopes_are_counted_by_episode(database: Database) -> None:
    await put_judged(database)
    again = judged("again", "e_3", 0.5, judge="m", scope="calls+task", repeat=2)
    await put(database, {JudgementRow: [again]})
    assert await scopes(database) == {"calls": 2, "calls+task": 2}
    assert await scopes(database, judge="m") == {"calls+task": 2}
    assert await scopes(database, Filters(agent="a0")) == {"calls": 1}


async def test_batches_come_latest_first(database: Database) -> None:
    made = [
        row(BatchRow, id="b_1", judge="m", accepted=1, began_at=at(1), canaries=[{"name": "empty", "passed": True}]),
        row(BatchRow, id="b_2", judge="checks", accepted=0, began_at=at(2), canaries=[], note="a canary got 0.9"),
    ]
    await put(database, {BatchRow: made})
    second, first = await batches(database)
    assert (second.id, second.accepted, second.note) == ("b_2", False, "a canary got 0.9")
    assert (first.accepted, first.canaries) == (True, [{"name": "empty", "passed": True}])
    assert [each.id for each in await batches(database, judge="m")] == ["b_1"]
    assert [each.id for each in await batches(database, limit=1)] == ["b_2"]


async def test_of_what_a_person_says_again_the_last_word_counts(database: Database) -> None:
    def said(id: str, value: float | None, after: float, **changed: Any) -> dict[str, Any]:
        its = {"labeller": "ann", "rubric_hash": "r", "criterion": "a", "step_id": None, "note": None, **changed}
        return row(LabelRow, id=id, episode_id="e_0", value=value, created_at=at(after), **its)

    await put_judged(database)
    await put(
        database,
        {
            LabelRow: [
                said("l_1", 0.0, 1),
                said("l_2", 1.0, 2),
                said("l_3", 0.5, 3, labeller="bob"),
                said("l_4", 0.5, 4, criterion="b"),
                said("l_5", None, 5, criterion="b"),
                said("l_6", 1.0, 6, criterion=None, rubric_hash=None),
                said("l_7", 0.0, 7, rubric_hash="another"),
            ]
        },
    )
    found = (await labels(database, ["e_0", "e_1"]))["e_0"]
    assert [(each.id, each.value) for each in found] == [("l_2", 1.0), ("l_3", 0.5), ("l_6", 1.0), ("l_7", 0.0)]
    async with database.reading() as connection:
        entries = (await labels_of(connection, ["e_0"]))["e_0"]
    assert [each.id for each in entries] == [f"l_{number}" for number in range(1, 8)]
    assert await labels(database, ["e_1"]) == {}
