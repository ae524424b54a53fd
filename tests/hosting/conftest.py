"""What the tests of hosting share: a host as a process of a second user, and gateways whose servers run there."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from proxy.app import App, build
from proxy.hosting.client import HostClient
from proxy.servers.configfile import parse
from proxy.servers.transports import open_transport
from proxy.settings import Settings
from tests.lifecycle.conftest import LIMIT_S, serving, until_now

ROOT = Path(__file__).parents[2]
NEEDED = (Path(sys.base_prefix), Path(sys.prefix), ROOT)
SERVERS_USER = 65534
OTHER_USER = 65533
HOST = """
import sys, typer
from proxy.commands import host
app = typer.Typer()
host.register(app)
app(sys.argv[1:])
"""


@dataclass(frozen=True)
class Place:
    """A folder that everybody can read, and how to start something as another user."""

    folder: Path

    def as_user(self, uid: int, command: list[str]) -> list[str]:
        """A command line that becomes `command` under that user, who can reach this Python and this checkout: where a
        folder above them is closed, they stand at their place in a mount namespace of its own."""
        become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *command]
        closed = {each: above for each in NEEDED if (above := _closed(each)) is not None}
        if not closed:
            return become
        lines = ["set -e"]
        held = {each: self.folder / "held" / str(number) for number, each in enumerate(closed)}
        for each, hold in held.items():
            hold.mkdir(parents=True, exist_ok=True)
            lines.append(shlex.join(["mount", "--bind", str(each), str(hold)]))
        lines += [
            shlex.join(["mount", "-t", "tmpfs", "-o", "mode=755", "none", str(each)]) for each in {*closed.values()}
        ]
        for each, hold in held.items():
            lines += [shlex.join(["mkdir", "-p", str(each)]), shlex.join(["mount", "--bind", str(hold), str(each)])]
        script = "\n".join([*lines, 'exec "$@"'])
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *become]


@dataclass(frozen=True)
class Host:
    """A host that runs as the second user."""

    process: subprocess.Popen[bytes]
    socket: Path
    log: Path

    def answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.socket)) == 0

    def servers(self) -> list[psutil.Process]:
        """All that it has started, the reaper too."""
        return psutil.Process(self.process.pid).children(recursive=True)


@dataclass(frozen=True)
class Gateway:
    """A gateway that serves in this process."""

    app: App
    url: str
    state: Path


StartHost = Callable[..., AbstractContextManager[Host]]
StartGateway = Callable[..., AbstractAsyncContextManager[Gateway]]


@pytest.fixture(scope="session")
def place() -> Iterator[Place]:
    """Skipped without the right to run something as another user, except in CI, where that is a failure."""
    if os.geteuid() != 0:
        problem = "only root can start a host as another user"
        pytest.fail(problem) if os.environ.get("CI") else pytest.skip(problem)
    folder = Path(tempfile.mkdtemp(prefix="toolatlas-hosting-"))
    try:
        folder.chmod(0o755)
        yield Place(folder)
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def start_host(place: Place, tmp_path: Path) -> StartHost:
    """`with start_host() as host`: with other arguments than `--allow-uid` of this process if wanted."""

    @contextmanager
    def start(*arguments: str) -> Iterator[Host]:
        folder = place.folder / "run"
        folder.mkdir(exist_ok=True)
        os.chown(folder, SERVERS_USER, SERVERS_USER)
        path, log = folder / "host.sock", tmp_path / "host.log"
        environ = {"PATH": os.defpath, "HOME": str(folder), "PYTHONPATH": str(ROOT), "HOSTS_OWN": "secret"}
        options = ["--socket", str(path), *(arguments or ("--allow-uid", str(os.geteuid())))]
        with log.open("ab") as output:
            process = subprocess.Popen(
                place.as_user(SERVERS_USER, [sys.executable, "-P", "-B", "-c", HOST, *options]),
                env=environ,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        host = Host(process, path, log)
        try:
            until_now(host.answers, "the host listens")
            yield host
        finally:
            left = host.servers() if process.poll() is None else []
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for each in left:
                with suppress(psutil.NoSuchProcess):
                    each.kill()

    return start


@pytest.fixture
def hosted_gateway(place: Place) -> Iterator[StartGateway]:
    """`async with hosted_gateway(host, servers) as running`: a gateway in this process, all of its servers at the host.
    Its folders lie where nothing but their own modes protects them."""
    folder = Path(tempfile.mkdtemp(prefix="gateway-", dir=place.folder))
    folder.chmod(0o755)

    @asynccontextmanager
    async def start(
        host: Host, servers: Mapping[str, Any], environ: Mapping[str, str] = os.environ
    ) -> AsyncGenerator[Gateway]:
        settings = Settings(config=folder / "mcp.json", state_dir=folder / "state", cache_dir=folder / "cache")
        configuration = parse({"mcpServers": servers}, environ)
        transport = partial(open_transport, host=HostClient(host.socket))
        app = build(settings, environ, configuration=configuration, recorders=(), transport=transport)
        async with serving(app.http) as base:
            await app.gateway.pool.wait_for_first_listings(LIMIT_S)
            yield Gateway(app, f"{base}/mcp", settings.state_dir)

    yield start
    shutil.rmtree(folder)


@contextmanager
def gateway_process(
    folder: Path, port: int, host: Host, servers: Mapping[str, Any]
) -> Iterator[subprocess.Popen[bytes]]:
    """gateway.py beside this; whoever needs it waits for its answers."""
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    command = [sys.executable, "-m", "tests.hosting.gateway", str(folder), str(port), str(host.socket)]
    with (folder / "gateway.log").open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()


def prying_entry(**env: str) -> dict[str, Any]:
    """The `mcpServers` entry of prying.py."""
    return {"command": sys.executable, "args": ["-I", "-S", str(Path(__file__).parent / "prying.py")], "env": env}


def _closed(path: Path) -> Path | None:
    """The folder next to the root, on the way to `path`, that others may not pass; None when they may pass all."""
    return next((each for each in reversed(path.parents) if not each.stat().st_mode & 0o001), None)
