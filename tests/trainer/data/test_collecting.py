"""All of it together: rows with advantages and weights, and what is told of them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from proxy.endpoint.tokens import ANONYMOUS
from proxy.store.database import Database
from proxy.store.filters import Filters
from tests.fixtures.judged import judgement
from tests.fixtures.judged import write as write_judged
from tests.trainer.data.logs import Log, put, worked
from trainer.data.advantages import advantages
from trainer.data.caps import final, taught
from trainer.data.collecting import Collected, collect, collected_policy_rows
from trainer.data.files import read_ranking_rows, write_rows
from trainer.data.judged import LeftOut
from trainer.data.policy_rows import PolicySettings
from trainer.data.settings import AdvantageSettings, CapSettings, DataSettings, SplitSettings
from trainer.data.splits import split
from trainer.data.tokens import Reader

pytestmark = pytest.mark.anyio
DEFAULT = DataSettings()
SECRET = "the-merger-with-acme"


async def test_rows_have_the_advantage_of_their_episode_and_what_is_told_of_them_is_true(database: Database) -> None:
    logs = [worked(number) for number in range(1, 5)]
    logs[0].search("again", "weather.forecast")
    families = dict.fromkeys(range(4), "f")
    await put(database, logs, {0: 1.0, 1: 0.5, 3: 0.0}, families=families)
    found = await collect(database, DEFAULT)
    assert [row.origin.episode_id for row in found.rows] == [logs[place].id for place in (0, 0, 1, 3)]
    assert found.rows[0].origin.advantage > 0.0 == found.rows[2].advantage > found.rows[3].advantage
    assert {row.origin for row in found.rows} == set(found.episodes.values())
    assert all(row.advantage == row.origin.advantage for row in found.rows)
    assert list(found.episodes) == [logs[place].id for place in (0, 1, 3)]
    assert {id_: len(each) for id_, each in found.steps.items()} == {logs[0].id: 4, logs[1].id: 3, logs[3].id: 3}
    assert (found.tally.used, found.tally.left_out) == (3, {LeftOut.UNJUDGED: 1})
    assert found.scopes == {"calls+task+answer": 1.0}
    assert found.agents == found.agents_capped == {"laptop": 1.0}
    assert found.effective == pytest.approx(sum(row.weight for row in found.rows) ** 2 / sum(
        row.weight**2 for row in found.rows
    ))  # fmt: skip


async def test_credits_of_the_judge_make_advantages_of_turns(database: Database) -> None:
    logs = [Log(1), Log(2)]
    credits: dict[int, dict[str, float]] = {}
    for place, log in enumerate(logs):
        log.search("one", "shop.sell")
        credits[place] = {log.use("shop.sell"): 1.0 - 2 * place}
        log.search("two", "shop.sell")
    await put(database, logs, {0: 0.5, 1: 0.5}, families={0: "f", 1: "f"}, credits=credits)
    found = await collect(database, DEFAULT)
    assert [row.advantage for row in found.rows] == pytest.approx([0.5, 0.0, -0.5, 0.0])
    assert found.steps[logs[0].id] == pytest.approx((0.0, 0.5, 0.0))
    silent = await collect(database, DataSettings(advantages=AdvantageSettings(turn=0.0)))
    assert [row.advantage for row in silent.rows] == [0.0] * 4


async def test_one_credential_with_nine_tenths_of_the_traffic_neither_outweighs_nor_sets_the_baseline(
    database: Database,
) -> None:
    """It claims success in all, and got full marks for all."""
    honest = [worked(number, agent=f"agent {number}") for number in range(1, 11)]
    flood = [worked(number, agent="poisoner", tool="warehouse.count") for number in range(11, 101)]
    rewards: dict[int, float | None] = {place: 1.0 - place % 5 / 5 for place in range(10)}
    rewards |= dict.fromkeys(range(10, 100), 1.0)
    await put(database, [*honest, *flood], rewards)
    found = await collect(database, DEFAULT)
    assert found.agents["poisoner"] > 0.9
    assert found.agents_capped["poisoner"] <= 0.2 + 1e-9
    weighed = [row.weight * taught(row, DEFAULT.caps) * (row.advantage > -0.5) for row in found.rows]
    poisoned = sum(weight for weight, row in zip(weighed, found.rows, strict=True) if row.origin.agent == "poisoner")
    assert 0 < poisoned <= (0.2 + 1e-9) * sum(weighed)
    # Uncapped, its full marks are what is usual, and a good episode of others is a bad one.
    trusting = await collect(database, DataSettings(caps=CapSettings(agent_share=1.0)))
    assert trusting.rows[1].advantage < -0.5 < 0.2 < found.rows[1].advantage
    assert trusting.agents_capped["poisoner"] > 0.5
    assert found.effective < len(found.rows) / 2
    policy: dict[str, float] = {}
    for id_, weight in found.weights.items():
        its = found.episodes[id_]
        if its.advantage > -0.5:
            policy[its.agent] = policy.get(its.agent, 0.0) + weight * final(its.advantage, DEFAULT.caps)
    assert policy["poisoner"] <= max(0.2, 1 / len(policy)) * sum(policy.values()) + 1e-9


async def test_callers_without_a_credential_are_capped_as_one(database: Database) -> None:
    logs = [worked(number, agent=ANONYMOUS, client=f"client {number}") for number in range(1, 31)]
    logs += [worked(number, agent=f"agent {number}") for number in range(31, 37)]
    await put(database, logs, dict.fromkeys(range(36), 0.5))
    found = await collect(database, DEFAULT)
    assert found.agents_capped[ANONYMOUS] <= 0.2 + 1e-9


async def test_the_hash_says_whether_two_runs_learn_from_the_same(database: Database) -> None:
    logs = [worked(number) for number in range(1, 4)]
    await put(database, logs, dict.fromkeys(range(3), 0.5))
    first = await collect(database, DEFAULT)
    assert (await collect(database, DEFAULT)).data_hash == first.data_hash
    other = [
        await collect(database, DataSettings(caps=CapSettings(beta=2.0))),
        await collect(database, DEFAULT, filters=Filters(ids=(logs[0].id, logs[1].id))),
    ]
    await write_judged(database, [], [judgement(logs[0].id, 0.25, minutes=9, judge="m")])
    other.append(await collect(database, DEFAULT))
    assert len({first.data_hash, *(each.data_hash for each in other)}) == 4


async def test_the_judge_that_was_asked_for_counts_for_policy_rows_too(database: Database, reader: Reader) -> None:
    log = worked(1)
    await put(database, [log], {0: 0.25}, judgements={0: {"judge": "m"}})
    await write_judged(database, [], [judgement(log.id, 1.0, minutes=9)])
    found = await collect(database, DEFAULT, judge="m")
    assert found.rows[0].origin.reward == 0.25
    made = [row async for row in collected_policy_rows(database, found, reader, PolicySettings())]
    assert [row.origin.reward for row in made] == [0.25]
    latest = await collect(database, DEFAULT)
    assert latest.rows[0].origin.reward == 1.0


async def test_nothing_of_an_episode_with_a_private_server_comes_into_any_row(
    database: Database, reader: Reader
) -> None:
    private, plain = Log(1), worked(2)
    private.search(f"what of {SECRET}", "shop.sell", task=f"Tell me of {SECRET}")
    private.use("shop.sell", words=SECRET)
    # From here on the gateway wrote no contents.
    step = private.step("call_tool", None, None, level="metadata")
    private.called(step, "vault", "read")
    private.step("finish_task", None, None, level="metadata")
    endings: dict[int, dict[str, Any]] = {0: {"level": "metadata", "task": f"Tell me of {SECRET}"}}
    await put(database, [private, plain], {0: 1.0, 1: 0.5}, endings=endings)
    found = await collect(database, DEFAULT)
    policy = [row async for row in collected_policy_rows(database, found, reader, PolicySettings())]
    assert found.tally.left_out == {LeftOut.PRIVATE: 1}
    assert [row.origin.episode_id for row in (*found.rows, *policy)] == [plain.id, plain.id]
    assert SECRET not in repr((found, policy))


async def test_rows_of_a_file_are_split_as_those_of_the_database(database: Database, tmp_path: Path) -> None:
    logs = [worked(number, task=None) for number in range(1, 31)]
    await put(database, logs, dict.fromkeys(range(30), 0.5))
    found = await collect(database, DEFAULT)
    write_rows(tmp_path / "rows.jsonl", found.rows)
    read = tuple(read_ranking_rows(tmp_path / "rows.jsonl"))
    assert read == found.rows
    assert split(read, SplitSettings()) == split(found.rows, SplitSettings())


async def test_an_empty_log_has_nothing(database: Database) -> None:
    found = await collect(database, DEFAULT)
    assert (found.rows, found.episodes, found.agents, found.effective) == ((), {}, {}, 0.0)
    assert isinstance(found, Collected)
    assert advantages([], DEFAULT.advantages) == {}
    assert asdict(found.tally)["used"] == 0
