"""Lines out of the tables and back into them, on both databases."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema_rs import validator_for
from sqlalchemy import update

from proxy.store import importing
from proxy.store.database import Database
from proxy.store.exporting import export
from proxy.store.filters import Filters
from proxy.store.importing import Imported, import_lines
from proxy.store.lines import SCHEMA, schema
from proxy.store.migrating import migrate
from proxy.store.recorder import EndReason, Level, Outcome
from proxy.store.rubrics import Attached, attachments
from proxy.store.tables import (
    AttachmentRow,
    Base,
    CallRow,
    DecisionRow,
    DefinitionRow,
    EndingRow,
    EpisodeRow,
    GapRow,
    JudgementRow,
    LabelRow,
    RubricRow,
    RubricSourceRow,
    ShadowRow,
    SnapshotRow,
    StepRow,
    StreamRow,
)
from proxy.store.trajectories import load
from tests.fixtures import lamp
from tests.fixtures.lamp import NOON, STREAM, at, put, put_lamp

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
RUBRIC = {
    "hash": "f" * 64, "writer": "a person", "content": {"criteria": []}, "created_at": NOON,
}  # fmt: skip


@pytest.fixture
async def other(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Database]:
    """An empty database elsewhere."""
    url = f"sqlite:///{tmp_path / 'other' / 'log.db'}"
    await migrate(url)
    database = Database(url)
    yield database
    await database.close()


async def exported(database: Database, filters: Filters | None = None) -> list[str]:
    return [line async for line in export(database, filters)]


async def imported(database: Database, lines: Iterable[str]) -> Imported:
    return await import_lines(database, [line.encode() for line in lines])


async def empty(database: Database) -> None:
    async with database.writing() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            await connection.execute(table.delete())


def judgement(**changed: Any) -> dict[str, Any]:
    return {
        "id": "j_1", "episode_id": "e_1", "rubric_hash": "f" * 64, "judge": "checks", "prompt_hash": None, "seed": 7,
        "verdicts": [{"criterion": "a", "verdict": 1}], "subtotals": {"task": 1.0}, "reward": 0.75, "cost": None,
        "created_at": NOON, "repeat": 0, "scope": "calls+task", "unrewarded": None, "credits": {"s_a": -0.5},
        "batch": None, **changed,
    }  # fmt: skip


def attachment(id: int, scope: str = "default", target: str | None = None, **changed: Any) -> dict[str, Any]:
    return {
        "id": id, "rubric_hash": "f" * 64, "scope": scope, "target": target, "attached_at": at(id), **changed,
    }  # fmt: skip


def label(**changed: Any) -> dict[str, Any]:
    return {
        "id": "l_1", "episode_id": "e_1", "step_id": "s_a", "rubric_hash": None, "criterion": "a", "labeller": "ann",
        "value": 1, "note": "good", "created_at": NOON, **changed,
    }  # fmt: skip


async def put_everything(database: Database) -> None:
    await put_lamp(database)
    async with database.writing() as connection:
        await connection.execute(update(EpisodeRow).values(parent_step="s_elsewhere"))
    shadow = {"policy": "fused", "adapter": "a" * 64, "candidates": [["shop.find_item", 1.5]], "decided_at": at(2)}
    gap = {"stream": STREAM, "first_seq": 7, "last_seq": 8, "reason": "killed", "reported_at": at(99)}
    await put(
        database,
        {
            ShadowRow: [{"step_id": "s_search", "episode_id": "e_1", **shadow}],
            GapRow: [gap],
            RubricRow: [RUBRIC, RUBRIC | {"hash": "a" * 64}],
            AttachmentRow: [
                attachment(1, "family", "f_gone"),
                attachment(2, "family", "f_gone", rubric_hash=None),
                attachment(3, rubric_hash="a" * 64),
                attachment(4),
                attachment(5, "task", "t_1"),
            ],
            RubricSourceRow: [{"rubric_hash": "f" * 64, "episode_id": each} for each in ("e_9", "e_8")],
            JudgementRow: [judgement(), judgement(id="j_2", repeat=1, reward=None, unrewarded="too much is cut")],
            LabelRow: [label(), label(id="l_2", value=None, created_at=at(7))],
        },
    )


async def test_an_export_names_things_before_episodes_use_them_and_fits_the_schema(database: Database) -> None:
    await put_everything(database)
    lines = [json.loads(line) for line in await exported(database)]
    assert [line["kind"] for line in lines] == ["stream", "rubric", "definition", "snapshot", "episode"]
    assert {line["schema"] for line in lines} == {SCHEMA}
    validator = validator_for(schema(), validate_formats=True)
    for line in lines:
        validator.validate(line)
    episode = lines[-1]
    assert [step["id"] for step in episode["steps"]] == ["s_search", "s_run", "s_a", "s_b", "s_end"]
    assert episode["parent_step"] == "s_elsewhere"
    assert episode["steps"][0]["decision"]["shadow"]["candidates"] == [["shop.find_item", 1.5]]
    # What is the step's own is not said twice.
    assert not {"arguments", "result", "result_size"} & episode["steps"][2]["call"].keys()
    assert [each["reward"] for each in episode["judgements"]] == [0.75, None]
    assert [each["value"] for each in episode["labels"]] == [1, None], "all that was said, not what counts alone"
    rubric = lines[1]
    places = [(each["scope"], each["target"]) for each in rubric["attachments"]]
    assert places == [("default", None), ("task", "t_1")], "what was taken away counts no more"
    assert rubric["sources"] == ["e_8", "e_9"]


async def test_what_several_episodes_share_is_exported_once(database: Database) -> None:
    await put_lamp(database)
    more = [lamp.episode(f"e_{number}", began_at=at(number)) for number in range(100, 200)]
    await put(database, {EpisodeRow: more})
    kinds = [json.loads(line)["kind"] for line in await exported(database)]
    assert kinds == ["stream", "definition", "snapshot", *["episode"] * 101]


async def test_an_export_can_be_imported_elsewhere_and_is_the_same_there(database: Database, other: Database) -> None:
    await put_everything(database)
    lines = await exported(database)
    done = await imported(other, lines)
    assert (done.episodes, done.steps, done.known, done.refused) == (1, 5, 0, [])
    assert await exported(other) == lines
    assert await load(other, "e_1") == await load(database, "e_1")


async def test_importing_again_adds_nothing(database: Database) -> None:
    await put_everything(database)
    lines = await exported(database)
    done = await imported(database, lines)
    assert (done.episodes, done.steps, done.known, done.refused) == (0, 0, 1, [])
    assert await exported(database) == lines


async def test_an_episode_that_has_gone_on_gets_what_is_new(database: Database) -> None:
    await put(database, {EpisodeRow: [lamp.episode()], StepRow: [lamp.step("s_1", 1)]})
    early = await exported(database)
    await put(database, {StepRow: [lamp.step("s_2", 2)], EndingRow: [lamp.ending()]})
    late = await exported(database)
    await empty(database)
    assert (await imported(database, early)).steps == 1
    done = await imported(database, late)
    assert (done.episodes, done.steps, done.known) == (0, 1, 1)
    assert await exported(database) == late


async def test_a_bad_line_is_refused_whole_and_everything_else_is_imported(database: Database) -> None:
    rows = [lamp.episode(f"e_{number}", began_at=at(number)) for number in range(5)]
    steps = [lamp.step(f"s_{number}", number, episode_id=f"e_{number}") for number in range(5)]
    await put(database, {EpisodeRow: rows, StepRow: steps})
    lines = await exported(database)
    await empty(database)
    spoiled = json.loads(lines[2])
    spoiled["steps"][0]["outcome"] = "splendid"
    done = await imported(database, [lines[0], "", "{", json.dumps(spoiled), *lines[1:2], *lines[3:]])
    assert (done.episodes, done.steps) == (4, 4)
    assert [refused.line for refused in done.refused] == [3, 4]
    assert done.refused[1].why.startswith('steps[0].outcome: "splendid" is not one of')
    assert await exported(database) == [*lines[:2], *lines[3:]]


def changed(line: str, change: Any) -> str:
    value = json.loads(line)
    change(value)
    return json.dumps(value)


async def test_a_judgement_by_a_rubric_that_nobody_knows_is_refused(database: Database) -> None:
    await put_everything(database)
    lines = await exported(database)
    await empty(database)
    done = await imported(database, [line for line in lines if json.loads(line)["kind"] != "rubric"])
    assert [refused.line for refused in done.refused] == [4]
    assert done.refused[0].why == f"judgements: their rubric {'f' * 64} is neither here nor in a line before"
    assert await load(database, "e_1") is None
    assert (await imported(database, lines)).refused == []
    assert await exported(database) == lines


async def test_what_contradicts_the_database_is_refused_alone(database: Database) -> None:
    await put_everything(database)
    await put(
        database,
        {
            EpisodeRow: [lamp.episode("e_2", began_at=at(1)), lamp.episode("e_3", began_at=at(2))],
            StepRow: [lamp.step("s_x", 20, episode_id="e_2"), lamp.step("s_y", 21, episode_id="e_3")],
        },
    )
    lines = await exported(database)
    before = lines[:]

    def theirs(**change: Any) -> str:
        return changed(lines[-2], lambda e: e.update(change))

    spoiled = [
        theirs(id="e_1", began_at="2026-01-01T00:00:00+00:00", steps=[]),
        changed(lines[-2], lambda e: e["steps"][0].update(id="s_y", seq=30)),
        changed(lines[-2], lambda e: e["steps"][0].update(id="s_new", seq=21)),
        changed(lines[-3], lambda e: e.update(id="e_9", steps=[])),
    ]
    done = await imported(database, [*spoiled, theirs(id="e_4", steps=[])])
    assert [refused.line for refused in done.refused] == [1, 2, 3, 4]
    assert [refused.why.split(":")[0] for refused in done.refused] == ["id", "steps", "steps", "judgements"]
    assert done.episodes == 1
    assert [line for line in await exported(database) if '"e_4"' not in line] == before


async def test_a_file_of_any_length_is_written_in_transactions_of_bounded_size(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "LINES_AT_ONCE", 3)
    monkeypatch.setattr(importing, "ROWS_AT_ONCE", 4)
    await put(
        database,
        {
            EpisodeRow: [lamp.episode(f"e_{number}", began_at=at(number)) for number in range(10)],
            StepRow: [
                lamp.step(f"s_{number}_{each}", 10 * number + each, episode_id=f"e_{number}")
                for number in range(10)
                for each in range(number)
            ],
        },
    )
    lines = await exported(database)
    await empty(database)
    assert (await imported(database, lines)).steps == 45
    assert await exported(database) == lines


async def test_an_import_undoes_nothing_that_was_decided_here_since(database: Database, other: Database) -> None:
    await put_everything(database)
    lines = await exported(database)
    await imported(other, lines)
    here = RUBRIC | {"hash": "b" * 64}
    newer = attachment(90, rubric_hash="b" * 64)
    own = judgement(id="j_own", judge="here")
    twin = judgement(id="j_twin", judge="checks", repeat=2, reward=0.25)
    await put(other, {RubricRow: [here], AttachmentRow: [newer], JudgementRow: [own, twin]})
    # The same judge came to another result over there, at the same repeat.
    await put(database, {JudgementRow: [judgement(id="j_theirs", repeat=2, reward=1.0)]})
    before = await exported(other)
    done = await imported(other, await exported(database))
    assert (done.refused, done.known) == ([], 1)
    assert await exported(other) == before
    default = [each.rubric_hash for each in await attachments(other) if each.scope == Attached.DEFAULT]
    assert default == ["b" * 64]


@pytest.mark.parametrize(
    ("member", "value", "path"),
    [
        ("repeat", -1, "judgements[0].repeat"),
        ("scope", "", "judgements[0].scope"),
        ("reward", 1.5, "judgements[0].reward"),
        ("credits", [], "judgements[0].credits"),
        ("judge", "j" * 501, "judgements[0].judge"),
    ],
)
async def test_a_judgement_that_cannot_be_is_refused_with_its_episode(
    database: Database, other: Database, member: str, value: Any, path: str
) -> None:
    await put_everything(database)
    lines = await exported(database)
    episode = json.loads(lines[-1])
    episode["judgements"][0][member] = value
    done = await imported(other, [*lines[:-1], json.dumps(episode)])
    (refused,) = done.refused
    assert path in refused.why
    assert done.episodes == 0


async def test_numbers_that_json_has_no_word_for_do_not_stop_an_export(database: Database) -> None:
    nan: Any = {"low": float("-inf"), "deep": [float("nan")]}
    await put(database, {EpisodeRow: [lamp.episode()], StepRow: [lamp.step("s_1", 1, observation=nan)]})
    (line,) = await exported(database)
    assert json.loads(line)["steps"][0]["observation"] == {"low": "-inf", "deep": ["nan"]}
    await empty(database)
    assert (await imported(database, [line])).refused == []
    assert await exported(database) == [line]


async def test_values_nested_deeper_than_a_validator_goes_travel_as_well(database: Database) -> None:
    deep: Any = 1
    for _ in range(400):
        deep = {"a": [deep]}
    await put(database, {EpisodeRow: [lamp.episode()], StepRow: [lamp.step("s_1", 1, arguments=deep)]})
    lines = await exported(database)
    await empty(database)
    assert (await imported(database, lines)).refused == []
    assert await exported(database) == lines


ANY_TEXT = st.text(st.characters(), max_size=20)
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)
TIMES = st.datetimes(min_value=NOON.replace(tzinfo=None, year=1990), timezones=st.just(NOON.tzinfo))
COUNTS = st.integers(0, 2**31 - 1)
HASHES = st.text("0123456789abcdef", min_size=64, max_size=64)
SHARES = st.floats(0, 1)
TARGETS = st.sampled_from(["t_1", "t_2", "f_1"])
TOOLS = st.lists(st.tuples(ANY_TEXT, SHARES).map(list), max_size=3)


def sizes(of: str, *, known: bool = False) -> Any:
    some = st.fixed_dictionaries({f"{of}_bytes": COUNTS, f"{of}_kept": COUNTS, f"{of}_hash": st.none() | HASHES})
    return some if known else st.just({f"{of}_bytes": None, f"{of}_kept": None, f"{of}_hash": None}) | some


@st.composite
def logs(draw: st.DrawFn) -> dict[type[Base], list[dict[str, Any]]]:
    """Rows as the recorder may write them, and worse."""
    episodes, steps, calls, decisions, endings = [], [], [], [], []
    for number in range(draw(st.integers(1, 3))):
        its = {"episode_id": f"e_{number}"}
        episodes.append(
            lamp.episode(
                its["episode_id"], agent=draw(ANY_TEXT), client=draw(st.none() | ANY_TEXT), began_at=draw(TIMES)
            )
        )
        for index in range(draw(st.integers(0, 3))):
            id = f"s_{number}_{index}"
            parents = st.sampled_from([None, "s_none", *(f"s_{number}_{other}" for other in range(3))])
            step = {
                "parent_id": draw(parents),
                "name": draw(ANY_TEXT),
                "arguments": draw(VALUES),
                "outcome": draw(st.sampled_from(Outcome)).value,
                "error": draw(st.none() | ANY_TEXT),
                "observation": draw(VALUES),
                **draw(sizes("observation")),
                "action_tokens": draw(st.none() | COUNTS),
                "level": draw(st.sampled_from(Level)).value,
                "revealed": draw(st.none() | st.just([["a.b", "name"]])),
                "started_at": draw(TIMES),
                "duration_ms": draw(st.floats(0, 1e9)),
            }
            steps.append(lamp.step(id, 10 * number + index, **its, **step))
            if draw(st.booleans()):
                result = draw(VALUES)
                call = {
                    "tool": draw(ANY_TEXT), "arguments": draw(VALUES),
                    # Whoever keeps a result knows its size.
                    "result": result, **draw(sizes("result", known=result is not None)),
                    "outcome": draw(st.sampled_from(Outcome)).value, "started_at": draw(TIMES),
                }  # fmt: skip
                calls.append(lamp.call(id, **its, **call))
            if draw(st.booleans()):
                decision = {
                    "query": draw(st.none() | ANY_TEXT), "candidates": draw(st.none() | TOOLS),
                    "propensities": draw(st.none() | st.lists(SHARES, max_size=3)), "decided_at": draw(TIMES),
                    "servers": draw(st.none() | st.lists(ANY_TEXT, max_size=2)),
                    "asked": draw(st.none() | COUNTS), "cut": draw(st.none() | COUNTS),
                    "entropy": draw(st.none() | SHARES), "sure": draw(st.none() | st.booleans()),
                    "explored": draw(st.none() | st.booleans()),
                }  # fmt: skip
                decisions.append(lamp.decision(id, **its, **decision))
        if draw(st.booleans()):
            ending = {
                "reason": draw(st.sampled_from(EndReason)).value, "ended_at": draw(TIMES),
                "answer": draw(st.none() | ANY_TEXT), "tokens_eager": draw(st.none() | COUNTS),
            }  # fmt: skip
            endings.append(lamp.ending(its["episode_id"], **ending))
    return {
        StreamRow: [lamp.stream()],
        DefinitionRow: [lamp.definition(definition=draw(st.dictionaries(ANY_TEXT, VALUES, max_size=3)))],
        SnapshotRow: [lamp.snapshot(introduction=draw(st.none() | ANY_TEXT))],
        RubricRow: [RUBRIC],
        EpisodeRow: episodes,
        StepRow: steps,
        CallRow: calls,
        DecisionRow: decisions,
        EndingRow: endings,
        JudgementRow: [
            judgement(
                episode_id="e_0",
                verdicts=[{"criterion": "a", "verdict": draw(VALUES)}],
                reward=draw(st.none() | SHARES),
                unrewarded=draw(st.none() | ANY_TEXT),
                credits=draw(st.none() | st.dictionaries(ANY_TEXT, st.floats(-1, 1), max_size=3)),
                scope=draw(st.sampled_from(["calls", "calls+task+answer+model"])),
                repeat=draw(st.integers(0, 9)),
            )
        ],
        AttachmentRow: [
            attachment(number, draw(st.sampled_from(Attached)).value, draw(st.none() | TARGETS))
            for number in range(1, draw(st.integers(1, 4)))
        ],
        RubricSourceRow: [{"rubric_hash": "f" * 64, "episode_id": each} for each in draw(st.sets(TARGETS, max_size=3))],
        LabelRow: [label(episode_id="e_0", value=draw(st.none() | SHARES), note=draw(st.none() | ANY_TEXT))],
    }


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(logs())
async def test_whatever_is_exported_comes_back_the_same(
    database: Database, rows: dict[type[Base], list[dict[str, Any]]]
) -> None:
    await empty(database)
    await put(database, rows)
    lines = await exported(database)
    ids = [row["id"] for row in rows[EpisodeRow]]
    before = [await load(database, each) for each in ids]
    await empty(database)
    done = await imported(database, lines)
    assert (done.refused, done.episodes, done.steps) == ([], len(ids), len(rows[StepRow]))
    assert await exported(database) == lines
    assert [await load(database, each) for each in ids] == before
