"""Lists and sums over real tables: every filter, paging, and what is read for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event
from starlette.datastructures import QueryParams

from proxy.dashboard import queries
from proxy.dashboard.choice import BadChoice, Choice, read_choice, read_window, written
from proxy.store.database import Database
from proxy.store.filters import Filters
from proxy.store.trajectories import Cursor
from tests.fixtures import judged, logged

pytestmark = pytest.mark.anyio


def ids(page: queries.Page) -> list[int]:
    return [int(one.id.removeprefix("e_"), 16) for one in page.episodes]


async def found(database: Database, query: str) -> list[int]:
    return ids(await queries.episodes(database, read_choice(QueryParams(query))))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [5, 1, 2, 3, 4]),
        ("agent=laptop", [5, 1, 4]),
        ("agent=lap", []),
        ("server=github", [1]),
        ("server=postgres&tool=query", [2]),
        ("server=postgres&tool=send", []),
        ("server=nothing", []),
        ("tool=query", [2]),
        ("outcome=done", [1]),
        ("outcome=failed", [3]),
        ("reason=session", [2]),
        ("reason=running", [5]),
        ("reason=lost", [4]),
        ("failures=1", [1, 2, 3]),
        ("text=PULL+requests", [1]),
        ("text=100%25", []),
        ("text=_", []),
        ("since=2026-11-30T11:30&before=2026-11-30T11:55", [1]),
        ("since=2026-11-30T13:30%2B02:00&before=2026-11-30T11:55Z", [1]),
        ("agent=laptop&failures=1&server=github&text=review", [1]),
        ("nothing=1&agent=", [5, 1, 2, 3, 4]),
        ("judged=yes", [1, 2]),
        ("judged=no", [5, 3, 4]),
        ("judged=yes&outcome=done", [1]),
    ],
)
async def test_filters_choose_episodes_newest_first(database: Database, query: str, expected: list[int]) -> None:
    await logged.write(database, *logged.sample())
    await judged.write_sample(database)
    assert await found(database, query) == expected


async def test_a_line_has_the_sums_and_a_running_one_what_it_searched_for(database: Database) -> None:
    await logged.write(database, *logged.sample())
    running, ended, *_ = (await queries.episodes(database, Choice())).episodes
    assert (running.task, running.reason, running.steps) == ("calendar of next week", None, None)
    assert (ended.reason, ended.outcome, ended.steps, ended.calls, ended.failures) == ("finished", "done", 5, 4, 1)
    assert ended.tokens_eager == 49_510


async def test_pages_follow_each_other_without_gap_or_double_also_at_equal_times(database: Database) -> None:
    logs = [logged.Episode(number, began_at=logged.NOON + timedelta(seconds=number // 5)) for number in range(1, 24)]
    await logged.write(database, *(one.end("task") for one in logs))
    seen: list[int] = []
    query = "limit=4"
    for _ in range(10):
        page = await queries.episodes(database, read_choice(QueryParams(query)))
        assert len(page.episodes) <= 4
        seen += ids(page)
        if page.next is None:
            break
        query = str(QueryParams({"limit": "4", "after": written(page.next)}))
    assert seen == list(range(23, 0, -1))


async def test_rewards_of_a_page_take_one_query(database: Database) -> None:
    asked: list[str] = []

    @event.listens_for(database._reader.sync_engine, "before_cursor_execute")
    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        asked.append(statement)

    logs = [logged.Episode(number) for number in range(1, 41)]
    await logged.write(database, *(one.end("task") for one in logs))
    given = [judged.judgement(one.id, 0.5, minutes=number) for number, one in enumerate(logs)]
    await judged.write(database, [judged.rubric()], given)
    page = await queries.episodes(database, Choice())
    assert len(page.episodes) == 40
    assert {one.judged.reward for one in page.episodes if one.judged is not None} == {0.5}
    assert sum("judgements" in statement for statement in asked) == 1
    assert not any("verdicts" in statement for statement in asked)


async def test_often_called_and_rare_tools_are_found_alike(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await logged.write(database, *logged.sample())
    for most in (0, 1, 2_000):
        monkeypatch.setattr(queries, "RARE_CALLS", most)
        assert await found(database, "server=github&tool=get_checks") == [1]
        assert await found(database, "server=postgres") == [2]


async def test_a_tool_that_ran_in_an_old_episode_only_lately_is_found(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "RARE_CALLS", 0)
    old = logged.Episode(1, began_at=logged.NOON - timedelta(days=3))
    step = old.step("call_tool", {}, None, started_at=logged.NOON)
    old.called(step, "github", "star")
    young = logged.Episode(2, began_at=logged.NOON + timedelta(days=1))
    await logged.write(database, old.end("old"), young.end("young"))
    assert await found(database, "server=github") == [1]


async def test_use_counts_every_outcome_within_the_window(database: Database) -> None:
    await logged.write(database, *logged.sample())
    day = {(one.server, one.tool): one for one in await queries.usage(database, "24h", logged.NOON)}
    checks = day["github", "get_checks"]
    assert (checks.calls, checks.failures, checks.outcomes) == (2, 1, {"ok": 1, "timeout": 1})
    assert (checks.mean_ms, checks.longest_ms) == (310.0, 310.0)
    assert checks.last_at is not None
    assert checks.last_at.tzinfo is not None
    assert day["mail", "send"].outcomes == {"denied": 1}
    later = await queries.usage(database, "24h", logged.NOON + timedelta(hours=23, minutes=30))
    assert {one.server for one in later} == {"github"}
    assert await queries.usage(database, "24h", logged.NOON + timedelta(days=2)) == []
    assert len(await queries.usage(database, "all", logged.NOON + timedelta(days=2))) == len(day)


async def test_sums_of_a_server_are_those_of_its_tools(database: Database) -> None:
    await logged.write(database, *logged.sample())
    servers = queries.by_server(await queries.usage(database, "all"))
    assert {name: (one.calls, one.failures) for name, one in servers.items()} == {
        "github": (4, 1),
        "postgres": (2, 1),
        "mail": (1, 1),
    }


async def test_agents_are_offered_by_name(database: Database) -> None:
    assert await queries.agents(database) == []
    await logged.write(database, *logged.sample())
    assert await queries.agents(database) == ["ci-runner", "laptop", "night-agent"]


@pytest.mark.parametrize(
    "query",
    [
        "outcome=ok",
        "judged=perhaps",
        "reason=gone",
        "failures=yes",
        "since=yesterday",
        "before=2026-13-01",
        "since=0001-01-01T00:00%2B23:59",
        "after=x",
        "after=2026-11-30~",
        "limit=0",
        "limit=501",
        "limit=²",
        "text=" + "x" * 501,
    ],
)
def test_what_cannot_be_meant_is_named(query: str) -> None:
    with pytest.raises(BadChoice, match=query.partition("=")[0]):
        read_choice(QueryParams(query))


def test_a_window_is_one_of_four() -> None:
    assert read_window({}) == "7d"
    assert read_window({"window": "all"}) == "all"
    with pytest.raises(BadChoice, match="window"):
        read_window({"window": "1y"})


IDS = st.text(min_size=1, max_size=200).filter(lambda text: text.strip() == text)


@given(st.datetimes(timezones=st.just(UTC)), IDS)
def test_a_place_is_read_back_as_it_was_written(began_at: datetime, episode_id: str) -> None:
    cursor = Cursor(began_at, episode_id)
    assert read_choice({"after": written(cursor)}).after == cursor


def test_filters_of_the_store_are_used() -> None:
    assert read_choice({"agent": "a", "tool": "t"}).filters == Filters(agent="a", tool="t")
