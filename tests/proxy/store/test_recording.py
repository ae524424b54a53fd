"""The recorder with its real writer process, over real databases."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from proxy.errors import ConfigurationError
from proxy.store.database import Database
from proxy.store.deletions import Selection, delete
from proxy.store.migrating import migrate
from proxy.store.recorder import Decision, EndReason, Level, Outcome, Revealed, ShadowDecision, Step
from proxy.store.snapshots import CatalogView
from proxy.store.tables import (
    CallRow,
    DecisionRow,
    DefinitionRow,
    EndingRow,
    EpisodeRow,
    GapRow,
    ShadowRow,
    SnapshotRow,
    StepRow,
    StreamRow,
)
from tests.fixtures.recorded import (
    BEGAN,
    CATALOG,
    KEY,
    WITHIN_S,
    ending_of,
    episode_of,
    recorder_of,
    rows,
    step_of,
)

pytestmark = pytest.mark.anyio

# What a redactor takes for a secret is no matter of the way into the tables.
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(alphabet="aeiou\0\n\ud800é \U0001f600", max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("pqrst"), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
def where(tmp_path: Path) -> Path:
    return tmp_path / "journals"


@pytest.fixture
async def database_url(database_url: str) -> str:
    """PostgreSQL is migrated by whoever runs it; SQLite by the writer."""
    if database_url.startswith("postgresql"):
        await migrate(database_url)
    return database_url


async def until(condition: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    with anyio.fail_after(within_s):
        while not condition():
            await anyio.sleep(0.01)


def folders(where: Path) -> list[Path]:
    return sorted(path for path in where.iterdir() if path.is_dir())


async def test_a_step_comes_back_as_it_was_sent(where: Path, database_url: str) -> None:
    decision = Decision(
        policy="lexical",
        adapter="a1",
        query="say something",
        task="greet them",
        servers=("echo",),
        candidates=(("echo.say", 2.5), ("echo.shout", 0.25)),
        shown=("echo.say",),
        propensities=(1.0,),
        degraded="the model is slow",
        asked=3,
        entropy=0.25,
        sure=True,
        explored=True,
        duration_ms=0.75,
    )
    episode = episode_of(client="cli 1.0", protocol="2025-06-18")
    step = step_of(
        7, episode=episode, decision=decision, revealed=(Revealed(tool="echo.say", how="signature"),), parent="s_0"
    )
    recorder = recorder_of(where, database_url)
    async with recorder.running():
        recorder.record(step)
        assert await recorder.flushed(WITHIN_S)
        stream = recorder.stream
    (row,) = await rows(database_url, StepRow)
    (call,) = await rows(database_url, CallRow)
    (decided,) = await rows(database_url, DecisionRow)
    (begun,) = await rows(database_url, EpisodeRow)
    assert row["id"] == step.id
    assert (row["stream"], row["seq"], row["parent_id"], row["level"]) == (stream, 1, "s_0", "full")
    assert (row["name"], row["arguments"], row["observation"]) == ("call_tool", step.arguments, step.result)
    assert (row["outcome"], row["error"], row["catalog"]) == ("ok", None, CATALOG)
    assert (row["started_at"], row["duration_ms"]) == (step.started_at, 2.5)
    assert row["revealed"] == [["echo.say", "signature"]]
    assert row["observation_bytes"] == row["observation_kept"] > 0
    assert row["observation_tokens"] == 3
    assert row["action_tokens"] > 5
    assert (call["server"], call["tool"], call["written"]) == ("echo", "say", "echo.say")
    assert call["arguments"] == {"text": "question 7"}
    assert call["result"] is None
    assert (call["outcome"], call["duration_ms"]) == ("ok", 1.25)
    assert (decided["query"], decided["task"], decided["servers"]) == ("say something", "greet them", ["echo"])
    assert decided["candidates"] == [["echo.say", 2.5], ["echo.shout", 0.25]]
    assert (decided["shown"], decided["propensities"]) == (["echo.say"], [1.0])
    assert (decided["policy"], decided["adapter"], decided["degraded"]) == ("lexical", "a1", "the model is slow")
    assert (decided["asked"], decided["cut"], decided["entropy"]) == (3, 1, 0.25)
    assert (decided["sure"], decided["explored"]) == (True, True)
    assert (begun["agent"], begun["client"], begun["protocol"]) == ("local", "cli 1.0", "2025-06-18")
    assert (begun["began_at"], begun["catalog"], begun["stream"]) == (BEGAN, CATALOG, stream)
    assert [row["id"] for row in await rows(database_url, StreamRow)] == [stream]


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(contents=st.lists(st.tuples(PLAIN, PLAIN, PLAIN), min_size=1, max_size=20))
def test_any_arguments_and_results_come_back(
    tmp_path_factory: pytest.TempPathFactory, contents: list[tuple[Any, Any, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    url = f"sqlite:///{folder / 'log.db'}"
    steps = []
    for arguments, result, other in contents:
        step = step_of(result=result)
        assert step.call is not None
        steps.append(replace(step, arguments=arguments, call=replace(step.call, arguments=other, result=arguments)))

    async def record() -> None:
        recorder = recorder_of(folder / "journals", url)
        async with recorder.running():
            for step in steps:
                recorder.record(step)
            assert await recorder.flushed(WITHIN_S)
        found = await rows(url, StepRow, StepRow.seq)
        calls = {row["step_id"]: row for row in await rows(url, CallRow)}
        for step, row in zip(steps, found, strict=True):
            call = calls[step.id]
            assert (row["arguments"], row["observation"]) == (step.arguments, step.result)
            assert step.call is not None
            assert call["result"] == (None if step.call.result is step.result else step.call.result)
            assert call["arguments"] in (step.call.arguments, None)
            if call["arguments"] is None:
                assert step.call.arguments in (None, step.arguments)

    anyio.run(record)


async def test_steps_are_numbered_without_gaps_in_the_order_of_their_recording(where: Path, database_url: str) -> None:
    steps = [step_of(number, episode=episode_of(number % 7)) for number in range(500)]
    recorder = recorder_of(where, database_url)
    async with recorder.running():
        for step in steps:
            recorder.record(step)
        assert await recorder.flushed(WITHIN_S)
        counts = recorder.counts
    found = await rows(database_url, StepRow, StepRow.seq)
    assert [(row["seq"], row["id"]) for row in found] == [(seq, step.id) for seq, step in enumerate(steps, 1)]
    assert (counts.assigned, counts.acknowledged, counts.shipped, counts.dropped) == (500, 500, 500, 0)
    assert counts.problem is None
    assert not await rows(database_url, GapRow)


async def test_all_is_in_the_tables_and_the_folder_gone_when_the_gateway_has_ended(
    where: Path, database_url: str
) -> None:
    recorder = recorder_of(where, database_url)
    async with recorder.running():
        for number in range(50):
            recorder.record(step_of(number))
        recorder.end(ending_of(episode_of()))
    assert len(await rows(database_url, StepRow)) == 50
    assert len(await rows(database_url, EndingRow)) == 1
    assert folders(where) == []


async def test_what_was_recorded_is_written_also_when_the_gateway_is_cancelled(where: Path, database_url: str) -> None:
    with anyio.CancelScope() as scope:
        recorder = recorder_of(where, database_url)
        async with recorder.running():
            for number in range(20):
                recorder.record(step_of(number))
            scope.cancel()
            await anyio.sleep_forever()
    assert len(await rows(database_url, StepRow)) == 20


async def test_what_fails_while_the_log_is_open_comes_out_as_it_is(where: Path, tmp_path: Path) -> None:
    recorder = recorder_of(where, f"sqlite:///{tmp_path / 'log.db'}")

    async def fail() -> None:
        async with recorder.running():
            recorder.record(step_of())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert len(await rows(f"sqlite:///{tmp_path / 'log.db'}", StepRow)) == 1


async def test_an_ending_has_the_sums_of_its_episode(where: Path, database_url: str) -> None:
    definition = {"name": "say", "description": "Says it.", "inputSchema": {"type": "object"}}
    view = CatalogView(
        hash=CATALOG,
        servers=[{"name": "echo", "written": "echo", "purpose": "Echoes."}],
        tools=[("echo.say", "echo", "say", definition), ("echo.shout", "echo", "shout", definition)],
        introduction="Search for tools.",
    )
    episode = episode_of()
    searching = {"policy": "lexical", "candidates": (), "shown": (), "duration_ms": 1.0}
    recorder = recorder_of(where, database_url, catalogue=lambda hash: view if hash == CATALOG else None)
    async with recorder.running():
        recorder.record(step_of(0, name="search_tools", call=None, decision=Decision(query="q1", **searching)))
        found = Decision(query="q2", task="Greet everybody", **searching)
        recorder.record(step_of(1, name="search_tools", call=None, decision=found))
        recorder.record(step_of(2))
        run = step_of(3, name="run_python", call=None)
        recorder.record(step_of(4, mode="code", parent=run.id, outcome=Outcome.TOOL_ERROR))
        recorder.record(run)
        recorder.end(ending_of(episode, outcome="done", answer="All greeted."))
        assert await recorder.flushed(WITHIN_S)
    (ending,) = await rows(database_url, EndingRow)
    (snapshot,) = await rows(database_url, SnapshotRow)
    definitions = await rows(database_url, DefinitionRow)
    seen = select(func.sum(StepRow.action_tokens + StepRow.observation_tokens)).where(StepRow.parent_id.is_(None))
    ((tokens,),) = await rows(database_url, seen)
    assert (ending["reason"], ending["outcome"], ending["answer"]) == ("finished", "done", "All greeted.")
    assert (ending["task"], ending["task_source"], ending["level"]) == ("Greet everybody", "task", "full")
    assert (ending["steps"], ending["calls"], ending["failures"]) == (4, 2, 1)
    assert ending["tokens_seen"] == tokens + snapshot["introduction_tokens"]
    assert ending["tokens_eager"] == snapshot["eager_tokens"] == sum(row["tokens"] for row in definitions)
    assert [tool for tool, _ in snapshot["tools"]] == ["echo.say", "echo.shout"]
    assert {row["hash"] for row in definitions} == {digest for _, digest in snapshot["tools"]}
    assert [row["definition"] for row in definitions] == [definition, definition]


async def test_without_a_told_task_the_queries_say_what_an_episode_was_about(where: Path, database_url: str) -> None:
    recorder = recorder_of(where, database_url)
    async with recorder.running():
        for query in ("first", "second", "first"):
            decision = Decision(policy="lexical", query=query, candidates=(), shown=(), duration_ms=1.0)
            recorder.record(step_of(name="search_tools", call=None, decision=decision))
        recorder.end(ending_of(episode_of()))
    (ending,) = await rows(database_url, EndingRow)
    assert (ending["task"], ending["task_source"]) == ("first\nsecond", "queries")


async def test_nothing_is_written_of_what_is_off_and_no_number_given(where: Path, database_url: str) -> None:
    recorder = recorder_of(where, database_url)
    async with recorder.running():
        recorder.record(step_of(level=Level.OFF))
        recorder.end(ending_of(episode_of()))
        recorder.record(step_of(1, episode=episode_of(1)))
        assert await recorder.flushed(WITHIN_S)
        assert recorder.counts.assigned == 1
    assert [row["id"] for row in await rows(database_url, EpisodeRow)] == [episode_of(1).id]
    assert not await rows(database_url, EndingRow)


async def test_metadata_leaves_nothing_of_contents_on_the_disk_or_in_the_tables(where: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    word = "xylophone"
    decision = Decision(
        policy="lexical",
        query=word,
        task=word,
        servers=(word,),
        candidates=((word, 1.0),),
        shown=(word,),
        propensities=(1.0,),
        duration_ms=1.0,
    )
    result = {"content": [{"type": "text", "text": word}]}
    step = step_of(
        arguments={"text": word},
        result=result,
        error=word,
        decision=decision,
        revealed=(Revealed(tool=word, how="name"),),
        level=Level.METADATA,
    )
    recorder = recorder_of(where, url)
    async with recorder.running():
        recorder.record(step)
        recorder.end(ending_of(episode_of(), answer=word, level=Level.METADATA))
        await until(lambda: recorder.counts.acknowledged == 1)
        assert recorder.writer_pid is not None
        seen_nowhere(tmp_path, word)
        assert await recorder.flushed(WITHIN_S)
        seen_nowhere(tmp_path, word)
    seen_nowhere(tmp_path, word)
    (row,) = await rows(url, StepRow)
    (call,) = await rows(url, CallRow)
    (decided,) = await rows(url, DecisionRow)
    (ending,) = await rows(url, EndingRow)
    assert (row["level"], row["arguments"], row["observation"], row["error"]) == ("metadata", None, None, None)
    assert (row["observation_bytes"], row["observation_kept"], row["action_tokens"]) == (48, 0, None)
    assert (call["server"], call["arguments"], call["result"]) == ("echo", None, None)
    assert (decided["policy"], decided["query"], decided["candidates"]) == ("lexical", None, None)
    assert (ending["level"], ending["task"], ending["answer"]) == ("metadata", None, None)


def seen_nowhere(folder: Path, word: str) -> None:
    for path in files(folder):
        assert word.encode() not in path.read_bytes(), path


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_a_secret_is_not_on_the_disk_while_it_waits_for_the_database(where: Path) -> None:
    secret = "ghp_" + "Zx9Kq2Lm4Np6Rs8Tv0Wy1Ab3Cd5Ef7Gh9Ij0"
    recorder = recorder_of(where, "postgresql://nobody:nothing@127.0.0.1:1/none", drain_s=0.1)
    async with recorder.running():
        recorder.record(step_of(arguments={"token": secret}, result={"content": [{"type": "text", "text": secret}]}))
        await until(lambda: recorder.counts.acknowledged == 1)
        seen_nowhere(where, secret)
    assert any(path.suffix == ".journal" for path in files(where))
    assert {path.stat().st_mode & 0o077 for path in files(where)} == {0}


async def test_long_results_are_cut_and_their_size_and_hash_are_those_of_the_whole(
    where: Path, database_url: str
) -> None:
    text = "word " * 400_000
    recorder = recorder_of(where, database_url)
    async with recorder.running():
        recorder.record(step_of(result={"content": [{"type": "text", "text": text}]}))
        recorder.record(step_of(result={"content": [{"type": "text", "text": text}]}, episode=episode_of(1)))
        recorder.record(step_of(result={"content": [{"type": "text", "text": text + "!"}]}))
        image = {"type": "image", "data": "QUJD" * 50_000, "mimeType": "image/png"}
        recorder.record(step_of(result={"content": [image]}))
        assert await recorder.flushed(WITHIN_S)
    first, second, third, picture = await rows(database_url, StepRow, StepRow.seq)
    assert first["observation_bytes"] > 2_000_000
    assert first["observation_kept"] < 70_000
    assert first["observation_tokens"] > 390_000
    assert first["observation_hash"] == second["observation_hash"] != third["observation_hash"]
    assert picture["observation"]["content"][0]["data"]["toolatlas/cut"]["bytes"] == 200_000


async def test_contents_that_are_no_json_do_not_stop_a_step(where: Path, database_url: str) -> None:
    deep: Any = "end"
    for _ in range(3_000):
        deep = [deep]
    quite_deep: Any = "end"
    for _ in range(400):
        quite_deep = [quite_deep]
    recorder = recorder_of(where, database_url)
    async with recorder.running():
        recorder.record(step_of(arguments=deep))
        recorder.record(step_of(result={"content": object()}))
        recorder.record(step_of(result=quite_deep))
        assert await recorder.flushed(WITHIN_S)
    first, second, third = await rows(database_url, StepRow, StepRow.seq)
    assert first["arguments"] == {"toolatlas/unwritable": "RecursionError"}
    assert second["observation"] == {"toolatlas/unwritable": "TypeError"}
    assert third["observation"] == quite_deep


async def test_more_than_can_be_taken_is_counted_and_becomes_a_gap_and_calls_go_on(
    where: Path, database_url: str
) -> None:
    recorder = recorder_of(where, database_url, queue_bytes=200_000)
    async with recorder.running():
        recorder.record(step_of())
        assert await recorder.flushed(WITHIN_S)
        writer = recorder.writer_pid
        assert writer is not None
        os.kill(writer, signal.SIGSTOP)
        try:
            for number in range(1_000):
                recorder.record(step_of(number, arguments={"text": "x" * 1_000}))
                if number % 50 == 0:
                    await anyio.lowlevel.checkpoint()
            assert recorder.counts.dropped > 500
            assert recorder.counts.assigned == 1_001
        finally:
            os.kill(writer, signal.SIGCONT)
        await until(lambda: recorder.counts.acknowledged == 1_001)
        recorder.record(step_of())
        assert await recorder.flushed(WITHIN_S)
        dropped = recorder.counts.dropped
    kept = {row["seq"] for row in await rows(database_url, StepRow)}
    gaps = await rows(database_url, GapRow)
    missing = {number for gap in gaps for number in range(gap["first_seq"], gap["last_seq"] + 1)}
    assert {gap["reason"] for gap in gaps} == {"overload"}
    assert not kept & missing
    assert kept | missing == set(range(1, 1_003))
    assert len(missing) == dropped


async def test_a_writer_that_is_killed_again_and_again_loses_nothing_and_writes_nothing_twice(
    where: Path, database_url: str
) -> None:
    recorder = recorder_of(where, database_url)
    async with recorder.running():
        for number in range(1_500):
            recorder.record(step_of(number))
            if number % 300 == 150:
                await until(lambda: recorder.writer_pid is not None)
                before = recorder.counts.acknowledged
                await until(lambda before=before: recorder.counts.acknowledged > before)
                writer = recorder.writer_pid
                if writer is not None:
                    os.kill(writer, signal.SIGKILL)
        recorder.end(ending_of(episode_of()))
        assert await recorder.flushed(WITHIN_S)
    found = [row["seq"] for row in await rows(database_url, StepRow, StepRow.seq)]
    assert found == list(range(1, 1_501))
    assert not await rows(database_url, GapRow)
    (ending,) = await rows(database_url, EndingRow)
    assert ending["steps"] == 1_500


async def test_the_next_start_takes_over_what_a_gateway_left_behind(where: Path, tmp_path: Path) -> None:
    # A database that cannot be reached: the journal stays when the first one ends.
    url = f"sqlite:///{tmp_path / 'database' / 'log.db'}"
    (tmp_path / "database").write_text("in the way")
    first = recorder_of(where, url, drain_s=0.1)
    async with first.running():
        for number in range(20):
            first.record(step_of(number))
        await until(lambda: first.counts.acknowledged == 20)
        await until(lambda: first.counts.problem is not None)
        stream = first.stream
    assert [path.name for path in folders(where)] == [stream]
    (tmp_path / "database").unlink()
    second = recorder_of(where, url)
    async with second.running():
        await until(lambda: [path.name for path in folders(where)] == [second.stream])
    assert [row["seq"] for row in await rows(url, StepRow, StepRow.seq)] == list(range(1, 21))
    (ending,) = await rows(url, EndingRow)
    assert (ending["reason"], ending["steps"]) == ("lost", 20)
    assert not await rows(url, GapRow)


async def test_what_the_shadow_ranked_is_written_beside_its_step_and_nowhere_else(
    where: Path, database: Database, database_url: str
) -> None:
    def shadow(step: Step, **given: Any) -> ShadowDecision:
        values = {"policy": "fused", "adapter": "a" * 64, "candidates": (("echo.say", 1.5),), "decided_at": BEGAN}
        return ShadowDecision(**({"step_id": step.id, "episode": step.episode, **values} | given))

    first, second, later = step_of(1), step_of(2, episode=episode_of(2)), step_of(3, episode=episode_of(2))
    recorder = recorder_of(where, database_url)
    async with recorder.running():
        recorder.record(first)
        recorder.shadow(shadow(first, policy="p" * 100))
        recorder.shadow(shadow(first, step_id="s_never"))
        recorder.record(second)
        assert await recorder.flushed(WITHIN_S)
        await delete(database, Selection(episodes=(second.episode.id,)))
        recorder.record(later)
        recorder.shadow(shadow(second))
        recorder.shadow(shadow(later))
        assert await recorder.flushed(WITHIN_S)
    (kept,) = await rows(database_url, ShadowRow)
    assert (kept["step_id"], kept["episode_id"], kept["policy"]) == (first.id, first.episode.id, "p" * 64)
    assert (kept["candidates"], kept["decided_at"]) == ([["echo.say", 1.5]], BEGAN)
    assert not await rows(database_url, GapRow)


async def test_two_gateways_on_one_folder_do_not_disturb_each_other(where: Path, database_url: str) -> None:
    one = recorder_of(where, database_url, replica="one")
    two = recorder_of(where, database_url, replica="two")
    async with one.running(), two.running():
        for number in range(200):
            (one, two)[number % 2].record(step_of(number, episode=episode_of(number % 2)))
        assert await one.flushed(WITHIN_S)
        assert await two.flushed(WITHIN_S)
        assert len(folders(where)) == 2
    assert folders(where) == []
    streams = {row["id"]: row["replica"] for row in await rows(database_url, StreamRow)}
    found = [(streams[row["stream"]], row["seq"]) for row in await rows(database_url, StepRow)]
    assert sorted(found) == [(replica, seq) for replica in ("one", "two") for seq in range(1, 101)]


async def test_a_step_that_comes_when_the_log_is_not_open_is_reported(
    where: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = recorder_of(where, f"sqlite:///{tmp_path / 'log.db'}")
    recorder.record(step_of())
    recorder.end(ending_of(episode_of()))
    assert "is not in it" in caplog.text
    assert recorder.counts.problem is not None


async def test_no_secret_is_in_the_arguments_of_the_writers_process(where: Path, database_url: str) -> None:
    recorder = recorder_of(where, database_url)
    async with recorder.running():
        recorder.record(step_of())
        await until(lambda: recorder.counts.acknowledged == 1)
        arguments = psutil.Process(recorder.writer_pid).cmdline()
    assert "proxy.store.writer" in arguments
    assert not any(database_url in argument or KEY.hex() in argument for argument in arguments)


@pytest.mark.parametrize("given", [{"database_url": "mysql://x/y"}, {"patterns": ("(",)}])
def test_settings_that_cannot_be_used_are_refused_at_once(where: Path, given: dict[str, Any]) -> None:
    url = given.pop("database_url", "sqlite:///x.db")
    with pytest.raises(ConfigurationError):
        recorder_of(where, url, **given)


async def test_a_folder_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    recorder = recorder_of(tmp_path / "file" / "journals", f"sqlite:///{tmp_path / 'log.db'}")
    with pytest.raises(ConfigurationError, match="cannot be begun"):
        async with recorder.running():
            pass


async def test_a_late_step_of_an_ended_episode_is_accepted(where: Path, database_url: str) -> None:
    recorder = recorder_of(where, database_url)
    async with recorder.running():
        recorder.record(step_of())
        recorder.end(ending_of(episode_of(), reason=EndReason.SESSION))
        recorder.record(step_of(outcome=Outcome.CANCELLED))
        assert await recorder.flushed(WITHIN_S)
    assert [row["outcome"] for row in await rows(database_url, StepRow, StepRow.seq)] == ["ok", "cancelled"]
