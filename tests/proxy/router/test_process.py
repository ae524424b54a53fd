"""The router's process is asked, killed, stopped and found wanting; somebody is answered every time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import psutil
import pytest

from proxy.errors import ConfigurationError
from proxy.router.base import Query
from proxy.router.embeddings import EmbeddingCache
from proxy.router.frames import frame, told_server
from proxy.router.fusion import FusedRouter
from proxy.router.process import MAX_WAITING, RouterProcess, Timing
from proxy.router.unanswered import NoAnswer, Why
from tests.fixtures import routed
from tests.fixtures.routed import LIMIT_S, QUICK, SUBJECTS, VERBS, until
from tests.fixtures.router_worker import WordEncoder

pytestmark = pytest.mark.anyio
KNOWN = routed.catalog()
QUERY = Query("find music for the user")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "embeddings.db"


async def test_the_process_ranks_as_the_router_does_that_it_holds(cache: Path) -> None:
    known = KNOWN
    router = FusedRouter(known.servers, WordEncoder(), EmbeddingCache(None))
    async with routed.serving(cache) as serving:
        process = serving.process
        process.offer(known)
        await until(lambda: process.health.ready)
        for text in [f"{verb} {subject}" for verb in VERBS for subject in SUBJECTS]:
            ranking = await process.ask(known.hash, Query(text), len(known.tools), None, LIMIT_S)
            expected = router.rank(Query(text), len(known.tools))
            assert ranking.policy == router.policy
            # Tools of equal scores may change places: the last bit depends on the number of threads.
            assert {each.tool: each.score for each in ranking.tools} == pytest.approx(
                {each.tool: each.score for each in expected}, rel=1e-4, abs=1e-4
            )
            scores = [each.score for each in ranking.tools]
            assert scores == sorted(scores, reverse=True)
            assert set(ranking.servers) == set(SUBJECTS)
            assert ranking.servers[0] == router.rank_servers(Query(text), 1)[0]
        within = Query("find music", servers=frozenset({"maps", "news"}))
        ranking = await process.ask(known.hash, within, 10, None, LIMIT_S)
        assert {found.tool.split(".")[0] for found in ranking.tools} <= {"maps", "news"}
        assert set(ranking.servers) == {"maps", "news"}


async def test_it_is_niced_runs_apart_and_sees_none_of_the_gateways_secrets(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    async with routed.serving(cache) as serving:
        await until(lambda: serving.process.health.pid is not None)
        seen = psutil.Process(serving.process.health.pid)
        serving.process.offer(routed.catalog())
        await until(lambda: serving.process.health.ready)
        assert seen.nice() == min(psutil.Process().nice() + 10, 19)
        session = _autogroup(seen.pid)
        assert session is None or session.endswith(" nice 10\n")
        assert os.getpgid(seen.pid) == seen.pid
        assert "GITHUB_TOKEN" not in seen.environ()
        assert seen.environ()["OMP_NUM_THREADS"] == "1"


def _autogroup(pid: int) -> str | None:
    """None where the machine does not share processor time among sessions first."""
    try:
        return Path(f"/proc/{pid}/autogroup").read_text()
    except OSError:
        return None


async def test_what_cannot_be_answered_is_known_at_once(cache: Path) -> None:
    known = KNOWN
    idle = RouterProcess(routed.command(cache))
    with pytest.raises(NoAnswer, match=Why.DOWN):
        await idle.ask(known.hash, QUERY, 5, None, LIMIT_S)
    with anyio.fail_after(LIMIT_S / 2):
        async with routed.serving(cache, "slow") as serving:
            process = serving.process
            await until(lambda: process.health.pid is not None)
            with pytest.raises(NoAnswer, match=Why.STARTING):
                await process.ask(known.hash, QUERY, 5, None, LIMIT_S)
            process.offer(routed.catalog(SUBJECTS[:1]))
            await until(lambda: process.health.ready)
            process.offer(known)
            with pytest.raises(NoAnswer, match=Why.EMBEDDING):
                await process.ask(known.hash, QUERY, 5, None, LIMIT_S)
            with pytest.raises(NoAnswer, match=Why.UNADAPTED):
                await process.ask(routed.catalog(SUBJECTS[:1]).hash, QUERY, 5, Path("/none"), LIMIT_S)
            await until(lambda: process.health.ready)
            assert (await process.ask(known.hash, QUERY, 5, None, LIMIT_S)).tools


async def test_while_a_new_catalogue_is_embedded_the_one_before_is_still_answered(cache: Path) -> None:
    old, new = routed.catalog(SUBJECTS[:1]), routed.catalog()
    async with routed.serving(cache, "slow") as serving:
        process = serving.process
        process.offer(old)
        await until(lambda: process.health.ready)
        process.offer(new)
        answered = 0
        with anyio.fail_after(LIMIT_S):
            while not process.health.ready:
                assert (await process.ask(old.hash, QUERY, 5, None, LIMIT_S)).tools
                answered += 1
        assert answered > 1


async def test_a_third_catalogue_takes_the_place_of_the_first(cache: Path) -> None:
    known = [routed.catalog(SUBJECTS[: count + 1]) for count in range(4)]
    async with routed.serving(cache) as serving:
        process = serving.process
        for each in [*known, known[0]]:
            process.offer(each)
            await until(lambda: process.health.ready)
        for each, there in ((known[0], True), (known[3], True), (known[1], False), (known[2], False)):
            if there:
                assert (await process.ask(each.hash, QUERY, 5, None, LIMIT_S)).tools
            else:
                with pytest.raises(NoAnswer, match=Why.EMBEDDING):
                    await process.ask(each.hash, QUERY, 5, None, LIMIT_S)


async def test_a_restart_embeds_nothing_again(cache: Path) -> None:
    known = KNOWN
    async with routed.serving(cache) as serving:
        serving.process.offer(known)
        await until(lambda: serving.process.health.ready)
    # An encoder that refuses to read tools: all that it is asked for is in the file.
    async with routed.serving(cache, "queries_only") as serving:
        serving.process.offer(known)
        await until(lambda: serving.process.health.ready)
        assert serving.process.health.starts == 1


async def test_a_query_that_is_too_slow_is_given_up_and_the_next_is_answered(cache: Path) -> None:
    known = KNOWN
    async with routed.serving(cache, "slow") as serving:
        process = serving.process
        process.offer(known)
        await until(lambda: process.health.ready)
        with pytest.raises(NoAnswer, match=Why.LATE):
            await process.ask(known.hash, QUERY, 5, None, 0.001)
        assert (await process.ask(known.hash, QUERY, 5, None, LIMIT_S)).tools


async def test_more_queries_than_it_could_answer_are_turned_away_at_once(cache: Path) -> None:
    known = KNOWN
    reasons: list[Why | None] = []

    async def ask() -> None:
        try:
            await process.ask(known.hash, QUERY, 5, None, LIMIT_S)
            reasons.append(None)
        except NoAnswer as error:
            reasons.append(error.why)

    async with routed.serving(cache) as serving:
        process = serving.process
        process.offer(known)
        await until(lambda: process.health.ready)
        async with anyio.create_task_group() as tasks:
            for _ in range(MAX_WAITING + 10):
                tasks.start_soon(ask)
    assert reasons.count(Why.BUSY) == 10
    assert reasons.count(None) == MAX_WAITING


async def test_a_query_that_fails_costs_no_other_query_anything(cache: Path) -> None:
    known = KNOWN
    async with routed.serving(cache, "failing") as serving:
        process = serving.process
        process.offer(known)
        await until(lambda: process.health.ready)
        with pytest.raises(NoAnswer, match=Why.FAILING):
            await process.ask(known.hash, Query("fail"), 5, None, LIMIT_S)
        assert (await process.ask(known.hash, QUERY, 5, None, LIMIT_S)).tools
        assert process.health.starts == 1


async def test_a_query_that_ends_the_process_is_answered_and_the_process_comes_back(cache: Path) -> None:
    known = KNOWN
    async with routed.serving(cache, "mortal") as serving:
        process = serving.process
        process.offer(known)
        await until(lambda: process.health.ready)
        with pytest.raises(NoAnswer, match=Why.DOWN):
            await process.ask(known.hash, Query("die"), 5, None, LIMIT_S)
        await until(lambda: process.health.starts == 2 and process.health.ready)
        assert (await process.ask(known.hash, QUERY, 5, None, LIMIT_S)).tools


async def test_a_process_that_hangs_is_not_waited_for_and_is_replaced(cache: Path) -> None:
    known = KNOWN
    async with routed.serving(cache) as serving:
        process = serving.process
        process.offer(known)
        await until(lambda: process.health.ready)
        stopped = process.health.pid
        assert stopped is not None
        os.kill(stopped, signal.SIGSTOP)
        with pytest.raises(NoAnswer, match=Why.LATE):
            await process.ask(known.hash, QUERY, 5, None, 0.01)
        await until(lambda: process.health.starts == 2 and process.health.ready)
        assert process.health.pid != stopped
        assert not psutil.pid_exists(stopped)
        assert (await process.ask(known.hash, QUERY, 5, None, LIMIT_S)).tools


async def test_a_process_that_cannot_work_says_why(cache: Path) -> None:
    known = KNOWN
    async with routed.serving(cache, "unusable") as serving:
        process = serving.process
        process.offer(known)
        await until(lambda: process.health.problem is not None)
        assert process.health.problem == "the words are not installed: pip install words"
        with pytest.raises(NoAnswer):
            await process.ask(known.hash, QUERY, 5, None, LIMIT_S)
        with pytest.raises(ConfigurationError, match="pip install words"):
            await process.load(Path("/none"))


async def test_a_program_that_is_not_there_or_says_nonsense_is_survived(cache: Path) -> None:
    for command in (["/no/such/program"], [sys.executable, "-c", "print('hello there, this is no message')"]):
        process = RouterProcess(command, QUICK)
        async with process.running():
            process.offer(routed.catalog())
            await anyio.sleep(0.3)
            with pytest.raises(NoAnswer):
                await process.ask(routed.catalog().hash, QUERY, 5, None, LIMIT_S)


BEHIND = """
import os
from proxy.router.frames import Unframed, frame
unframed, first = Unframed(), None
os.write(1, frame({"kind": "hello"}))
while content := os.read(0, 1 << 20):
    for message in unframed.take(content):
        if message["kind"] == "load" and first is None:
            first = message["load"]
        elif message["kind"] == "catalog":
            os.write(1, frame({"kind": "ready", "catalog": message["hash"], "adapter": None, "load": None}))
        elif message["kind"] == "load":
            told = {"adapter": message["adapter"], "load": first}
            os.write(1, frame({"kind": "loaded", "hash": "a", **told}))
            os.write(1, frame({"kind": "ready", "catalog": %(catalog)r, **told}))
