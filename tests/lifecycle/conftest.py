"""What the tests of the life cycle share: a gateway over HTTP in this process, a gateway as a process, bounded waits.

Above: the tests beside this. Below: the fixture servers of tests/fixtures, and real sockets throughout.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psutil
import pytest
import uvicorn
from mcp import Client
from starlette.types import ASGIApp

from proxy.app import App, build
from proxy.servers import process
from proxy.servers.configfile import parse
from proxy.settings import Settings
from tests.fixtures.running import LOOPBACK, InProcessUvicorn, free_port

LIMIT_S = 40.0
"""What a whole test may take, with much to spare: the machine is shared."""
SHORT_GRACES_S = (0.1, 0.1, 2.0)
ACCEPT = {"accept": "application/json, text/event-stream"}
ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])
"""The `mode` of the SDK's client: the initialize era, or the newer one."""


async def until(done: Callable[[], bool], what: str = "") -> None:
    with anyio.move_on_after(LIMIT_S / 2):
        while not done():
            await anyio.sleep(0.02)
        return
    raise AssertionError(f"not within {LIMIT_S / 2} s: {what}")


def until_now(done: Callable[[], bool], what: str) -> None:
    """As `until`, for tests without a loop."""
    deadline = time.monotonic() + LIMIT_S / 2
    while not done():
        assert time.monotonic() < deadline, f"not within {LIMIT_S / 2} s: {what}"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    """Ended; an orphan's entry stays until its adopter collects it, which is not our business."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def behind_a_shell(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The same server as a grandchild: with a second command to come, the shell stays in between."""
    line = shlex.join([entry["command"], *entry["args"]]) + "; true"
    return {**entry, "command": "sh", "args": ["-c", line]}


def text_of(result: Any) -> str:
    """The text of a tool's result."""
    assert not result.is_error, result.content
    return result.content[0].text


async def ask(client: Client, tool: str, **arguments: Any) -> str:
    """Call `server.tool` through the meta-tool."""
    return text_of(await client.call_tool("call_tool", {"tool": tool, "arguments": arguments}))


@asynccontextmanager
async def serving(app: ASGIApp, port: int | None = None) -> AsyncGenerator[str]:
    """An application on a loopback port of this process; yields `http://HOST:PORT`. The end cuts what is in flight."""
    port = port or free_port()
    server = InProcessUvicorn(uvicorn.Config(app, host=LOOPBACK, port=port, log_config=None, timeout_keep_alive=120))
    with anyio.fail_after(2 * LIMIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve)
            await server.ready.wait()
            try:
                yield f"http://{LOOPBACK}:{port}"
            finally:
                server.should_exit = True


@pytest.fixture
def short_graces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stubborn servers of gateways in this process are ended in a moment."""
    monkeypatch.setattr(process, "GRACES_S", SHORT_GRACES_S)


@dataclass(frozen=True)
class Running:
    """A gateway that serves in this process."""

    app: App
    base: str

    @property
    def url(self) -> str:
        return f"{self.base}/mcp"

    def children(self) -> list[psutil.Process]:
        """Processes of servers, the reaper left out."""
        return servers_of(os.getpid())


def servers_of(gateway: int) -> list[psutil.Process]:
    """What a gateway has started, directly or not, that runs or waits to be collected, but for its reaper and the
    writer of its log, and what Python keeps until the end in a process that has used `multiprocessing` before."""
    found: list[psutil.Process] = []
    for each in psutil.Process(gateway).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            command = each.cmdline()
            own = any(part.endswith(("reaper.py", "proxy.store.writer")) for part in command)
            if not own and not any("multiprocessing.resource_tracker" in part for part in command):
                found.append(each)
    return found


StartGateway = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def gateway(tmp_path: Path) -> StartGateway:
    """`async with gateway({"name": entry}) as running`: all servers listed, or failed, once."""

    @asynccontextmanager
    async def start(servers: Mapping[str, Any], *, listed: bool = True, **changed: Any) -> AsyncGenerator[Running]:
        settings = Settings(
            config=tmp_path / "mcp.json", state_dir=tmp_path / "state", cache_dir=tmp_path / "cache", **changed
        )
        configuration = parse({"mcpServers": servers}, os.environ)
        app = build(settings, os.environ, configuration=configuration, recorders=())
        async with serving(app.http) as base:
            if listed:
                await app.gateway.pool.wait_for_first_listings(LIMIT_S)
            yield Running(app, base)

    return start


@dataclass(frozen=True)
class Process:
    """A running `toolatlas serve`."""

    process: subprocess.Popen[bytes]
    base: str
    log: Path
    config: Path

    @property
    def url(self) -> str:
        return f"{self.base}/mcp"

    def configure(self, servers: Mapping[str, Any]) -> None:
        draft = self.config.with_suffix(".draft")
        draft.write_text(json.dumps({"mcpServers": servers}))
        draft.replace(self.config)

    def answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return httpx2.get(f"{self.base}/healthz", timeout=5).status_code == 200
        except httpx2.TransportError:
            return False

    def ended(self) -> int:
        """Its exit code, waited for."""
        until_now(lambda: self.process.poll() is not None, "the gateway ends")
        return self.process.returncode


StartProcess = Callable[..., AbstractContextManager[Process]]


@pytest.fixture
def gateway_process(tmp_path: Path) -> StartProcess:
    """`with gateway_process({"name": entry}) as gateway`: `toolatlas serve` with folders of its own."""

    @contextmanager
    def start(servers: Mapping[str, Any], *arguments: str) -> Iterator[Process]:
        port, config = free_port(), tmp_path / "mcp.json"
        log = tmp_path / f"gateway-{port}.log"
        environ = {
            **os.environ,
            "TOOLATLAS_STATE_DIR": str(tmp_path / "state"),
            "TOOLATLAS_CACHE_DIR": str(tmp_path / "cache"),
        }
        config.write_text(json.dumps({"mcpServers": servers}))
        command = [sys.executable, "-P", "-m", "proxy.cli", "serve", "--config", str(config), "--port", str(port)]
        with log.open("wb") as output:
            serve = subprocess.Popen(
                [*command, *arguments], env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        gateway = Process(serve, f"http://{LOOPBACK}:{port}", log, config)
        try:
            until_now(gateway.answers, "the gateway answers /healthz")
            yield gateway
        finally:
            left = psutil.Process(serve.pid).children(recursive=True) if serve.poll() is None else []
            serve.terminate()
            try:
                serve.wait(15)
            except subprocess.TimeoutExpired:
                serve.kill()
                serve.wait()
            for each in left:
                with suppress(psutil.NoSuchProcess):
                    each.kill()

    return start
