"""Gateways and brokers that end, in order and not, with a real engine: what is left, what is said, what comes back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from proxy.broker.client import BrokerSource
from proxy.errors import ConfigurationError, SandboxBusy, SandboxError
from proxy.sandbox.base import Backend, Limits, RunResult, Status
from proxy.sandbox.choosing import choose
from proxy.sandbox.docker import ContainerBackend
from proxy.sandbox.engine import GATEWAY, OWNER, Engine
from proxy.sandbox.owner import owning
from tests.broker.running import ROOT, BrokerProcess, broker_process, short_folder
from tests.sandbox.conftest import LIMIT_S, Tools, until

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

LIMITS = Limits(grace_s=0.5, warm=0)


@pytest.fixture
def folder(image: str) -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


@pytest.fixture
def broker(folder: Path) -> Iterator[BrokerProcess]:
    with broker_process(folder) as broker:
        yield broker


def backend(broker: BrokerProcess, **changed: Any) -> ContainerBackend:
    return ContainerBackend(replace(LIMITS, **changed), BrokerSource(broker.path))


GATEWAY_PROCESS = """
import sys, anyio
from pathlib import Path
from proxy.broker.client import BrokerSource
from proxy.sandbox.base import Limits
from proxy.sandbox.docker import ContainerBackend
from tests.sandbox.conftest import Tools

async def main(path, moment):
    backend = ContainerBackend(Limits(warm=3), BrokerSource(Path(path)))
    async with backend.running():
        interpreter = await backend.open("t")
        assert (await interpreter.run("1 + 1", 10, Tools())).value == "2"
        while moment == "quiet" and backend.pool.reserve < 3:
            await anyio.sleep(0.02)
        loaded = {name.split(".")[0] for name in sys.modules} & {"docker", "requests", "urllib3"}
        print("ready", *loaded, flush=True)
        await interpreter.run("while True: pass", 300, Tools())