"""
"""Of an adapter that was dropped and is wanted again, it says only what it did for the first time."""


async def test_what_is_said_of_an_adapter_that_was_dropped_meanwhile_does_not_count() -> None:
    known, folder = KNOWN, Path("/adapters/a")
    command = [sys.executable, "-c", BEHIND % {"catalog": known.hash}]
    process = RouterProcess(command, replace(routed.PATIENT, load_s=0.5))
    async with process.running():
        process.offer(known)
        await until(lambda: process.health.ready)
        process.want(folder)
        process.drop(folder)
        with pytest.raises(ConfigurationError, match="was not loaded within"):
            await process.load(folder)
        with pytest.raises(NoAnswer, match=Why.UNADAPTED):
            await process.ask(known.hash, QUERY, 5, folder, LIMIT_S)


async def test_the_end_of_the_gateway_is_the_end_of_the_process(cache: Path) -> None:
    async with routed.serving(cache) as serving:
        await until(lambda: serving.process.health.pid is not None)
        pid = serving.process.health.pid
        assert pid is not None
    assert not psutil.pid_exists(pid)
    async with routed.serving(cache, timing=Timing()) as serving:
        serving.process.offer(routed.catalog())
        await until(lambda: serving.process.health.ready)
        pid = serving.process.health.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
    assert not psutil.pid_exists(pid)


def test_the_end_of_its_input_ends_the_process_in_the_middle_of_its_work(cache: Path) -> None:
    frames = [frame({"kind": "server", "key": each.name, "server": told_server(each)}) for each in KNOWN.servers]
    told = {"kind": "catalog", "hash": "h", "servers": list(SUBJECTS), "keep": ["h"]}
    # One text takes so long that it never gets to the next.
    command = routed.command(cache, "endless")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join([*frames, frame(told)]))
        process.stdin.flush()
        assert b"hello" in os.read(process.stdout.fileno(), 1_000)
        process.stdin.close()
        assert process.wait(LIMIT_S) == 0


@pytest.mark.parametrize("stopped", [False, pytest.param(True, marks=pytest.mark.skipif("sys.platform != 'linux'"))])
async def test_a_gateway_that_is_killed_leaves_no_process(cache: Path, stopped: bool) -> None:
    program = f"""
import anyio, pathlib
from tests.fixtures import routed
async def main():
    async with routed.serving(pathlib.Path({str(cache)!r})) as serving:
        serving.process.offer(routed.catalog())
        await routed.until(lambda: serving.process.health.ready)
        print(serving.process.health.pid, flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""
    root = Path(__file__).parents[3]
    async with await anyio.open_process([sys.executable, "-c", program], cwd=root, stderr=None) as gateway:
        assert gateway.stdout is not None
        with anyio.fail_after(LIMIT_S):
            pid = int(await gateway.stdout.receive())
        if stopped:
            os.kill(pid, signal.SIGSTOP)
        gateway.kill()
        await gateway.wait()
        await until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
