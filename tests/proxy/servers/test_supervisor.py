"""The life of one connection: started once, kept, restarted, held back, put to sleep, and never cut under a call."""

from __future__ import annotations

import json
from dataclasses import dataclass

import anyio
import pytest

from proxy.errors import ProtocolFault, ServerDown
from proxy.servers.supervisor import MAX_BACKOFF_S, Phase
from tests.fixtures.running import Restartable, dead_port_entry, entry
from tests.proxy.servers.conftest import Supervised, config, running, supervised, until

pytestmark = pytest.mark.anyio


async def pid_of(server: Supervised) -> int:
    return json.loads(await server.text("whoami"))["pid"]


async def pids_at_once(server: Supervised, count: int) -> set[int]:
    pids: list[int] = []

    async def one() -> None:
        pids.append(await pid_of(server))

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(one)
    assert len(pids) == count
    return set(pids)


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


async def test_fifty_calls_use_one_process() -> None:
    async with supervised(config(entry("echo"))) as server:
        assert server.supervisor.state.phase is Phase.ASLEEP
        assert len({await pid_of(server) for _ in range(50)}) == 1
        assert server.supervisor.state.phase is Phase.READY
        assert server.opening.count == 1


async def test_twenty_first_calls_at_once_start_one_process() -> None:
    async with supervised(config(entry("echo"))) as server:
        assert len(await pids_at_once(server, 20)) == 1
        assert server.opening.count == 1


async def test_a_crash_during_a_call_says_that_its_effect_is_unknown_and_the_next_call_works() -> None:
    async with supervised(config(entry("echo"))) as server:
        before = await pid_of(server)
        with pytest.raises(ServerDown, match=r"exited with code 3.*whether the call took effect is not known"):
            await server.text("crash")
        assert await pid_of(server) != before
        assert server.opening.count == 2


async def test_calls_that_arrive_while_a_crashed_server_is_cleared_away_share_the_next_process() -> None:
    # The child it leaves behind ignores SIGTERM, so that clearing away takes seconds.
    async with supervised(config(entry("stubborn"))) as server:
        before = await pid_of(server)
        async with anyio.create_task_group() as tasks:

            async def crash() -> None:
                with pytest.raises(ServerDown, match="not known"):
                    await server.text("crash")

            tasks.start_soon(crash)
            await until(lambda: server.supervisor.state.phase is not Phase.READY)
            after = await pids_at_once(server, 5)
        assert len(after) == 1
        assert before not in after
        assert {await pid_of(server)} == after
        assert server.opening.count == 2


async def test_a_server_that_dies_between_calls_is_started_again_at_once() -> None:
    async with supervised(config(entry("flaky"))) as server:
        for number in range(1, 5):
            assert await server.text("counter") == "1"
            await until(lambda: server.supervisor.state.phase is Phase.DOWN)
            assert server.supervisor.retry_in_s == 0
            assert server.opening.count == number


async def test_starts_that_keep_failing_are_held_back_for_ever_longer() -> None:
    clock = Clock()
    waits: list[float] = []
    async with supervised(config(entry("exits")), clock) as server:
        for _ in range(8):
            with pytest.raises(ServerDown, match="API_TOKEN is not set"):
                await server.text("echo", text="x")
            waits.append(server.supervisor.retry_in_s)
            clock.now += waits[-1]
        assert waits == [1, 2, 4, 8, 16, 32, MAX_BACKOFF_S, MAX_BACKOFF_S]
        assert server.opening.count == 8
        assert server.supervisor.state.phase is Phase.DOWN
        assert "API_TOKEN is not set" in (server.supervisor.state.reason or "")


async def test_a_call_during_a_long_back_off_fails_at_once_and_says_when_it_is_over() -> None:
    clock = Clock()
    async with supervised(config(entry("exits")), clock) as server:
        for _ in range(3):
            clock.now += server.supervisor.retry_in_s
            with pytest.raises(ServerDown):
                await server.text("echo", text="x")
        with pytest.raises(ServerDown, match=r"API_TOKEN is not set.*tried again in 4 s"):
            await server.text("echo", text="x")
        assert server.opening.count == 3