anyio.run(main, *sys.argv[1:])
"""


@contextmanager
def gateway_process(broker: BrokerProcess, moment: str) -> Iterator[subprocess.Popen[str]]:
    """With one container that is busy, and others in reserve or (when it is not quiet) about to start."""
    # It knows of no engine, and could not find one.
    environ = {**os.environ, "DOCKER_HOST": "unix:///no/such/docker.sock"}
    command = [sys.executable, "-c", GATEWAY_PROCESS, str(broker.path), moment]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("moment", ["quiet", "busy"])
async def test_nothing_is_left_of_a_gateway_that_was_killed(moment: str, broker: BrokerProcess, engine: Engine) -> None:
    with gateway_process(broker, moment) as gateway:
        assert len(broker.containers(engine)) >= (4 if moment == "quiet" else 1)
        gateway.kill()
        gateway.wait()
    await until(lambda: broker.containers(engine) == set(), "all containers are gone")
    async with backend(broker).running():
        pass


async def test_two_gateways_cannot_touch_each_others_containers(broker: BrokerProcess, engine: Engine) -> None:
    one, other = backend(broker), backend(broker)
    async with one.running():
        kept = await one.open("one")
        assert (await kept.run("x = 1", 10, Tools())).status is Status.OK
        async with other.running():
            theirs = await other.open("other")
            assert (await theirs.run("'x' in globals()", 10, Tools())).value == "false"
            assert len(broker.containers(engine)) == 2
            name = kept.container_id
            assert name is not None
            source = BrokerSource(broker.path)
            # Nothing that can be said with another's id, were it known, does anything.
            assert await source.fate(name) is None
            await source.remove(name)
        await until(lambda: len(broker.containers(engine)) == 1, "the containers of the one that ended are gone")
        assert (await kept.run("x", 10, Tools())).value == "1"
    await until(lambda: broker.containers(engine) == set(), "and then the others")


async def test_a_broker_that_is_killed_leaves_nothing_is_said_and_comes_back(
    broker: BrokerProcess, engine: Engine
) -> None:
    running, tools, results = backend(broker), Tools(), list[RunResult]()
    with anyio.fail_after(LIMIT_S):
        async with running.running():
            interpreter = await running.open("t")
            async with anyio.create_task_group() as tasks:

                async def run() -> None:
                    results.append(await interpreter.run("x = 1\ns.hang()", 30, tools))

                tasks.start_soon(run)
                await tools.began.wait()
                await anyio.to_thread.run_sync(broker.kill)
            (died,) = results
            assert (died.status, died.kept, died.calls) == (Status.DIED, False, 1)
            assert died.lost_because == "the Docker engine or its broker is gone"
            await until(lambda: broker.containers(engine) == set(), "its containers are gone")
            with pytest.raises(SandboxError, match=r"does not run: start it with `toolatlas broker --socket"):
                await interpreter.run("1", 10, Tools())
            await anyio.to_thread.run_sync(broker.start)
            after = await interpreter.run("'x' in globals()", 10, Tools())
            assert (after.value, after.lost_because) == ("false", "the Docker engine or its broker is gone")


async def test_a_broker_that_ends_in_order_takes_all_containers_with_it(broker: BrokerProcess, engine: Engine) -> None:
    running = backend(broker, warm=2)
    async with running.running():
        await running.open("t")
        await until(lambda: running.pool.reserve == 2, "some are in reserve")
        await anyio.to_thread.run_sync(broker.stop)
        assert broker.containers(engine) == set()
        assert not await anyio.Path(broker.path).exists()


async def test_what_a_killed_broker_has_left_is_removed_by_the_next(folder: Path, engine: Engine, image: str) -> None:
    state = folder / "state" / "broker"
    with owning(state) as dead:
        pass
    # Made and not started yet: nothing but the next broker ends such a one.
    labels = {OWNER: dead.id, GATEWAY: dead.gateway}
    orphan: str = engine.client.api.create_container(image, labels=labels, stdin_open=True)["Id"]
    try:
        with broker_process(folder) as broker:
            await until(lambda: orphan not in broker.containers(engine), "it is removed")
    finally:
        engine.remove(orphan)


async def test_what_became_of_a_container_is_told_through_the_broker(broker: BrokerProcess, engine: Engine) -> None:
    running = backend(broker)
    async with running.running():
        interpreter = await running.open("t")
        assert (await interpreter.run("x = 1", 10, Tools())).status is Status.OK
        (container,) = broker.containers(engine)
        await anyio.to_thread.run_sync(lambda: engine.client.api.kill(container))
        await until(lambda: engine.state(container) is None, "the engine has forgotten it")
        result = await interpreter.run("'x' in globals()", 10, Tools())
        assert result.value == "false"
        # The engine forgets it in a moment. The broker looks in that moment; the next run would be too late.
        assert result.lost_because in ("its container was killed", "its container is gone")


async def test_more_interpreters_than_the_broker_has_are_busy_and_not_broken(folder: Path) -> None:
    options = ["--sandbox-limit=interpreters=1", "--sandbox-limit=warm=0"]
    with broker_process(folder, *options) as broker:
        running = backend(broker)
        async with running.running():
            first = [await running.open(str(number)) for number in range(9)]
            with pytest.raises(SandboxError, match="all 9 containers of the broker are in use") as caught:
                await running.open("one too many")
            assert isinstance(caught.value.__cause__ or caught.value, SandboxBusy)
            await first[0].close()
            last = await opened_when_there_is_room(running)
            assert (await last.run("1", 10, Tools())).value == "1"


async def opened_when_there_is_room(backend: Backend) -> Any:
    with anyio.fail_after(LIMIT_S):
        while True:
            try:
                return await backend.open("t")
            except SandboxError:
                await anyio.sleep(0.05)


def not_here(*_: Any) -> Any:
    raise ImportError("not here")


async def test_a_gateway_with_a_broker_chooses_it_and_looks_for_no_engine(
    broker: BrokerProcess, engine: Engine, tmp_path: Path
) -> None:
    nowhere = {"DOCKER_HOST": "unix:///no/such/docker.sock"}
    source = BrokerSource(broker.path)
    chosen = await choose(
        "docker", LIMITS, folder=tmp_path, environ=nowhere, image=not_here, embedded=not_here, broker=source
    )
    assert (chosen.name, chosen.why) == ("docker", "a broker of a Docker engine answers")
    assert broker.containers(engine) == set(), "the one that was tried is gone"
    assert chosen.backend is not None
    async with chosen.backend.running():
        interpreter = await chosen.backend.open("t")
        assert (await interpreter.run("1", 10, Tools())).value == "1"
    await anyio.to_thread.run_sync(broker.stop)
    with pytest.raises(ConfigurationError, match=r"'docker' cannot be used.*does not run.*see to the broker"):
        await choose(
            "docker", LIMITS, folder=tmp_path, environ=nowhere, image=not_here, embedded=not_here, broker=source
        )
    none = await choose(
        "auto", LIMITS, folder=tmp_path, environ=nowhere, image=not_here, embedded=not_here, broker=source
    )
    assert none.name == "off"
    assert "does not run" in none.why


@pytest.mark.parametrize(
    ("options", "environ", "words"),
    [
        (["--sandbox-limit=memory=1"], {}, "no limit of the sandbox is called 'memory'"),
        ([], {"DOCKER_HOST": "unix:///no/such/docker.sock"}, "the broker cannot start containers: there is no Docker"),
    ],
)
def test_a_broker_that_could_start_nothing_does_not_begin(
    options: list[str], environ: dict[str, str], words: str, folder: Path
) -> None:
    with pytest.raises(AssertionError, match=words):
        BrokerProcess(folder, *options, **environ).start()
    assert not (folder / "broker.sock").exists()
