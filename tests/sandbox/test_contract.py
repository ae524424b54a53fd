"""Every backend keeps the contract: the table of contract.py, and what no table can say: cancelling, dying, ending."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import anyio
import psutil
import pytest

from proxy.broker.client import BrokerSource
from proxy.errors import SandboxError
from proxy.sandbox.base import Backend, Interpreter, RunResult, Status
from proxy.sandbox.docker import ContainerBackend, DockerBackend
from proxy.sandbox.embedded import EmbeddedBackend
from proxy.sandbox.engine import Engine
from tests.broker.running import broker_process, short_folder
from tests.lifecycle.conftest import gone
from tests.sandbox.conftest import LIMIT_S, Tools, until
from tests.sandbox.contract import CASES, LIMITS, Run, verify

pytestmark = pytest.mark.anyio


DOCKER = pytest.mark.docker
KINDS = [pytest.param("docker", marks=DOCKER), pytest.param("broker", marks=DOCKER), "embedded"]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """`broker` is the Docker backend whose containers come from a broker."""
    return request.param


@pytest.fixture(scope="module")
async def backend(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncGenerator[Backend]:
    """One of each kind for all tests of this module."""
    with ExitStack() as held:
        backend: Backend = EmbeddedBackend(LIMITS)
        if kind == "docker":
            engine, image = request.getfixturevalue("engine"), request.getfixturevalue("image")
            backend = DockerBackend(LIMITS, engine=engine, image=image, folder=tmp_path_factory.mktemp("sandbox"))
        elif kind == "broker":
            request.getfixturevalue("image")
            broker = held.enter_context(broker_process(held.enter_context(short_folder())))
            backend = ContainerBackend(LIMITS, BrokerSource(broker.path))
        async with backend.running():
            yield backend


@pytest.fixture(scope="module")
async def shared(backend: Backend) -> AsyncGenerator[Interpreter]:
    """For the whole table; each case begins with a reset."""
    interpreter = await backend.open("shared")
    yield interpreter
    await interpreter.close()


@pytest.fixture
async def interpreter(backend: Backend) -> AsyncGenerator[Interpreter]:
    """For tests that break theirs."""
    with anyio.fail_after(LIMIT_S):
        interpreter = await backend.open("t")
        yield interpreter
        await interpreter.close()


async def run(interpreter: Interpreter, code: str) -> RunResult:
    return await interpreter.run(code, 20, Tools())


@pytest.mark.parametrize("runs", [pytest.param(runs, id=name) for name, runs in CASES.items()])
async def test_contract(runs: tuple[Run, ...], shared: Interpreter) -> None:
    with anyio.fail_after(LIMIT_S):
        await shared.reset()
        for each in runs:
            tools = Tools()
            verify(each, await shared.run(each.code, each.timeout_s, tools), tools)


async def test_reset_forgets_and_says_nothing_of_losses(interpreter: Interpreter) -> None:
    await run(interpreter, "x = 1")
    await interpreter.reset()
    result = await run(interpreter, "x")
    assert result.failure is not None
    assert (result.failure.kind, result.kept, result.lost_because) == ("NameError", True, None)


async def test_tasks_do_not_see_each_other(interpreter: Interpreter, backend: Backend) -> None:
    await run(interpreter, "secret = 1")
    other = await backend.open("other")
    try:
        result = await run(other, "secret")
        assert result.failure is not None
        assert result.failure.kind == "NameError"
        assert (await run(interpreter, "secret")).value == "1"
    finally:
        await other.close()


async def test_a_closed_interpreter_runs_nothing(interpreter: Interpreter) -> None:
    await interpreter.close()
    await interpreter.close()
    for use in (lambda: run(interpreter, "1"), interpreter.reset):
        with pytest.raises(SandboxError, match="closed"):
            await use()


async def test_cancelled_in_a_call_the_call_is_cancelled_and_variables_are_kept(interpreter: Interpreter) -> None:
    tools = Tools()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(interpreter.run, "x = 7\ns.hang()", 300, tools)
        await tools.began.wait()
        tasks.cancel_scope.cancel()
    assert (tools.cancelled, tools.at_once) == (1, 0)
    result = await run(interpreter, "x")
    assert (result.value, result.lost_because) == ("7", None)


async def test_cancelled_in_a_loop_the_loop_ends_and_variables_are_kept_or_their_loss_is_said(
    interpreter: Interpreter, backend: Backend
) -> None:
    tools = Tools()
    async with anyio.create_task_group() as outer:
        async with anyio.create_task_group() as tasks:

            async def cancel_once_it_runs() -> None:
                await until(lambda: bool(tools.made), "the code runs")
                tasks.cancel_scope.cancel()

            outer.start_soon(cancel_once_it_runs)
            await interpreter.run("x = 7\ns.echo(value=1)\nwhile True:\n    x += 1", 300, tools)
    result = await run(interpreter, "x >= 7")
    if backend.name == "embedded" and result.lost_because is not None:
        # Nothing interrupts a loop in Monty but the end of its process.
        assert result.failure is not None
        assert result.failure.kind == "NameError"
    else:
        assert (result.value, result.lost_because) == ("true", None)


async def test_two_runs_of_one_interpreter_wait_for_each_other(interpreter: Interpreter) -> None:
    results: list[RunResult] = []

    async def count() -> None:
        results.append(await run(interpreter, "x = x + 1 if s.slow(seconds=0.1, value=True) else 0\nx"))

    await run(interpreter, "x = 0")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        tasks.start_soon(count)
    assert [each.value for each in results] == ["1", "2"]


async def container_of(interpreter: Interpreter, engine: Engine | None) -> str:
    """As the engine names it; empty without one."""
    # A broker tells no names, but each container has its own as the name of its host.
    return (await run(interpreter, "print(open('/etc/hostname').read().strip())")).output.text.strip() if engine else ""


async def kill(container: str, engine: Engine | None) -> None:
    """End what an interpreter runs in, from outside, as the system does when memory is short."""
    if engine is not None:
        await anyio.to_thread.run_sync(lambda: engine.client.api.kill(container))
        await until(lambda: engine.state(container) is None, "the engine has forgotten it")
        return
    workers = [each for each in psutil.Process().children(recursive=True) if is_worker(each)]
    assert workers
    for each in workers:
        each.kill()
    await until(lambda: not any(map(is_worker, workers)), "they are ended")


def is_worker(process: psutil.Process) -> bool:
    """Whether it is a process of Monty that lives."""
    try:
        return "monty" in process.cmdline()[0]
    except (psutil.Error, IndexError):
        return False


@pytest.fixture
def engine_of(backend: Backend, request: pytest.FixtureRequest) -> Engine | None:
    return request.getfixturevalue("engine") if backend.name == "docker" else None


async def test_an_interpreter_that_dies_in_a_run_is_replaced(
    interpreter: Interpreter, engine_of: Engine | None
) -> None:
    tools, results = Tools(), list[RunResult]()
    container = await container_of(interpreter, engine_of)
    async with anyio.create_task_group() as tasks:

        async def hang() -> None:
            results.append(await interpreter.run("x = 1\ns.hang()", 300, tools))

        tasks.start_soon(hang)
        await tools.began.wait()
        await kill(container, engine_of)
    (died,) = results
    assert (died.status, died.kept, died.calls) == (Status.DIED, False, 1)
    assert died.lost_because
    assert tools.at_once == 0
    after = await run(interpreter, "x")
    assert after.failure is not None
    assert (after.failure.kind, after.kept) == ("NameError", True)
    assert after.lost_because == died.lost_because
    assert (await run(interpreter, "1")).lost_because is None


async def test_an_interpreter_that_dies_between_two_runs_is_replaced(
    interpreter: Interpreter, engine_of: Engine | None
) -> None:
    await run(interpreter, "x = 1")
    await kill(await container_of(interpreter, engine_of), engine_of)
    after = await run(interpreter, "1 + 1")
    assert (after.status, after.value, after.kept) == (Status.OK, "2", True)
    assert after.lost_because


GATEWAY = """
import os, sys, anyio
from dataclasses import replace
from pathlib import Path
from tests.sandbox.conftest import Tools
from tests.sandbox.contract import LIMITS as OF_THE_TABLE

