"""The Docker backend against a real engine: what holds its containers, who gets one, and that none is left."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from proxy.errors import SandboxError
from proxy.sandbox import docker, exchange, warm
from proxy.sandbox import engine as engine_module
from proxy.sandbox.base import Limits, Status
from proxy.sandbox.docker import DockerBackend
from proxy.sandbox.engine import GATEWAY, OWNER, Engine
from proxy.sandbox.interpreter import DockerInterpreter
from proxy.sandbox.owner import owning
from tests.fixtures.running import LOOPBACK
from tests.sandbox.conftest import LIMIT_S, Tools, until

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

LIMITS = Limits(grace_s=0.5, warm=0)

Start = Callable[..., AbstractAsyncContextManager[DockerBackend]]


@pytest.fixture
def backend(engine: Engine, image: str, tmp_path: Path) -> Start:
    """`async with backend(warm=1) as running`; nothing may be left of it."""

    @asynccontextmanager
    async def start(*, of: Engine = engine, image: str = image, **changed: Any) -> AsyncGenerator[DockerBackend]:
        backend = DockerBackend(replace(LIMITS, **changed), engine=of, image=image, folder=tmp_path / "sandbox")
        with anyio.fail_after(LIMIT_S):
            async with backend.running():
                yield backend
        assert containers(engine, tmp_path / "sandbox") == {}

    return start


def containers(engine: Engine, folder: Path) -> dict[str, str]:
    """All containers of the gateways of a state folder, with the gateway of each."""
    return engine.owned((folder / "owner").read_text())


async def value(interpreter: DockerInterpreter, code: str) -> str | None:
    result = await interpreter.run(code, 10, Tools())
    assert result.status is Status.OK, result
    return result.value


async def kill(engine: Engine, interpreter: DockerInterpreter) -> None:
    """And wait until the gateway can know."""
    container = interpreter.container_id
    assert container is not None
    await anyio.to_thread.run_sync(lambda: engine.client.api.kill(container))
    await until(lambda: engine.state(container) is None, "the engine has forgotten it")


async def test_every_limit_reaches_the_engine(backend: Start, engine: Engine, image: str) -> None:
    limits = replace(LIMITS, memory_bytes=128 * 2**20, cpus=0.5, processes=40, disk_bytes=2**20, files=500)
    async with backend(memory_bytes=128 * 2**20, cpus=0.5, processes=40, disk_bytes=2**20, files=500) as running:
        interpreter = await running.open("t")
        assert await value(interpreter, "1 + 1") == "2"
        found = engine.client.api.inspect_container(interpreter.container_id)
    host, config = found["HostConfig"], found["Config"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Privileged"] is False
    assert host["PidsLimit"] == limits.processes
    assert host["Memory"] == host["MemorySwap"] == limits.memory_bytes
    assert host["NanoCpus"] == 500_000_000
    assert (host["IpcMode"], host["PidMode"], host["UTSMode"]) == ("private", "", "")
    assert host["ShmSize"] == engine_module.SHARED_MEMORY
    assert host["Tmpfs"] == {"/tmp": "rw,noexec,nosuid,nodev,size=1048576,nr_inodes=500,mode=1777"}
    assert {each["Name"]: each["Hard"] for each in host["Ulimits"]} == {"nofile": 256, "core": 0, "fsize": 2**20}
    assert host["LogConfig"]["Type"] == "none"
    assert host["AutoRemove"] is True
    assert not host.get("Init")
    assert not host["Binds"]
    assert not host["Devices"]
    assert found["Mounts"] == []
    assert config["User"] == "10001:10001"
    assert config["OpenStdin"] is config["StdinOnce"] is True
    assert config["Tty"] is False
    assert set(config["Labels"]) >= {OWNER, GATEWAY}
    assert {entry.split("=")[0] for entry in config["Env"]} >= {"HOME", "PYTHONDONTWRITEBYTECODE"}
    assert not {name for name in os.environ if name.startswith("TOOLATLAS")} & {e.split("=")[0] for e in config["Env"]}
    assert host["Runtime"] == (engine.runtime or "runc")


async def test_a_task_gets_a_container_out_of_the_reserve_and_nobody_gets_it_again(
    backend: Start, engine: Engine, tmp_path: Path
) -> None:
    async with backend(warm=1) as running:
        await until(lambda: running.pool.reserve == 1, "one is in reserve")
        first = await running.open("one")
        assert (running.pool.hits, running.pool.misses) == (1, 0)
        assert await value(first, "secret = 1") is None
        await until(lambda: running.pool.reserve == 1, "another one is in reserve")
        used = first.container_id
        second = await running.open("two")
        assert second.container_id != used
        assert await value(second, "'secret' in globals()") == "false"
        await first.close()
        await until(lambda: used not in containers(engine, tmp_path / "sandbox"), "a closed one is removed")


async def test_a_dead_container_in_reserve_is_not_handed_out(backend: Start, engine: Engine, tmp_path: Path) -> None:
    async with backend(warm=1) as running:
        await until(lambda: running.pool.reserve == 1, "one is in reserve")
        (spare,) = containers(engine, tmp_path / "sandbox")
        engine.client.api.kill(spare)
        interpreter = await running.open("t")
        assert interpreter.container_id != spare
        result = await interpreter.run("1", 10, Tools())
        assert (result.value, result.lost_because) == ("1", None)


async def test_there_are_so_many_interpreters_and_no_more(backend: Start) -> None:
    async with backend(interpreters=1) as running:
        first = await running.open("one")
        with pytest.raises(SandboxError, match="all 1 interpreters are in use"):
            await running.open("two")
        await first.close()
        await first.close()
        second = await running.open("two")
        assert await value(second, "1") == "1"


async def test_an_idle_interpreter_gives_way_and_its_task_is_told(
    backend: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with backend(interpreters=1) as running:
        first = await running.open("one")
        await value(first, "kept = 1")
        monkeypatch.setattr(docker, "ROOM_AFTER_S", 0.0)
        second = await running.open("two")
        assert await value(second, "1") == "1"
        again = await first.run("'kept' in globals()", 10, Tools())
        assert again.value == "false"
        assert "made room for another task" in (again.lost_because or "")
    with pytest.raises(SandboxError, match="not running"):
        await running.open("three")


@pytest.mark.parametrize(
    ("changed", "words"), [({"idle_s": 0.4}, "no code was run for 0.4 s"), ({"lifetime_s": 0.4}, "lifetime of 0.4 s")]
)
async def test_an_idle_or_old_container_makes_room_and_the_next_run_says_so(
    changed: dict[str, float], words: str, backend: Start
) -> None:
    async with backend(interpreters=1, **changed) as running:
        interpreter = await running.open("t")
        await interpreter.run("x = 1", 10, Tools())
        await until(lambda: interpreter.container_id is None, "it is given up")
        other = await running.open("another")
        await other.close()
        result = await interpreter.run("'x' in globals()", 10, Tools())
        assert (result.value, result.kept) == ("false", True)
        assert result.lost_because is not None
        assert words in result.lost_because


async def test_a_container_that_dies_between_two_runs_is_replaced(backend: Start, engine: Engine) -> None:
    async with backend() as running:
        interpreter = await running.open("t")
        await value(interpreter, "x = 1")
        await kill(engine, interpreter)
        result = await interpreter.run("'x' in globals()", 10, Tools())
        assert (result.status, result.value, result.kept) == (Status.OK, "false", True)
        assert result.lost_because == "its container is gone"
        assert (await interpreter.run("1", 10, Tools())).lost_because is None


async def test_a_container_that_dies_before_its_first_run_is_replaced_without_a_word(
    backend: Start, engine: Engine
) -> None:
    async with backend() as running:
        interpreter = await running.open("t")
        await kill(engine, interpreter)
        result = await interpreter.run("1", 10, Tools())
        assert (result.value, result.lost_because) == ("1", None)


LOST_IN_A_RUN = {
    "ended by the code": ("import os\nos._exit(3)", 10.0, Status.DIED),
    "not to be interrupted": (
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        0.3,
        Status.TIMEOUT,
    ),
}


@pytest.mark.parametrize(
    ("code", "timeout_s", "status"), [pytest.param(*case, id=name) for name, case in LOST_IN_A_RUN.items()]
)
async def test_variables_lost_in_a_run_are_said_in_it_and_in_the_next(
    code: str, timeout_s: float, status: Status, backend: Start
) -> None:
    async with backend() as running:
        interpreter = await running.open("t")
        await value(interpreter, "x = 1")
        container = interpreter.container_id
        lost = await interpreter.run(code, timeout_s, Tools())
        assert (lost.status, lost.kept) == (status, False)
        assert lost.lost_because
        after = await interpreter.run("'x' in globals()", 10, Tools())
        assert (after.status, after.value, after.kept) == (Status.OK, "false", True)
        assert after.lost_because == lost.lost_because
        assert (await interpreter.run("1", 10, Tools())).lost_because is None
        assert interpreter.container_id == container, "a new interpreter needs no new container"


async def test_an_interpreter_that_ends_between_two_runs_is_noticed(backend: Start) -> None:
    async with backend() as running:
        interpreter = await running.open("t")
        code = "import os, threading\nthreading.Timer(0.2, os._exit, [1]).start()\nx = 1"
        assert await value(interpreter, code) is None
        lost: list[str | None] = []
        with anyio.fail_after(20):
            while not any(lost):
                await anyio.sleep(0.05)
                lost.append((await interpreter.run("'x' in globals()", 10, Tools())).lost_because)
        assert await value(interpreter, "'x' in globals()") == "false"


async def test_a_supervisor_that_does_not_report_is_removed(
    backend: Start, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "SLACK_S", 0.2)
    async with backend() as running:
        interpreter, tools = await running.open("t"), Tools()
        frozen = interpreter.container_id
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                result = await interpreter.run("s.hang()", 0.5, tools)
                assert (result.status, result.kept, result.calls) == (Status.DIED, False, 1)
                assert "did not report" in (result.lost_because or "")

            tasks.start_soon(run)
            await tools.began.wait()
            await anyio.to_thread.run_sync(lambda: engine.client.api.pause(frozen))
        assert tools.cancelled == 1
        await until(lambda: frozen not in containers(engine, tmp_path / "sandbox"), "it is removed")
        assert await value(interpreter, "1") == "1"


async def test_closing_ends_a_run_in_progress(backend: Start) -> None:
    async with backend() as running:
        interpreter, tools = await running.open("t"), Tools()
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                result = await interpreter.run("s.hang()", 30, tools)
                assert (result.status, result.lost_because) == (Status.DIED, "it was closed")

            tasks.start_soon(run)
            await tools.began.wait()
            await interpreter.close()
        with pytest.raises(SandboxError, match="closed"):
            await interpreter.run("1", 10, Tools())


async def test_a_backend_that_ends_takes_what_it_is_starting_with_it(backend: Start) -> None:
    async with backend(warm=2):
        pass
    async with backend(warm=2) as running:
        await until(lambda: running.pool._starting > 0, "one is starting")


async def test_a_container_that_nobody_waits_for_any_more_is_for_the_next(backend: Start) -> None:
    async with backend(interpreters=1) as running:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(running.open, "cancelled")
            await until(lambda: running.pool._starting > 0, "one is starting")
            tasks.cancel_scope.cancel()
        await until(lambda: running.pool.reserve == 1, "it is in reserve")
        assert await value(await running.open("next"), "1") == "1"
        assert (running.pool.hits, running.pool.misses) == (1, 1)


async def test_a_library_that_fails_in_a_way_of_its_own_ends_nothing_else(
    backend: Start, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with backend() as running:
        first = await running.open("one")
        with monkeypatch.context() as patch:
            patch.setattr(engine.client.api, "start", lambda *_: {}["no such key"])
            with pytest.raises(SandboxError, match="the Docker library failed: KeyError"):
                await running.open("two")
        assert await value(first, "1") == "1"
        assert await value(await running.open("two"), "2") == "2"


async def test_a_backend_that_is_cancelled_leaves_nothing_either(engine: Engine, image: str, tmp_path: Path) -> None:
    backend = DockerBackend(replace(LIMITS, warm=1), engine=engine, image=image, folder=tmp_path)
    with anyio.CancelScope() as scope:
        async with backend.running():
            interpreter = await backend.open("t")
            assert await value(interpreter, "1") == "1"
            assert len(containers(engine, tmp_path)) >= 1
            scope.cancel()
            await anyio.sleep_forever()
    assert containers(engine, tmp_path) == {}


async def test_an_image_that_is_not_there_is_said_and_not_tried_again_and_again(backend: Start) -> None:
    async with backend(image="toolatlas-sandbox:no-such", warm=1) as running:
        with pytest.raises(SandboxError, match=r"could not start a container.*no-such"):
            await running.open("t")
        await until(lambda: running.pool._resting, "it rests")
        assert warm.RETRY_S > 5


class CuttableEngine:
    """A way to the engine over TCP that the test can cut and mend, as a restart of the engine does."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._listener = socket.create_server((LOOPBACK, 0))
        self._pairs: list[socket.socket] = []
        self._lock = threading.Lock()
        self._mended = True
        self.url = f"tcp://{LOOPBACK}:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            self._mended = False
            for each in self._pairs:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        with self._lock:
            self._mended = True

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for each in self._pairs:
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                front, _ = self._listener.accept()
                if self._tls is not None:
                    front = self._tls.wrap_socket(front, server_side=True)
                with self._lock:
                    if not self._mended:
                        front.close()
                        continue
                    back = socket.socket(socket.AF_UNIX)
                    back.connect("/var/run/docker.sock")
                    self._pairs += front, back
                for pair in ((front, back), (back, front)):
                    threading.Thread(target=self._copy, args=pair, daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


@contextmanager
def cuttable(tls: ssl.SSLContext | None = None, **environ: str) -> Iterator[tuple[CuttableEngine, Engine]]:
    way = CuttableEngine(tls)
    try:
        engine = Engine.connect({"DOCKER_HOST": way.url, **environ})
        try:
            yield way, engine
        finally:
            engine.close()
    finally:
        way.close()


async def test_an_engine_that_goes_away_is_said_and_comes_back(backend: Start) -> None:
    with cuttable() as (way, engine):
        async with backend(of=engine) as running:
            interpreter, tools = await running.open("t"), Tools()
            async with anyio.create_task_group() as tasks:

                async def run() -> None:
                    result = await interpreter.run("x = 1\ns.hang()", 30, tools)
                    assert (result.status, result.kept, result.calls) == (Status.DIED, False, 1)
                    assert result.lost_because == "the Docker engine is gone"

                tasks.start_soon(run)
                await tools.began.wait()
                way.cut()
            with pytest.raises(SandboxError, match="could not start a container"):
                await interpreter.run("1", 10, Tools())
            way.mend()
            result = await interpreter.run("'x' in globals()", 10, Tools())
            assert (result.value, result.lost_because) == ("false", "the Docker engine is gone")


def certificate(folder: Path) -> None:
    """One certificate that is the authority's, the engine's and the client's: `ca.pem`, `cert.pem`, `key.pem`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "engine")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(LOOPBACK))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir()
    for file in ("ca.pem", "cert.pem"):
        (folder / file).write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(*form))


async def test_an_engine_behind_tls_is_used_in_the_same_way(
    backend: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        # The library prefers these to the engine's own authority.
        monkeypatch.delenv(variable, raising=False)
    certificates = tmp_path / "certificates"
    certificate(certificates)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates / "ca.pem"))
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    with cuttable(tls, DOCKER_TLS_VERIFY="1", DOCKER_CERT_PATH=str(certificates)) as (_, engine):
        async with backend(of=engine) as running:
            interpreter = await running.open("t")
            assert await value(interpreter, "len(s.echo(value='y' * 500_000))") == "500000"
            assert await value(interpreter, "len(s.repeat(text='x', times=10**6))") == "1000000"


GATEWAY_PROCESS = """
import os, sys, anyio
from pathlib import Path
from proxy.sandbox.base import Limits
from proxy.sandbox.docker import DockerBackend
from proxy.sandbox.engine import Engine
from tests.sandbox.conftest import Tools

async def main(image, folder, moment):
    backend = DockerBackend(Limits(warm=3), engine=Engine.connect(os.environ), image=image, folder=Path(folder))
    async with backend.running():
        interpreter = await backend.open("t")
        while moment == "quiet" and backend.pool.reserve < 3:
            await anyio.sleep(0.02)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(interpreter.run, "while True: pass", 300, Tools())
            print("ready", flush=True)

anyio.run(main, *sys.argv[1:])
"""


@contextmanager
def gateway_process(image: str, folder: Path, moment: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has one container in a run, and others in reserve or (when it is not quiet) about to start."""
    command = [sys.executable, "-c", GATEWAY_PROCESS, image, str(folder), moment]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


async def test_nothing_is_left_after_kill_9_of_the_gateway(engine: Engine, image: str, tmp_path: Path) -> None:
    with gateway_process(image, tmp_path, "quiet") as gateway:
        assert len(containers(engine, tmp_path)) == 4
        gateway.kill()
        gateway.wait()
        # By themselves: nobody else looks after them here.
        await until(lambda: containers(engine, tmp_path) == {}, "the containers are gone")


async def test_no_code_runs_after_kill_9_in_the_middle_of_starts_and_the_next_gateway_clears_up(
    backend: Start, engine: Engine, image: str, tmp_path: Path
) -> None:
    folder = tmp_path / "sandbox"
    with gateway_process(image, folder, "busy") as gateway:
        gateway.kill()
        gateway.wait()

    def none_runs() -> bool:
        return not any((state := engine.state(each)) and state.running for each in containers(engine, folder))

    # A container that was made and not started yet has no process, and stays.
    await until(none_runs, "no container runs")
    async with backend():
        await until(lambda: containers(engine, folder) == {}, "what is left is removed")


async def test_containers_of_a_dead_gateway_are_removed_and_those_of_a_living_one_are_not(
    backend: Start, engine: Engine, image: str, tmp_path: Path
) -> None:
    folder = tmp_path / "sandbox"
    with owning(folder) as dead:
        pass

    def create(owner: str, gateway: str) -> str:
        labels = {OWNER: owner, GATEWAY: gateway}
        return engine.client.api.create_container(image, labels=labels, stdin_open=True)["Id"]

    with owning(folder) as living:
        orphan, kept = create(dead.id, dead.gateway), create(living.id, living.gateway)
        other = create("0123456789abcdef", dead.gateway)
        try:
            assert dead.id == living.id
            running = DockerBackend(LIMITS, engine=engine, image=image, folder=folder)
            async with running.running():
                await until(lambda: set(containers(engine, folder)) == {kept}, "the orphan is removed")
            assert engine.state(other) is not None
            assert set(containers(engine, folder)) == {kept}
        finally:
            for each in (orphan, kept, other):
                engine.remove(each)
