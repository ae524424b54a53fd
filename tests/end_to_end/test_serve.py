"""The gateway as a process of its own: how it starts, follows its file, and ends with everything that it started."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import psutil
import pytest
from mcp import Client, StdioServerParameters
from mcp import types as t

from tests.fixtures.running import entry, free_port

COMMAND = (sys.executable, "-P", "-m", "proxy.cli")
LIMIT_S = 40.0
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
ACCEPT = {"accept": "application/json, text/event-stream"}


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {LIMIT_S} s"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    """Ended; whether somebody has collected an orphan yet is not our business."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@dataclass(frozen=True)
class Place:
    """A configuration file with folders of its own."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "mcp.json"

    @property
    def environ(self) -> dict[str, str]:
        own = {"TOOLATLAS_STATE_DIR": "state", "TOOLATLAS_CACHE_DIR": "cache"}
        return {**os.environ, **{name: str(self.folder / part) for name, part in own.items()}}

    @property
    def records(self) -> list[dict[str, Any]]:
        """What gateways have announced."""
        found: list[dict[str, Any]] = []
        for path in (self.folder / "state" / "gateways").glob("*.json"):
            with suppress(FileNotFoundError):
                found.append(json.loads(path.read_text()))
        return found

    def configure(self, **servers: Any) -> None:
        draft = self.folder / "draft"
        draft.write_text(json.dumps({"mcpServers": servers}))
        draft.replace(self.config)

    def fails(self, *arguments: str) -> str:
        """What `serve` says when it refuses to start."""
        command = [*COMMAND, "serve", "--config", str(self.config), *arguments]
        done = subprocess.run(
            command, env=self.environ, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 1, done.stderr
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        assert done.stderr.startswith("toolatlas: ")
        return done.stderr

    @contextmanager
    def serving(self, *arguments: str) -> Iterator[Gateway]:
        port = free_port()
        log = self.folder / "gateway.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*COMMAND, "serve", "--config", str(self.config), "--port", str(port), *arguments],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        gateway = Gateway(process, f"http://127.0.0.1:{port}", log)
        try:
            until(gateway.answers, "the gateway answers /healthz")
            yield gateway
        finally:
            gateway.clean_up()


@dataclass(frozen=True)
class Gateway:
    """A running `toolatlas serve`."""

    process: subprocess.Popen[bytes]
    base: str
    log: Path

    def answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return httpx2.get(f"{self.base}/healthz", timeout=5).json()["service"] == "toolatlas"
        except httpx2.TransportError:
            return False

    def listed(self) -> int:
        """How many tools it knows."""
        return httpx2.get(f"{self.base}/readyz", timeout=5).json()["tools"]

    def ended(self) -> int:
        """Its exit code, waited for."""
        until(lambda: self.process.poll() is not None, "the gateway ends")
        return self.process.returncode

    def clean_up(self) -> None:
        started = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for each in started:
            with suppress(psutil.NoSuchProcess):
                each.kill()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def ask(client: Client, name: str, **arguments: Any) -> str:
    with anyio.fail_after(LIMIT_S):
        result = await client.call_tool(name, arguments)
    return "\n".join(item.text for item in result.content if isinstance(item, t.TextContent))


async def pid_of(client: Client, server: str) -> int:
    return json.loads(await ask(client, "call_tool", tool=f"{server}.whoami"))["pid"]


def test_the_first_answer_comes_although_a_server_is_silent(place: Place) -> None:
    place.configure(silent=entry("silent"), slow=entry("slow_start", SECONDS="600"))
    with place.serving() as gateway:
        answer = httpx2.post(f"{gateway.base}/mcp", json=INITIALIZE, headers=ACCEPT, timeout=LIMIT_S / 2)
        assert answer.status_code == 200
        assert "silent - " in answer.text
        (record,) = place.records
        assert record["url"] == f"{gateway.base}/mcp"
        assert record["pid"] == gateway.process.pid


@pytest.mark.anyio
async def test_an_edit_of_the_file_is_taken_over_and_the_session_goes_on(place: Place) -> None:
    place.configure(one=entry("echo"))
    with place.serving() as gateway:
        async with Client(f"{gateway.base}/mcp", mode="legacy") as client:
            pid = await pid_of(client, "one")
            place.configure(one=entry("echo"), two=entry("paged"))
            until(lambda: gateway.listed() == 14 + 14, "the new server is listed")
            assert '"name": "tool_3"' in await ask(client, "call_tool", tool="two.tool_3")
            place.config.write_text('{"mcpServers": {\n  "one": ]\n}}')
            until(lambda: "stays in force" in gateway.log.read_text(), "the broken file is reported")
            assert re.search(r"stays in force.*line 2", gateway.log.read_text())
            assert "two - " in await ask(client, "list_servers")
            place.configure(one=entry("echo"))
            until(lambda: gateway.listed() == 14, "the removed server is gone")
            assert await pid_of(client, "one") == pid


@pytest.mark.anyio
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_and_every_process_that_it_started(place: Place, sign: signal.Signals) -> None:
    place.configure(one=entry("echo"), stubborn=entry("stubborn"), silent=entry("silent"))
    with place.serving() as gateway:
        async with Client(f"{gateway.base}/mcp") as client:
            started = {
                await pid_of(client, "one"),
                await pid_of(client, "stubborn"),
                int(await ask(client, "call_tool", tool="stubborn.child")),
            }
        started |= {each.pid for each in psutil.Process(gateway.process.pid).children(recursive=True)}
        try:
            # Three servers, the child of one, the reaper, and the writer of the log.
            assert len(started) == 6
            gateway.process.send_signal(sign)
            assert gateway.ended() == 0, gateway.log.read_text()
            until(lambda: all(map(gone, started)), "the servers end")
        finally:
            for pid in started:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert place.records == []
        assert "Traceback" not in gateway.log.read_text()


@pytest.mark.anyio
async def test_a_signal_ends_it_although_a_call_and_a_stream_are_open(place: Place) -> None:
    place.configure(one=entry("echo"))
    with place.serving() as gateway:
        running = anyio.Event()

        async def note(progress: float, total: float | None, message: str | None) -> None:
            running.set()

        async def wait_in_vain() -> None:
            slow = {"tool": "one.slow", "arguments": {"seconds": 600}}
            with suppress(Exception):
                async with Client(f"{gateway.base}/mcp", mode="legacy") as client:
                    await client.call_tool("call_tool", slow, progress_callback=note)

        async with anyio.create_task_group() as calling:
            calling.start_soon(wait_in_vain)
            with anyio.fail_after(LIMIT_S):
                await running.wait()
            pids = [each.pid for each in psutil.Process(gateway.process.pid).children(recursive=True)]
            # The server and the reaper.
            # The server, the reaper, and the writer of the log.
            assert len(pids) == 3
            gateway.process.send_signal(signal.SIGTERM)
            code = await anyio.to_thread.run_sync(gateway.ended)
            calling.cancel_scope.cancel()
        assert code == 0, gateway.log.read_text()
        until(lambda: all(map(gone, pids)), "the server ends")


def test_an_idle_gateway_exits_by_itself_when_it_was_told_to(place: Place) -> None:
    place.configure(one=entry("echo"))
    with place.serving("--exit-when-idle", "1") as gateway:
        assert gateway.ended() == 0, gateway.log.read_text()
        assert place.records == []


def test_a_port_in_use_is_said(place: Place) -> None:
    place.configure(one=entry("echo"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = place.fails("--port", str(port))
    assert f"port {port}" in said
    assert "another program uses it" in said
    assert place.records == []


def test_a_second_gateway_of_the_same_file_does_not_take_the_place_of_the_first(place: Place) -> None:
    place.configure(one=entry("echo"))
    with place.serving() as gateway:
        place.fails("--port", gateway.base.rpartition(":")[2])
        (record,) = place.records
        assert record["pid"] == gateway.process.pid
        assert gateway.answers()


def test_off_loopback_without_a_token_it_does_not_start(place: Place) -> None:
    place.configure(one=entry("echo"))
    assert "toolatlas token create" in place.fails("--host", "0.0.0.0", "--port", "0")


def test_a_broken_configuration_is_said_with_line_and_column(place: Place) -> None:
    place.config.write_text('{\n  "mcpServers": {\n    "one": ]\n  }\n}')
    said = place.fails("--port", "0")
    assert str(place.config) in said
    assert re.search(r"line 3\b.*column 12\b", said)


def test_a_missing_configuration_is_said(place: Place) -> None:
    assert str(place.config) in place.fails("--port", "0")


@pytest.mark.parametrize(("option", "value"), [("--mode", "fast"), ("--log-level", "loud")])
def test_a_wrong_value_is_said_with_the_right_ones(place: Place, option: str, value: str) -> None:
    place.configure(one=entry("echo"))
    said = place.fails("--port", "0", option, value)
    assert value in said
    assert {"--mode": "search", "--log-level": "warning"}[option] in said


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_that_cannot_be_is_wrong_usage(place: Place, port: str) -> None:
    place.configure(one=entry("echo"))
    command = [*COMMAND, "serve", "--config", str(place.config), "--port", port]
    done = subprocess.run(command, env=place.environ, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.anyio
async def test_three_bridges_started_at_once_share_one_gateway_and_its_servers(place: Place) -> None:
    place.configure(one=entry("echo"), two=entry("echo"))
    command, *arguments = COMMAND
    bridge = StdioServerParameters(
        command=command, args=[*arguments, "stdio", "--config", str(place.config)], env=place.environ
    )
    seen: list[tuple[int, int]] = []

    async def agent() -> None:
        async with Client(bridge, mode="legacy") as client:
            assert await ask(client, "call_tool", tool="one.echo", arguments={"text": "hi"}) == "hi"
            seen.append((await pid_of(client, "one"), await pid_of(client, "two")))

    try:
        with anyio.fail_after(2 * LIMIT_S):
            async with anyio.create_task_group() as agents:
                for _ in range(3):
                    agents.start_soon(agent)
        assert len(seen) == 3
        assert len(set(seen)) == 1
        (record,) = place.records
        started = psutil.Process(record["pid"]).children(recursive=True)
        own = ("reaper.py", "proxy.store.writer")
        servers = {each.pid for each in started if not any(part.endswith(own) for part in each.cmdline())}
        assert servers == set(seen[0])
        assert (place.folder / "state" / "gateway.log").read_text().count(" serves ") == 1
    finally:
        for record in place.records:
            with suppress(ProcessLookupError):
                os.kill(record["pid"], signal.SIGTERM)
            until(lambda pid=record["pid"]: gone(pid), "the shared gateway ends")
    assert all(gone(pid) for pid in seen[0])
