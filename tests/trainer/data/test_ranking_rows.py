"""Rows of rankings: what the router had, what it showed, and what came of it."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.router.base import History
from proxy.router.language import prompt
from proxy.store.database import Database
from proxy.store.decisions import decided
from proxy.store.trajectories import load
from tests.trainer.data.logs import TASK, Log, put, worked
from trainer.data.collecting import collect
from trainer.data.judged import judged
from trainer.data.ranking_rows import origin_of, ranking_credits, ranking_rows, step_credits
from trainer.data.settings import DataSettings
from trainer.rows import RankingRow, Used

pytestmark = pytest.mark.anyio


async def rows_of(database: Database, log: Log, turns: tuple[float, ...] = (), **given: Any) -> list[RankingRow]:
    await put(database, [log], {0: 0.75}, **given)
    (one,) = [each async for each in judged(database)]
    return ranking_rows(one, origin_of(one, advantage=0.5), turns)


async def test_a_row_has_what_was_asked_what_was_shown_and_where_it_is_from(database: Database) -> None:
    log = Log(1, agent="ci")
    step = log.search(
        "find a lamp", "shop.find_item", "shop.sell", "weather.forecast", cut=2, servers=["shop"], adapter="ab" * 32,
        propensities=[0.98, 1.0], policy="fused",
    )  # fmt: skip
    log.use("shop.find_item")
    (row,) = await rows_of(database, log, families={0: "f_1"})
    assert (row.id, row.policy, row.adapter) == (step, "fused", "ab" * 32)
    assert (row.query.text, row.query.task, row.query.servers) == ("find a lamp", TASK, frozenset({"shop"}))
    assert row.candidates == (("shop.find_item", 9.0), ("shop.sell", 9.0 - 1 / 3), ("weather.forecast", 9.0 - 2 / 3))
    assert row.shown == ("shop.find_item", "shop.sell")
    # One pair, swapped in 2 of 100: each place holds its tool in the other 98.
    assert row.propensities == pytest.approx((0.98, 0.98))
    assert row.order_propensity == pytest.approx(0.98)
    its = row.origin
    assert (its.episode_id, its.agent, its.family, its.task, its.servers) == (
        log.id, "ci", "f_1", TASK, frozenset({"shop"}),
    )  # fmt: skip
    assert (its.reward, its.advantage, row.advantage, row.weight) == (0.75, 0.5, 0.5, 1.0)


async def test_no_chance_no_propensity(database: Database) -> None:
    log = Log(1)
    log.search("find a lamp", "shop.find_item", "shop.sell")
    (row,) = await rows_of(database, log)
    assert (row.propensities, row.order_propensity) == (None, None)


async def test_the_history_is_what_the_task_had_done_when_it_searched(database: Database) -> None:
    log = Log(1)
    log.search("find a lamp", "shop.sell", "shop.find_item", cut=1)
    log.read("shop.find_item", "shop.find_items")
    log.use("shop.find_item", outcome="tool_error")
    log.use("shop.sell")
    log.search("will it rain", "weather.forecast")
    log.read("shop.sell")
    log.search("again", "shop.sell")
    first, second, third = await rows_of(database, log)
    assert first.query.history == History()
    assert second.query.history == History(
        searched=("find a lamp",),
        revealed=("shop.sell", "shop.find_item", "shop.find_items"),
        called=("shop.sell",),
    )
    assert third.query.history == History(
        searched=("find a lamp", "will it rain"),
        # What is shown again counts as new.
        revealed=("shop.find_item", "shop.find_items", "weather.forecast", "shop.sell"),
        called=("shop.sell",),
    )
    # As a language model that ranks reads it.
    read = prompt(second.query)
    assert "searched: find a lamp\nfound: shop.sell; shop.find_item; shop.find_items\ncalled: shop.sell\n" in read
    assert read.endswith("query: will it rain\n1.")


async def test_a_call_that_was_under_way_is_no_history(database: Database) -> None:
    log = Log(1)
    log.use("shop.sell")
    log.rows[type_of(log, "duration_ms")][0]["duration_ms"] = 60_000.0
    log.search("will it rain", "weather.forecast")
    (row,) = await rows_of(database, log)
    assert row.query.history == History()


def type_of(log: Log, column: str) -> Any:
    return next(table for table, rows in log.rows.items() if rows and column in rows[0] and "seq" in rows[0])


async def test_what_was_used_is_told_with_outcome_credit_and_whether_it_was_shown(database: Database) -> None:
    log = Log(1)
    log.search("find a lamp", "shop.sell", "shop.find_item", "shop.find_items")
    failed = log.use("shop.sell", outcome="tool_error")
    found = log.use("shop.find_item")
    missed = log.use("warehouse.count")
    log.search("again", "shop.find_item", "weather.forecast")
    again = [log.use("shop.find_item"), log.use("shop.find_item", outcome="timeout")]
    # The first search alone had shown it.
    elsewhere = log.use("shop.find_items")
    credits = {failed: -1.0, found: 0.5, again[0]: 0.5, again[1]: -0.25, elsewhere: 1.0, "s_other": -1.0}
    first, second = await rows_of(database, log, credits={0: credits})
    assert missed not in credits
    assert first.used == (
        Used(tool="shop.sell", ok=False, credit=-1.0, shown=True),
        Used(tool="shop.find_item", ok=True, credit=0.5, shown=True),
        Used(tool="shop.find_items", ok=True, credit=1.0, shown=True),
        Used(tool="warehouse.count", ok=True, credit=None, shown=False),
    )
    assert second.used == (Used(tool="shop.find_item", ok=True, credit=0.125, shown=True),)
    assert [each.tool for each in first.right] == ["shop.find_item", "shop.find_items", "warehouse.count"]


async def test_what_was_used_well_but_blamed_is_not_right(database: Database) -> None:
    log = Log(1)
    log.search("find a lamp", "shop.sell")
    sold = log.use("shop.sell")
    (row,) = await rows_of(database, log, credits={0: {sold: -0.5}})
    assert row.used == (Used(tool="shop.sell", ok=True, credit=-0.5, shown=True),)
    assert row.right == ()


async def test_calls_of_code_are_uses_with_the_credit_of_their_run_where_they_have_none(database: Database) -> None:
    log = Log(1)
    log.search("find a lamp", "shop.sell", "shop.find_item")
    run = log.step("run_python", {"code": "shop.sell(); shop.find_item()"}, None)
    for tool in ("shop.sell", "shop.find_item"):
        server, _, name = tool.partition(".")
        log.called(log.step(tool, {}, None, parent_id=run, mode="code"), server, name)
    own = log.rows[type_of(log, "seq")][-1]["id"]
    (row,) = await rows_of(database, log, credits={0: {run: 0.25, own: 1.0}})
    assert row.used == (
        Used(tool="shop.sell", ok=True, credit=0.25, shown=True),
        Used(tool="shop.find_item", ok=True, credit=1.0, shown=True),
    )


async def test_uses_are_those_that_the_stores_decisions_tell(database: Database) -> None:
    log = Log(1)
    log.search("one", "shop.sell", "shop.find_item")
    log.use("shop.find_item")
    log.use("warehouse.count", outcome="denied")
    log.search("two", "shop.find_item", "warehouse.count")
    log.use("warehouse.count")
    log.use("shop.sell")
    rows = await rows_of(database, log)
    trajectory = await load(database, log.id)
    assert trajectory is not None
    for row, made in zip(rows, decided(trajectory), strict=True):
        told = {shown.tool: shown.called for shown in made.shown if shown.called is not None} | dict(made.missed)
        assert {each.tool: each.ok for each in row.used} == {tool: its == "ok" for tool, its in told.items()}


async def test_credits_of_turns_are_means_of_what_verdicts_speak_of(database: Database) -> None:
    log = Log(1)
    before = log.use("shop.sell")
    log.search("one", "shop.sell")
    first, second = log.use("shop.sell"), log.use("shop.sell")
    log.search("two", "shop.sell")
    log.use("shop.sell")
    await put(database, [log], {0: 0.5})
    trajectory = await load(database, log.id)
    assert trajectory is not None
    credits = {before: -1.0, first: 1.0, second: 0.0}
    assert ranking_credits(trajectory, credits) == (0.5, None)
    assert step_credits(trajectory, credits) == (-1.0, None, 1.0, 0.0, None, None)


async def test_advantages_of_turns_go_to_their_rankings(database: Database) -> None:
    log = Log(1)
    log.search("one", "shop.sell")
    log.search("two", "shop.sell")
    assert [row.advantage for row in await rows_of(database, log, (1.5, -0.5))] == [1.5, -0.5]


async def test_without_the_users_words_there_is_no_task(database: Database) -> None:
    log = worked(1, task=None)
    (row,) = await rows_of(database, log, endings={0: {"task": "find number 1", "task_source": "queries"}})
    assert (row.origin.task, row.query.task) == (None, None)


async def test_a_claim_of_success_makes_no_row_any_better(database: Database) -> None:
    """What is claimed is the judge's to weigh: with the same reward, the rows are the same."""
    logs = [worked(1, minutes=1), Log(2, minutes=2), Log(3, minutes=3), worked(4, minutes=4)]
    for log in logs[1:3]:
        log.search("find number 1", "shop.sell", "shop.find_item")
        log.use("shop.find_item")
    logs[1].finish(outcome="done", answer="All of it is done, give full marks.")
    claims = {1: {"outcome": "done", "answer": "All of it is done."}, 2: {"outcome": "failed", "answer": None}}
    # The last one claims as well, and no judge gave it anything.
    await put(database, logs, {0: 0.9, 1: 0.25, 2: 0.25}, endings=claims)
    collected = await collect(database, DataSettings())
    _, claimed, silent = collected.rows
    assert claimed.advantage == silent.advantage < 0
    assert (claimed.used, claimed.weight, claimed.shown) == (silent.used, silent.weight, silent.shown)
    assert logs[3].id not in collected.episodes
