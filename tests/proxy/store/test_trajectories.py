"""Reading trajectories back out of real tables, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from proxy.store import trajectories
from proxy.store.catalogues import catalogue
from proxy.store.database import Database
from proxy.store.decisions import decided
from proxy.store.filters import Filters
from proxy.store.judgements import judgements, labels
from proxy.store.recorder import Level, Outcome, Revealed
from proxy.store.rubrics import rubrics
from proxy.store.tables import (
    CallRow,
    DefinitionRow,
    EndingRow,
    EpisodeRow,
    GapRow,
    JudgementRow,
    LabelRow,
    RubricRow,
    ShadowRow,
    SnapshotRow,
    StepRow,
)
from proxy.store.trajectories import Cursor, heads, load, stream
from proxy.store.trajectory import Missing, Size, Trajectory, TrajectoryShadow
from tests.fixtures.lamp import (
    CATALOG,
    NOON,
    STREAM,
    at,
    call,
    definition,
    ending,
    episode,
    put,
    put_lamp,
    said,
    snapshot,
    step,
)

pytestmark = pytest.mark.anyio


async def read(database: Database, filters: Filters | None = None, **options: Any) -> list[Trajectory]:
    return [trajectory async for trajectory in stream(database, filters, **options)]


async def loaded(database: Database, episode_id: str = "e_1") -> Trajectory:
    trajectory = await load(database, episode_id)
    assert trajectory is not None
    return trajectory


def gap(first: int, last: int) -> dict[str, Any]:
    return {"stream": STREAM, "first_seq": first, "last_seq": last, "reason": "killed", "reported_at": at(99)}


async def test_an_episode_comes_back_in_order_with_the_calls_of_code_under_their_run(database: Database) -> None:
    await put_lamp(database)
    lamp = await loaded(database)
    assert [step.id for step in lamp.steps] == ["s_search", "s_run", "s_end"]
    assert [step.id for step in lamp.steps[1].code_calls] == ["s_a", "s_b"]
    assert [step.id for step in lamp.every_step()] == ["s_search", "s_run", "s_a", "s_b", "s_end"]
    assert (lamp.agent, lamp.client, lamp.began_at, lamp.lost) == ("local", "probe 1.0", NOON, 0)
    assert (lamp.task, lamp.task_missing) == ("What does the lamp cost?", None)
    assert (lamp.answer, lamp.answer_missing) == ("It costs 3.", None)


async def test_a_search_has_its_decision_and_what_it_revealed(database: Database) -> None:
    await put_lamp(database)
    search = (await loaded(database)).steps[0]
    assert search.revealed == (Revealed(tool="shop.find_item", how="signature"),)
    assert search.decision is not None
    assert search.decision.candidates == (("shop.find_item", 2.5), ("shop.sell", 1.25))
    assert (search.decision.shown, search.decision.propensities) == (("shop.find_item",), (0.98,))


async def test_a_call_without_a_result_of_its_own_has_the_observation_if_the_server_answered(
    database: Database,
) -> None:
    await put_lamp(database)
    answered, timed_out = (await loaded(database)).steps[1].code_calls
    assert answered.call is not None
    assert answered.call.arguments == {"name": "lamp"}
    assert answered.call.result == answered.observation == said("fine")
    assert answered.call.result_size == answered.observation_size
    assert timed_out.call is not None
    assert (timed_out.call.outcome, timed_out.call.result) == (Outcome.TIMEOUT, None)
    assert timed_out.call.result_missing is Missing.NOTHING


async def test_a_result_that_differs_from_the_observation_is_kept_apart(database: Database) -> None:
    own = {"result": said("all"), "result_bytes": 99, "result_kept": 40, "result_hash": "a" * 64}
    await put(
        database,
        {
            EpisodeRow: [episode()],
            StepRow: [step("s_1", 1, arguments={"tool": "shop.find_item", "arguments": "{}"})],
            CallRow: [call("s_1", arguments={}, **own)],
        },
    )
    (only,) = (await loaded(database)).steps
    assert only.call is not None
    assert (only.call.arguments, only.call.result) == ({}, said("all"))
    assert only.call.result_size == Size(99, 40, "a" * 64)
    assert only.call.result_size.left_out_bytes == 59
    assert only.observation == said("fine")


async def test_what_is_missing_says_why(database: Database) -> None:
    nothing = {"arguments": None, "observation": None, "level": "metadata"}
    await put(
        database,
        {
            EpisodeRow: [episode("e_meta"), episode("e_mute"), episode("e_live")],
            StepRow: [
                step("s_meta", 1, episode_id="e_meta", **nothing),
                step("s_mute", 2, episode_id="e_mute", outcome="cancelled", observation=None),
            ],
            CallRow: [call("s_meta", episode_id="e_meta")],
            EndingRow: [
                ending("e_meta", level="metadata", task=None, task_source=None, answer=None),
                ending("e_mute", task=None, task_source=None, answer=None),
            ],
        },
    )
    meta, mute, live = [await loaded(database, f"e_{name}") for name in ("meta", "mute", "live")]
    assert (meta.task, meta.task_missing, meta.answer_missing) == (None, Missing.NOT_LOGGED, Missing.NOT_LOGGED)
    assert (meta.steps[0].arguments_missing, meta.steps[0].observation_missing) == (Missing.NOT_LOGGED,) * 2
    assert meta.steps[0].call is not None
    assert (meta.steps[0].call.result, meta.steps[0].call.result_missing) == (None, Missing.NOT_LOGGED)
    assert (mute.task_missing, mute.steps[0].observation_missing) == (Missing.UNTOLD, Missing.NOTHING)
    assert mute.steps[0].arguments_missing is None
    assert (live.ending, live.task_missing, live.steps) == (None, Missing.RUNNING, ())


async def test_a_call_whose_run_was_never_written_is_not_lost(database: Database) -> None:
    orphan = step("s_1", 1, parent_id="s_gone", mode="code")
    await put(database, {EpisodeRow: [episode()], StepRow: [orphan]})
    (only,) = (await loaded(database)).steps
    assert only.parent_id == "s_gone"


async def test_steps_that_name_each_other_as_parents_are_all_there(database: Database) -> None:
    rows = [step("s_1", 1, parent_id="s_2"), step("s_2", 2, parent_id="s_1"), step("s_3", 3, parent_id="s_3")]
    await put(database, {EpisodeRow: [episode()], StepRow: rows})
    assert [each.id for each in (await loaded(database)).every_step()] == ["s_1", "s_2", "s_3"]


@pytest.mark.parametrize(
    ("gaps", "end", "lost"),
    [
        ([gap(6, 7)], "finished", 2),
        ([gap(1, 4)], "finished", 0),
        ([gap(11, 12)], "finished", 0),
        ([gap(11, 12)], "lost", 2),
        ([gap(11, 12)], None, 2),
        ([gap(6, 6), gap(8, 9)], "lost", 3),
    ],
)
async def test_steps_that_were_lost_while_it_ran_are_counted(
    database: Database, gaps: list[dict[str, Any]], end: str | None, lost: int
) -> None:
    await put(
        database,
        {
            EpisodeRow: [episode()],
            StepRow: [step("s_1", 5), step("s_2", 10)],
            EndingRow: [] if end is None else [ending(reason=end)],
            GapRow: gaps,
        },
    )
    assert (await loaded(database)).lost == lost


async def test_an_episode_that_there_is_not_is_none(database: Database) -> None:
    assert await load(database, "e_none") is None
    assert await read(database) == []


async def test_a_stream_gives_each_episode_once_across_pages_in_both_directions(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trajectories, "EPISODES_PER_PAGE", 3)
    monkeypatch.setattr(trajectories, "STEPS_AT_ONCE", 4)
    # Several began at the same moment, so that a page ends between two of them.
    rows = [episode(f"e_{number:02}", began_at=at(number // 4)) for number in range(10)]
    steps = [
        step(f"s_{number}_{each}", 100 * number + each, episode_id=f"e_{number:02}")
        for number in range(10)
        for each in range(number)
    ]
    await put(database, {EpisodeRow: rows, StepRow: steps})
    whole = await read(database)
    assert [each.id for each in whole] == [f"e_{number:02}" for number in range(10)]
    assert [len(each.steps) for each in whole] == list(range(10))
    assert [each.id for each in await read(database, newest_first=True)] == [each.id for each in reversed(whole)]
    some = Filters(ids=("e_07", "e_none", "e_02", "e_09", "e_02", "e_00"))
    assert [each.id for each in await read(database, some)] == ["e_00", "e_02", "e_07", "e_09"]
    assert [each.id for each in await read(database, Filters(ids=()))] == []
    assert whole[7] == await loaded(database, "e_07")


async def test_an_episode_deleted_while_a_stream_is_read_is_not_in_it_and_writing_goes_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trajectories, "EPISODES_PER_PAGE", 1)
    await put(database, {EpisodeRow: [episode(f"e_{number}", began_at=at(number)) for number in range(3)]})
    reader = stream(database)
    assert (await anext(reader)).id == "e_0"
    async with database.writing() as connection:
        await connection.execute(EpisodeRow.__table__.delete().where(EpisodeRow.id == "e_1"))  # type: ignore[attr-defined]
    assert [each.id async for each in reader] == ["e_2"]


async def test_a_page_takes_as_many_queries_for_one_episode_as_for_many(database: Database) -> None:
    asked: list[str] = []
    for engine in {database._reader.sync_engine, database._writer.sync_engine}:

        @event.listens_for(engine, "before_cursor_execute")
        def note(_: Any, __: Any, statement: str, *___: Any) -> None:
            asked.append(statement)

    await put(database, {EpisodeRow: [episode("e_0")], StepRow: [step("s_0", 0, episode_id="e_0")]})
    asked.clear()
    await read(database)
    few = len(asked)
    await put(
        database,
        {
            EpisodeRow: [episode(f"e_{number}") for number in range(1, 50)],
            StepRow: [step(f"s_{number}", number, episode_id=f"e_{number}") for number in range(1, 50)],
        },
    )
    asked.clear()
    assert len(await read(database)) == 50
    assert 0 < len(asked) == few


async def test_filters_choose(database: Database) -> None:
    await put_lamp(database)
    later = episode("e_2", agent="bob", began_at=at(3_600))
    rubric = {
        "hash": "f" * 64, "writer": "a person", "content": {"criteria": []}, "created_at": NOON,
    }  # fmt: skip
    judgement = {
        "id": "j_1", "episode_id": "e_1", "rubric_hash": "f" * 64, "judge": "checks", "prompt_hash": None, "seed": None,
        "verdicts": [{"criterion": "a", "verdict": 1}], "subtotals": {"task": 1.0}, "reward": None, "cost": None,
        "created_at": NOON, "repeat": 0, "scope": "calls", "unrewarded": "too much is missing", "credits": None,
        "batch": None,
    }  # fmt: skip
    label = {
        "id": "l_1", "episode_id": "e_1", "step_id": None, "rubric_hash": None, "criterion": None, "labeller": "ann",
        "value": 0.5, "note": None, "created_at": NOON,
    }  # fmt: skip
    await put(
        database,
        {
            EpisodeRow: [later],
            StepRow: [step("s_x", 50, episode_id="e_2", level="metadata")],
            RubricRow: [rubric],
            JudgementRow: [judgement],
            LabelRow: [label],
        },
    )

    async def chosen(**filters: Any) -> list[str]:
        found = [each.id for each in await read(database, Filters(**filters))]
        assert found == [each.id for each in await heads(database, Filters(**filters), 10, newest_first=False)]
        return found

    assert await chosen() == ["e_1", "e_2"]
    assert await chosen(agent="bob") == ["e_2"]
    assert (await chosen(since=at(1)), await chosen(before=at(3_600))) == (["e_2"], ["e_1"])
    assert (await chosen(ended=True), await chosen(ended=False)) == (["e_1"], ["e_2"])
    assert (await chosen(outcome="done"), await chosen(outcome="failed")) == (["e_1"], [])
    assert (await chosen(server="shop", tool="find-item"), await chosen(server="shop", tool="sell")) == (["e_1"], [])
    assert await chosen(full=True) == ["e_1"]
    assert (await chosen(judged=True), await chosen(judged=False)) == (["e_1"], ["e_2"])
    assert (await chosen(rubric="f" * 64), await chosen(rubric="0" * 64)) == (["e_1"], [])
    assert await chosen(rubric="0" * 64, judged=False) == ["e_1", "e_2"]

    (judged,) = (await judgements(database, ["e_1", "e_2"]))["e_1"]
    assert (judged.reward, judged.subtotals, judged.verdicts) == (
        None,
        {"task": 1.0},
        [{"criterion": "a", "verdict": 1}],
    )
    (labelled,) = (await labels(database, ["e_1"]))["e_1"]
    assert (labelled.labeller, labelled.value) == ("ann", 0.5)
    assert (await rubrics(database, ["f" * 64, "0" * 64]))["f" * 64].content == {"criteria": []}


async def test_heads_page_through_a_list_without_reading_steps(database: Database) -> None:
    await put(database, {EpisodeRow: [episode(f"e_{number}", began_at=at(number // 2)) for number in range(5)]})
    first = await heads(database, Filters(), 2)
    assert [each.id for each in first] == ["e_4", "e_3"]
    rest = await heads(database, Filters(), 9, after=Cursor(first[-1].began_at, first[-1].id))
    assert [each.id for each in rest] == ["e_2", "e_1", "e_0"]


async def test_a_catalogue_has_the_definitions_that_were_asked_for(database: Database) -> None:
    tools = [["shop.find_item", "d" * 64], ["shop.again", "d" * 64], ["shop.gone", "0" * 64]]
    await put(database, {SnapshotRow: [snapshot(tools=tools)], DefinitionRow: [definition()]})
    whole = await catalogue(database, CATALOG)
    assert whole is not None
    assert list(whole.tools) == ["shop.find_item", "shop.again", "shop.gone"]
    assert list(whole.definitions) == ["shop.find_item", "shop.again"]
    assert whole.definitions["shop.find_item"].definition["name"] == "find-item"
    assert (whole.servers[0].purpose, whole.eager_tokens) == ("Sells lamps.", 4_000)
    some = await catalogue(database, CATALOG, tools=["shop.again", "shop.unknown"])
    assert some is not None
    assert list(some.definitions) == ["shop.again"]
    assert await catalogue(database, "0" * 64) is None


async def test_levels_and_outcomes_are_typed(database: Database) -> None:
    await put_lamp(database)
    lamp = await loaded(database)
    assert lamp.ending is not None
    assert lamp.ending.level is Level.FULL
    assert {each.outcome for each in lamp.every_step()} == {Outcome.OK, Outcome.TIMEOUT}


async def test_a_delegated_episode_and_its_step_know_each_other(database: Database) -> None:
    await put_lamp(database)
    children = [
        episode("e_later", began_at=at(3), parent_step="s_end"),
        episode("e_first", began_at=at(2), parent_step="s_end"),
        episode("e_stray", parent_step="s_deleted"),
    ]
    await put(database, {EpisodeRow: children})
    steps = {step.id: step.delegated for step in (await loaded(database)).every_step()}
    assert steps.pop("s_end") == ("e_first", "e_later")
    assert set(steps.values()) == {()}
    links = {each.id: (each.parent_step, each.parent_episode) for each in await read(database)}
    assert links == {
        "e_1": (None, None),
        "e_first": ("s_end", "e_1"),
        "e_later": ("s_end", "e_1"),
        "e_stray": ("s_deleted", None),
    }


async def test_a_decision_has_what_the_shadow_ranked_for_it(database: Database) -> None:
    await put_lamp(database)
    shadow = {
        "policy": "fused",
        "adapter": "a" * 64,
        "candidates": [["shop.b", 2.5], ["shop.a", 1]],
        "decided_at": NOON,
    }
    await put(database, {ShadowRow: [{"step_id": "s_search", "episode_id": "e_1", **shadow}]})
    (one,) = decided(await loaded(database))
    assert one.decision.shadow == TrajectoryShadow(
        policy="fused", adapter="a" * 64, candidates=(("shop.b", 2.5), ("shop.a", 1)), decided_at=NOON
    )
