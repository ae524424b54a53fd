"""Which episodes are learned from, and why others are not."""

from __future__ import annotations

import pytest

from proxy.store.database import Database
from proxy.store.filters import Filters
from proxy.store.tables import GapRow
from tests.fixtures.judged import hash_of
from tests.fixtures.logged import NOON, STREAM
from tests.trainer.data.logs import Log, put, worked
from trainer.data.judged import Judged, LeftOut, Tally, judged

pytestmark = pytest.mark.anyio


async def read(database: Database, filters: Filters | None = None, judge: str | None = None) -> tuple[list[str], Tally]:
    tally = Tally()
    found = [each.episode_id async for each in judged(database, filters, judge=judge, tally=tally)]
    assert tally.used == len(found)
    return found, tally


async def test_only_whole_episodes_with_a_reward_are_learned_from_and_the_others_counted(database: Database) -> None:
    logs = [worked(number) for number in range(1, 11)]
    logs[4] = worked(5, rendering=99)
    logs[5].use("weather.forecast", level="metadata", words="")
    orphan = logs[6].step("shop.sell", {}, None, parent_id="s_gone", mode="code")
    await put(
        database,
        logs,
        {0: 0.75, 1: None, 3: 0.5, 4: 0.5, 5: 0.5, 6: 0.5, 7: 0.5, 8: 0.5, 9: 0.0},
        running=(3,),
        endings={7: {"reason": "lost"}, 8: {"level": "metadata"}},
    )
    assert orphan
    found, tally = await read(database)
    # Nothing is no reward, and a reward of 0 is one.
    assert found == [logs[0].id, logs[9].id]
    assert tally.left_out == {
        LeftOut.UNJUDGED: 1,
        LeftOut.UNREWARDED: 1,
        LeftOut.RUNNING: 1,
        LeftOut.RENDERING: 1,
        LeftOut.PRIVATE: 2,
        LeftOut.LOST: 2,
    }
    assert tally.seen == 10
    assert str(tally).startswith("2 of 10 episodes: 1 judged without a reward, 1 logged under")


async def test_an_episode_that_may_lack_steps_is_left_out(database: Database) -> None:
    logs = [worked(1), worked(2)]
    await put(database, logs, {0: 0.5, 1: 0.5})
    first = logs[0].rows
    seqs = [row["seq"] for rows in first.values() for row in rows if "seq" in row]
    gap = {"stream": STREAM, "first_seq": seqs[0], "last_seq": seqs[0] + 1, "reason": "overload", "reported_at": NOON}
    async with database.writing() as connection:
        await database.add(connection, GapRow, [gap])
    found, tally = await read(database)
    assert found == [logs[1].id]
    assert tally.left_out == {LeftOut.LOST: 1}


async def test_filters_and_judge_choose(database: Database) -> None:
    logs = [worked(1, agent="a"), worked(2, agent="b"), worked(3, agent="a")]
    await put(database, logs, {0: 0.5, 1: 0.5, 2: 0.25}, judgements={2: {"judge": "m"}})
    assert (await read(database, Filters(agent="a")))[0] == [logs[0].id, logs[2].id]
    found, tally = await read(database, judge="m")
    assert found == [logs[2].id]
    assert tally.left_out == {LeftOut.UNJUDGED: 2}


async def test_a_group_is_of_one_family_rubric_judge_and_scope(database: Database) -> None:
    logs = [worked(1), worked(2)]
    await put(database, logs, {0: 0.5, 1: 0.5}, families={0: "f_1"}, judgements={0: {"rubric_hash": hash_of("a")}})
    one, other = [each async for each in judged(database)]
    assert other.group is None
    assert one.group is not None
    assert (one.group.family, one.group.rubric_hash, one.group.scope) == ("f_1", hash_of("a"), "calls+task+answer")
    assert isinstance(one, Judged)
    assert one.value == 0.5


async def test_a_long_log_is_read_page_by_page(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.store.trajectories.EPISODES_PER_PAGE", 2)
    logs = [worked(number) for number in range(1, 6)]
    await put(database, logs, dict.fromkeys((0, 1, 4), 0.5))
    found, tally = await read(database)
    assert found == [logs[place].id for place in (0, 1, 4)]
    assert tally.left_out == {LeftOut.UNJUDGED: 2}
    assert isinstance(logs[0], Log)
