"""A real gateway with real agents that is killed in the middle, again and again, and what its counters said then.

Above: test_kill.py. Below: `toolatlas serve` as a process, plain.py as the server, bench's small client as agents.
"""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import httpx2
import psutil

from bench.lean import Era, http_client
from tests.fixtures.running import LOOPBACK, entry, free_port

AGENTS = 8
LIMIT_S = 120.0
"""For one wait; the machine is shared."""
WRITER = "proxy.store.writer"


@dataclass(frozen=True, slots=True)
class Killed:
    """One run of a gateway, as its counters file was when nobody wrote it any more."""

    stream: str
    assigned: int
    acknowledged: int
    answered: int
    """Calls that agents had an answer to."""
    with_writer: bool
    """The writer was killed as well."""


@dataclass
class Places:
    """Where all runs keep their things, and the database that they share."""

    folder: Path
    database_url: str
    killed: list[Killed] = field(default_factory=list[Killed])

    @property
    def journals(self) -> Path:
        return self.folder / "state" / "log"

    def left(self) -> set[str]:
        """Streams whose folders are still there."""
        return {path.name for path in self.journals.iterdir() if path.is_dir()} if self.journals.exists() else set()

    @property
    def environ(self) -> dict[str, str]:
        return {
            **os.environ,
            "TOOLATLAS_STATE_DIR": str(self.folder / "state"),
            "TOOLATLAS_CACHE_DIR": str(self.folder / "cache"),
            "TOOLATLAS_DATABASE": self.database_url,
            "TOOLATLAS_SANDBOX": "off",
        }


@asynccontextmanager
async def gateway(places: Places) -> AsyncIterator[tuple[subprocess.Popen[bytes], str]]:
    """A gateway with one server, and its URL; killed at the end if it still runs."""
    config = places.folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"echo": entry("echo")}}))
    port = free_port()
    command = [sys.executable, "-P", "-m", "proxy.cli", "serve", "--config", str(config), "--port", str(port)]
    process = start(command, places)
    try:
        async with httpx2.AsyncClient() as http:
            await until(lambda: answers(http, process, f"http://{LOOPBACK}:{port}/healthz"))
        yield process, f"http://{LOOPBACK}:{port}/mcp"
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            with anyio.fail_after(LIMIT_S, shield=True):
                await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
        finally:
            process.kill()


def start(command: list[str], places: Places) -> subprocess.Popen[bytes]:
    with (places.folder / "gateway.log").open("ab") as log:
        return subprocess.Popen(command, env=places.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


async def answers(http: httpx2.AsyncClient, process: subprocess.Popen[bytes], url: str) -> bool:
    assert process.poll() is None, "the gateway ended by itself"
    try:
        return (await http.get(url, timeout=5)).status_code == 200
    except httpx2.TransportError:
        return False


async def kill_in_the_middle(places: Places, calls: int, chance: random.Random) -> Killed:
    """Let agents make `calls` calls, and kill the gateway after a random number of answers."""
    before = places.left()
    after = chance.randrange(1, calls)
    with_writer = chance.random() < 0.5
    answered = 0
    async with gateway(places) as (process, url):
        writers = [child for child in psutil.Process(process.pid).children() if WRITER in child.cmdline()]
        assert len(writers) == 1

        def kill() -> None:
            process.send_signal(signal.SIGKILL)
            if with_writer:
                writers[0].send_signal(signal.SIGKILL)

        async def agent(number: int, scope: anyio.CancelScope) -> None:
            nonlocal answered
            try:
                async with http_client(url, Era.SESSION) as client:
                    for call in range(calls // AGENTS):
                        text = f"agent {number} call {call}"
                        await client.call("call_tool", {"tool": "echo.echo", "arguments": {"text": text}})
                        answered += 1
                        if answered == after:
                            kill()
            except Exception:
                # Whatever half an answer looks like to the client.
                if answered < after:
                    raise
            finally:
                if answered >= after:
                    scope.cancel()

        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as agents:
                for number in range(AGENTS):
                    agents.start_soon(agent, number, agents.cancel_scope)
        kill()
        await anyio.to_thread.run_sync(process.wait)
        # A writer that was left alone takes what is still in the pipe, and ends.
        await until(lambda: gone(writers[0]))
    (stream,) = places.left() - before
    assigned, acknowledged = struct.unpack("QQ", (places.journals / stream / "counters").read_bytes())
    killed = Killed(stream, assigned, acknowledged, answered, with_writer)
    places.killed.append(killed)
    return killed


def gone(process: psutil.Process) -> bool:
    """Ended; the entry of an orphan stays until somebody collects it."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def until(done: Callable[[], object]) -> None:
    with anyio.fail_after(LIMIT_S):
        while True:
            answer = done()
            if await answer if hasattr(answer, "__await__") else answer:
                return
            await anyio.sleep(0.02)
