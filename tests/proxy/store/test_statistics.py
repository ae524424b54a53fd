"""Sums over the log, on both databases."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.store.database import Database
from proxy.store.statistics import Range, Savings, ToolStatistics, statistics
from proxy.store.tables import Base, CallRow, EndingRow, EpisodeRow, SnapshotRow, StepRow
from tests.fixtures.lamp import at, call, ending, episode, put, put_lamp, snapshot, step

pytestmark = pytest.mark.anyio


async def test_calls_are_counted_by_tool_with_outcomes_durations_and_tokens(database: Database) -> None:
    own = [step(f"s_{number}", number, observation_tokens=10) for number in range(20)]
    in_code = [step(f"s_{number}", number, parent_id="s_0", mode="code") for number in range(20, 22)]
    mute = step("s_22", 22, observation=None, observation_tokens=None)
    failed = {3: "tool_error", 22: "timeout"}
    calls = [
        call(f"s_{number}", outcome=failed.get(number, "ok"), duration_ms=float(number + 1), started_at=at(number))
        for number in range(20)
    ]
    calls += [call("s_20", tool="sell", started_at=at(20)), call("s_21", tool="sell", started_at=at(21))]
    calls += [call("s_22", server="bank", outcome="timeout", started_at=at(22))]
    await put(database, {EpisodeRow: [episode()], StepRow: [*own, *in_code, mute], CallRow: calls})
    found = await statistics(database, Range())
    assert (found.episodes, found.steps) == (1, 23)
    assert found.tools == (
        ToolStatistics(
            server="shop", tool="find-item", calls=20, outcomes={"ok": 19, "tool_error": 1},
            p50_ms=10.0, p95_ms=19.0, read_tokens=200, code_tokens=0, uncounted=0,
        ),
        ToolStatistics(
            server="shop", tool="sell", calls=2, outcomes={"ok": 2},
            p50_ms=4.0, p95_ms=4.0, read_tokens=0, code_tokens=40, uncounted=0,
        ),
        ToolStatistics(
            server="bank", tool="find-item", calls=1, outcomes={"timeout": 1},
            p50_ms=4.0, p95_ms=4.0, read_tokens=0, code_tokens=0, uncounted=1,
        ),
    )  # fmt: skip
    assert [tool.failures for tool in found.tools] == [1, 0, 1]


async def test_a_span_of_time_leaves_out_what_was_before_and_after(database: Database) -> None:
    steps = [step(f"s_{number}", number) for number in range(3)]
    calls = [call(f"s_{number}", started_at=at(number)) for number in range(3)]
    await put(database, {EpisodeRow: [episode()], StepRow: steps, CallRow: calls})
    assert (await statistics(database, Range(since=at(1)))).tools[0].calls == 2
    assert (await statistics(database, Range(before=at(1)))).tools[0].calls == 1
    middle = await statistics(database, Range(since=at(1), before=at(2)))
    assert (middle.tools[0].calls, middle.steps, middle.episodes) == (1, 1, 0)


async def test_an_empty_log_has_empty_statistics(database: Database) -> None:
    found = await statistics(database, Range())
    assert (found.episodes, found.steps, found.tools) == (0, 0, ())
    assert found.savings.saved_tokens == 0


async def test_savings_are_all_definitions_less_the_introduction_and_what_finding_cost(database: Database) -> None:
    await put_lamp(database)
    found = await statistics(database, Range())
    assert found.savings == Savings(
        episodes=1, left_out=0, eager_tokens=4_000, introduction_tokens=700, finding_tokens=30
    )
    assert found.savings.saved_tokens == 3_270


async def test_only_episodes_that_can_be_compared_count_as_savings(database: Database) -> None:
    names = ("e_direct", "e_meta", "e_unknown", "e_live", "e_good")
    await put(
        database,
        {
            SnapshotRow: [snapshot()],
            EpisodeRow: [episode(name, mode="direct" if name == "e_direct" else "search") for name in names],
            StepRow: [
                step(f"s_{name}", number, episode_id=name, name="describe_tools") for number, name in enumerate(names)
            ],
            EndingRow: [
                ending("e_direct"),
                ending("e_meta", level="metadata"),
                ending("e_unknown", tokens_eager=None),
                ending("e_good", tokens_eager=100),
            ],
        },
    )
    savings = (await statistics(database, Range())).savings
    assert savings == Savings(episodes=1, left_out=3, eager_tokens=100, introduction_tokens=700, finding_tokens=30)
    assert savings.saved_tokens == -630


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
async def test_percentiles_are_by_nearest_rank(database: Database, durations: list[float]) -> None:
    async with database.writing() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            await connection.execute(table.delete())
    rows: dict[type[Base], list[dict[str, Any]]] = {
        EpisodeRow: [episode()],
        StepRow: [step(f"s_{number}", number) for number in range(len(durations))],
        CallRow: [call(f"s_{number}", duration_ms=each) for number, each in enumerate(durations)],
    }
    await put(database, rows)
    (tool,) = (await statistics(database, Range())).tools
    ordered = sorted(durations)
    assert tool.p50_ms == ordered[ceil(0.5 * len(ordered)) - 1]
    assert tool.p95_ms == ordered[ceil(len(ordered) * 95 / 100) - 1]