LIMITS = replace(OF_THE_TABLE, warm=0)

def backend():
    kind, image, folder = sys.argv[1:]
    if kind == "embedded":
        from proxy.sandbox.embedded import EmbeddedBackend
        return EmbeddedBackend(LIMITS)
    from proxy.sandbox.docker import ContainerBackend, DockerBackend
    if kind == "broker":
        from proxy.broker.client import BrokerSource
        return ContainerBackend(LIMITS, BrokerSource(Path(folder)))
    from proxy.sandbox.engine import Engine
    return DockerBackend(LIMITS, engine=Engine.connect(os.environ), image=image, folder=Path(folder))

async def main():
    running = backend()
    async with running.running():
        busy, waiting = await running.open("busy"), await running.open("waiting")
        await waiting.run("x = 1", 10, Tools())
        tools = Tools()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(busy.run, "s.echo(value=1)\\nwhile True:\\n    pass", 300, tools)
            while not tools.made:
                await anyio.sleep(0.02)
            print("ready", flush=True)

anyio.run(main)
"""


@contextmanager
def gateway(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process with one interpreter that is busy and one that keeps variables."""
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", GATEWAY, *arguments], stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


async def test_nothing_is_left_after_kill_9_of_the_gateway(
    kind: str, engine_of: Engine | None, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    image = request.getfixturevalue("image") if engine_of is not None else ""
    with ExitStack() as held:
        # Not the one of the other tests, whose containers stay.
        broker = held.enter_context(broker_process(held.enter_context(short_folder()))) if kind == "broker" else None
        process = held.enter_context(gateway(kind, image, str(tmp_path if broker is None else broker.path)))
        children = [each.pid for each in psutil.Process(process.pid).children(recursive=True)]

        def left() -> int:
            if broker is not None and engine_of is not None:
                return len(broker.containers(engine_of))
            if engine_of is not None:
                return len(engine_of.owned((tmp_path / "owner").read_text()))
            return len([pid for pid in children if not gone(pid)])

        assert left() >= 2
        process.kill()
        process.wait()
        try:
            await until(lambda: left() == 0, "all interpreters are gone")
        finally:
            for pid in children:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