async def test_a_server_that_answers_again_is_no_longer_held_back() -> None:
    clock = Clock()
    backend = Restartable()
    async with supervised(config(backend.entry), clock) as server:
        for _ in range(3):
            clock.now += server.supervisor.retry_in_s
            with pytest.raises(ServerDown, match="nothing answers"):
                await server.text("counter")
        assert server.supervisor.retry_in_s > 0
        clock.now += server.supervisor.retry_in_s
        async with backend:
            assert await server.text("counter") == "1"
            assert server.supervisor.state.phase is Phase.READY
        with pytest.raises(ServerDown, match="nothing answers"):
            await server.text("counter")
        assert server.supervisor.retry_in_s == 1


async def test_a_server_that_was_stopped_is_not_started_again() -> None:
    async with supervised(config(entry("echo"))) as server:
        assert await server.text("echo", text="x") == "x"
        await server.supervisor.stop()
        with pytest.raises(ServerDown, match="was stopped"):
            await server.text("echo", text="x")
        assert server.opening.count == 1


async def test_an_error_that_only_speaks_of_a_session_is_no_lost_session() -> None:
    async with supervised(config(entry("faults"))) as server:
        with pytest.raises(ProtocolFault, match="session expired"):
            await server.text("session_error")
        assert server.opening.count == 1
        assert await server.text("count") == "1"


async def test_a_dead_port_is_down_with_its_reason() -> None:
    async with supervised(config(dead_port_entry())) as server:
        with pytest.raises(ServerDown, match="nothing answers"):
            await server.text("echo", text="x")
        assert server.supervisor.state.phase is Phase.DOWN


@pytest.mark.parametrize("legacy_only", [True, False], ids=["initialize era", "2026-07-28"])
async def test_a_server_restarted_between_two_calls_answers_the_second(legacy_only: bool) -> None:
    async with Restartable(legacy_only=legacy_only) as backend, supervised(config(backend.entry)) as server:
        assert await server.text("counter") == "1"
        assert await server.text("counter") == "2"
        await backend.stop()
        await backend.start()
        assert await server.text("counter") == "1"
        assert await server.text("counter") == "2"


async def test_an_sse_server_restarted_between_two_calls_answers_the_second() -> None:
    async with Restartable(sse=True) as backend, supervised(config(backend.entry)) as server:
        assert await server.text("counter") == "1"
        await backend.stop()
        await until(lambda: server.supervisor.state.phase is not Phase.READY)
        await backend.start()
        assert await server.text("counter") == "1"


async def test_calls_at_once_after_a_restart_all_open_one_new_session() -> None:
    async with Restartable(legacy_only=True) as backend, supervised(config(backend.entry)) as server:
        assert await server.text("counter") == "1"
        await backend.stop()
        await backend.start()
        counts: list[str] = []

        async def one() -> None:
            counts.append(await server.text("counter"))

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(one)
        assert sorted(map(int, counts)) == list(range(1, 11))
        assert server.opening.count == 2


async def test_an_idle_server_is_stopped_and_started_again_by_the_next_call() -> None:
    async with supervised(config(entry("echo"), idle_s=0.2)) as server:
        before = await pid_of(server)
        await until(lambda: server.supervisor.state.phase is Phase.ASLEEP)
        await until(lambda: not running(before))
        assert await pid_of(server) != before


async def test_a_call_keeps_its_server_awake() -> None:
    async with supervised(config(entry("echo"), idle_s=0.2)) as server:
        before = await pid_of(server)
        assert await server.text("silent_slow", seconds=1) == "slept 1 s"
        assert await pid_of(server) == before


async def test_a_call_that_arrives_while_an_idle_server_is_stopped_waits_for_the_next_process() -> None:
    # It ignores the end of its stdin and SIGTERM, so that stopping it takes seconds.
    async with supervised(config(entry("stubborn"), idle_s=0.2)) as server:
        before = await pid_of(server)
        await until(lambda: server.supervisor.state.phase is Phase.ASLEEP)
        assert running(before)
        assert await pid_of(server) != before
        assert not running(before)
        assert server.opening.count == 2


async def test_a_server_that_is_stopped_while_it_starts_does_not_stay() -> None:
    async with supervised(config(entry("slow_start", SECONDS="0.5"))) as server:
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                with pytest.raises(ServerDown, match="stopped"):
                    await server.text("silent_slow", seconds=30)

            tasks.start_soon(call)
            await until(lambda: server.supervisor.state.phase is Phase.STARTING)
            await server.supervisor.stop()
        assert server.supervisor.state.phase is Phase.ASLEEP
        assert server.opening.count <= 1
