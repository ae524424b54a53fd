"""What came of rankings: what was shown, read, called, and called without having been shown."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.router.exploring import Explorer
from proxy.store.database import Database
from proxy.store.decisions import Decided, ShownTool, decided
from proxy.store.recorder import Outcome
from proxy.store.tables import CallRow, DecisionRow, EpisodeRow, StepRow, StreamRow
from proxy.store.trajectories import load
from tests.fixtures import lamp

pytestmark = pytest.mark.anyio
TOOLS = ("shop.find_item", "shop.sell", "shop.rent")


class Log:
    """One episode, step by step."""

    def __init__(self) -> None:
        self.rows: dict[Any, list[dict[str, Any]]] = {
            StreamRow: [lamp.stream()],
            EpisodeRow: [lamp.episode()],
            StepRow: [],
            CallRow: [],
            DecisionRow: [],
        }

    def step(self, name: str, **changed: Any) -> str:
        number = len(self.rows[StepRow]) + 1
        self.rows[StepRow].append(lamp.step(f"s_{number}", number, name=name, **changed))
        return f"s_{number}"

    def search(self, *shown: str, candidates: tuple[str, ...] = TOOLS, **changed: Any) -> str:
        step = self.step("search_tools")
        scored = [[tool, 3.0 - place] for place, tool in enumerate(candidates)]
        row = {"candidates": scored, "shown": list(shown), "propensities": None, **changed}
        self.rows[DecisionRow].append(lamp.decision(step, **row))
        return step

    def read(self, tool: str, how: str = "definition") -> str:
        return self.step("describe_tools", revealed=[[tool, how]])

    def call(self, tool: str, outcome: str = "ok", **changed: Any) -> str:
        step = self.step("call_tool", outcome=outcome, **changed)
        self.rows[CallRow].append(lamp.call(step, written=tool, outcome=outcome))
        return step

    async def decided(self, database: Database) -> list[Decided]:
        async with database.writing() as connection:
            for table, rows in self.rows.items():
                if rows:
                    await database.add(connection, table, rows)
        trajectory = await load(database, "e_1")
        assert trajectory is not None
        return decided(trajectory)


def of(made: Decided, tool: str) -> ShownTool:
    return next(shown for shown in made.shown if shown.tool == tool)


async def test_what_was_shown_is_told_with_place_and_what_came_of_it(database: Database) -> None:
    log = Log()
    step = log.search(*TOOLS)
    log.read("shop.sell")
    log.call("shop.sell", outcome="tool_error")
    log.call("shop.rent")
    (made,) = await log.decided(database)
    assert (made.episode_id, made.step_id) == ("e_1", step)
    assert [(shown.tool, shown.place) for shown in made.shown] == [*zip(TOOLS, range(3), strict=True)]
    assert [(shown.revealed, shown.called, shown.elsewhere) for shown in made.shown] == [
        (False, None, False),
        (True, Outcome.TOOL_ERROR, False),
        (False, Outcome.OK, False),
    ]
    assert made.missed == {}


async def test_a_call_that_worked_counts_before_one_that_failed_and_the_last_failure_before_others(
    database: Database,
) -> None:
    log = Log()
    log.search(*TOOLS)
    for outcome in ("tool_error", "ok", "timeout"):
        log.call("shop.sell", outcome=outcome)
    for outcome in ("tool_error", "timeout"):
        log.call("shop.rent", outcome=outcome)
    (made,) = await log.decided(database)
    assert of(made, "shop.sell").called is Outcome.OK
    assert of(made, "shop.rent").called is Outcome.TIMEOUT


async def test_what_two_rankings_showed_is_counted_for_the_last_one_before_its_call(database: Database) -> None:
    log = Log()
    log.search("shop.sell", "shop.rent")
    log.call("shop.rent")
    log.search("shop.sell", "shop.rent")
    log.read("shop.sell")
    log.call("shop.sell")
    first, second = await log.decided(database)
    assert (of(first, "shop.rent").called, of(first, "shop.rent").elsewhere) == (Outcome.OK, False)
    assert (of(second, "shop.rent").called, of(second, "shop.rent").elsewhere) == (None, True)
    assert (of(first, "shop.sell").revealed, of(first, "shop.sell").called) == (False, None)
    assert of(first, "shop.sell").elsewhere
    assert (of(second, "shop.sell").revealed, of(second, "shop.sell").called) == (True, Outcome.OK)


async def test_what_was_called_though_no_ranking_showed_it_is_missed(database: Database) -> None:
    log = Log()
    log.call("shop.rent")
    log.search("shop.sell")
    log.read("shop.find_item", how="name")
    log.call("shop.find_item", outcome="tool_error")
    log.search("shop.find_item")
    log.call("shop.find_item")
    log.call("shop.rent")
    first, second = await log.decided(database)
    assert first.missed == {"shop.find_item": Outcome.TOOL_ERROR}
    assert (of(second, "shop.find_item").called, of(second, "shop.find_item").elsewhere) == (Outcome.OK, True)
    assert second.missed == {"shop.rent": Outcome.OK}
    assert not of(second, "shop.find_item").revealed


async def test_calls_of_code_count_as_calls(database: Database) -> None:
    log = Log()
    log.search("shop.sell")
    run = log.step("run_python")
    log.call("shop.sell", parent_id=run, mode="code")
    (made,) = await log.decided(database)
    assert of(made, "shop.sell").called is Outcome.OK


async def test_a_ranking_whose_contents_were_not_logged_is_left_out(database: Database) -> None:
    log = Log()
    log.search(shown=None, candidates=())
    log.rows[DecisionRow][0] |= {"shown": None, "candidates": None}
    log.call("shop.sell")
    assert await log.decided(database) == []


@pytest.mark.parametrize("share", [0.02, 0.5])
async def test_a_tools_propensity_is_that_of_its_place_whatever_stands_above(database: Database, share: float) -> None:
    explorer, log = Explorer(share, b"k" * 32), Log()
    tools = tuple("abcd")
    draws, standing, seen = 40_000, dict[tuple[str, int], int](), dict[tuple[str, ...], tuple[float, ...]]()
    for number in range(draws):
        order = explorer.order(tools, str(number))
        assert order.propensities is not None
        for place, tool in enumerate(order.tools):
            standing[tool, place] = standing.get((tool, place), 0) + 1
        seen[order.tools] = order.propensities
    for order, propensities in seen.items():
        log.search(*order, candidates=tools, propensities=list(propensities))
    made = await log.decided(database)
    assert len(made) == len(tools)
    for one in made:
        assert one.propensity == pytest.approx(1 - share if one.decision.shown == tools else share / 3)
        for shown in one.shown:
            assert shown.propensity == pytest.approx(standing[shown.tool, shown.place] / draws, abs=0.012)


async def test_where_nothing_was_left_to_chance_no_propensity_is_made_up(database: Database) -> None:
    log = Log()
    log.search(*TOOLS)
    log.search(*TOOLS, propensities=[0.5])
    log.search("shop.sell", propensities=[1.0])
    without, unfitting, alone = await log.decided(database)
    assert without.propensity is None
    assert [shown.propensity for shown in (*without.shown, *unfitting.shown)] == [None] * 6
    assert of(alone, "shop.sell").propensity == 1.0
