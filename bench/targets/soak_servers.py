"""The servers of the soak, what kills them, and what a gateway holds: its processes, open files and memory."""

from __future__ import annotations

import asyncio
import itertools
import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from bench.measure import Missing, Program, free_port
from bench.targets import soaked

SERVERS = {
    "plain": "stdio",
    "shell": "stdio",
    "second": "stdio",
    "own": "stdio",
    "newer": "http",
    "older": "sessions",
    "another": "http",
    "stream": "sse",
}
"""Name -> kind. `shell` lies behind `sh -c`, `own` has a process for each agent."""
STATEFUL = "own"
LEFT_OF_STATEFUL = 2
"""Not any agent's: the one that is listed, that of agents without session and task. Killed, they may be gone."""
PATIENT = "patient"
"""Never killed: for the call that takes longer than its limit."""
FORGIVEN_S = 25.0
"""So long after it is back a killed server may still be waited for, with its back-off."""


@dataclass
class State:
    """Of the gateway's process and what it has started."""

    processes: int = 0
    of_agents: int = 0
    """Further ones: those of the server that has one for each agent."""
    defunct: int = 0
    files: int = 0
    memory_mb: float = 0.0

    def figures(self) -> dict[str, object]:
        return {
            "processes": self.processes,
            "processes of agents": self.of_agents,
            "defunct": self.defunct,
            "files and sockets": self.files,
            "memory MB": round(self.memory_mb, 1),
        }

    def raise_to(self, other: State) -> None:
        self.processes = max(self.processes, other.processes)
        self.of_agents = max(self.of_agents, other.of_agents)
        self.defunct = max(self.defunct, other.defunct)
        self.files = max(self.files, other.files)
        self.memory_mb = max(self.memory_mb, other.memory_mb)


def state_of(gateway: int) -> State:
    process = psutil.Process(gateway)
    state = State(files=process.num_fds(), memory_mb=process.memory_info().rss / 2**20)
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            own = child.cmdline()[-2:] == [soaked.__file__, STATEFUL]
            state.of_agents += own
            state.processes += not own
            state.defunct += child.status() == psutil.STATUS_ZOMBIE
    return state


class Servers:
    """Runs those that are not started by the gateway, and kills all of them."""

    def __init__(self, folder: Path, seconds: float) -> None:
        if not sys.platform.startswith("linux"):
            raise Missing("the soak reads processes the way Linux offers them")
        self._folder = folder
        self._programs: dict[str, Program] = {}
        self._ports = {name: free_port() for name, kind in SERVERS.items() if kind != "stdio"}
        self._killed: dict[str, float] = {}
        self._stack = AsyncExitStack()
        self.gateway = 0
        self.work_s = min(150.0, seconds / 2)
        self.every_s = self.work_s / 30

    @property
    def entries(self) -> dict[str, dict[str, Any]]:
        """The `mcpServers` that lead to them."""
        entries: dict[str, dict[str, Any]] = {}
        for name, kind in {**SERVERS, PATIENT: "stdio"}.items():
            if kind == "stdio":
                entries[name] = {"command": sys.executable, "args": ["-I", "-S", soaked.__file__, name]}
            else:
                address = f"http://127.0.0.1:{self._ports[name]}"
                entries[name] = {"url": f"{address}/sse" if kind == "sse" else f"{address}/mcp"}
                entries[name]["type"] = "sse" if kind == "sse" else "http"
        line = shlex.join([sys.executable, *entries["shell"]["args"]])
        entries["shell"] |= {"command": "sh", "args": ["-c", f"{line}; true"]}
        entries[STATEFUL] |= {"isolation": "session"}
        # Far shorter than the work, far longer than the time between two notices.
        entries[PATIENT] |= {"timeout_s": max(2.0, self.every_s * 4)}
        return entries

    def in_turn(self) -> Iterator[str]:
        return itertools.cycle(SERVERS)

    def excused(self, name: str) -> bool:
        """Whether a call to it may fail now, because it was killed a moment ago."""
        return time.monotonic() < self._killed.get(name, -FORGIVEN_S) + FORGIVEN_S

    def killed_since(self, name: str, when: float) -> bool:
        return self._killed.get(name, 0.0) > when

    async def kill(self, name: str) -> None:
        """With SIGKILL; one that the gateway did not start is started again at once."""
        self._killed[name] = time.monotonic()
        if name in self._programs:
            await asyncio.to_thread(self._programs[name].kill)
            await self._start(name)
        else:
            for process in psutil.Process(self.gateway).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    if process.cmdline()[-2:] == [soaked.__file__, name]:
                        process.kill()
        self._killed[name] = time.monotonic()

    async def _start(self, name: str) -> None:
        port = self._ports[name]
        command = [sys.executable, "-m", "bench.targets.soaked", name, SERVERS[name], str(port)]
        program = Program(command, port, self._folder / f"{name}.log", dict(os.environ))
        self._programs[name] = self._stack.enter_context(program)
        await asyncio.to_thread(program.wait)

    async def __aenter__(self) -> Servers:
        try:
            await asyncio.gather(*map(self._start, self._ports))
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
