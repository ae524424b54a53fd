"""The agents of the soak: each comes, calls a while, checks every answer for its own mark, and leaves.

Above: bench/soak.py. Below: the lean client, since two hundred of the SDK's would be all that is measured.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.lean import Era, HttpWire, LeanClient
from bench.targets.soak_servers import PATIENT, SERVERS, STATEFUL, Servers

MODES = ("search", "direct", "server")
ANSWER_S = 45.0
CALLS_IN_A_LIFE = (5, 25)
LISTENING = 0.2
"""Share of the agents with a session that keep the stream of news open."""


@dataclass(frozen=True, slots=True)
class Talk:
    """One call and how it ended."""

    way: str
    server: str
    outcome: str
    what: str
    latency_ms: float
    expected: bool
    """An error of a server that was killed a moment ago."""


class Agent:
    """`number` decides era and mode, so that all six ways are used alike."""

    def __init__(
        self,
        number: int,
        base: str,
        servers: Servers,
        chance: random.Random,
        pause_s: float,
        note: Callable[[Talk], None],
    ) -> None:
        self._number = number
        self._base = base
        self._servers = servers
        self._chance = chance
        self._pause_s = pause_s
        self._note = note
        self._era = (Era.SESSION, Era.STATELESS)[number % 2]
        self._mode = MODES[number // 2 % 3]
        self._task: str | None = None
        self._counted = 0
        self._counted_at = 0.0

    async def live(self, end: float) -> None:
        """One life: connect, call until it has had enough or the time is over, leave."""
        calls = self._chance.randint(*CALLS_IN_A_LIFE)
        names = [*SERVERS]
        home = self._chance.choice(names)
        await self._connected(home if self._mode == "server" else None, names, calls, end)

    async def live_once(self, name: str) -> None:
        """One call to one server, in search mode with a session."""
        self._era, self._mode = Era.SESSION, "search"
        await self._connected(None, [name], 1, time.monotonic() + ANSWER_S)

    async def _connected(self, home: str | None, names: list[str], calls: int, end: float) -> None:
        path = {"search": "/mcp", "direct": "/mcp?mode=direct", "server": f"/mcp/{home}"}[self._mode]
        wire = HttpWire(self._base + path, again=False, answer_s=ANSWER_S)
        client, news = LeanClient(wire, self._era), None
        way = f"{self._era.value} {self._mode}"
        self._task, self._counted = None, 0
        try:
            await client.open()
            if self._era is Era.SESSION and self._number >= 0 and self._chance.random() < LISTENING:
                news = await wire.listen()
            for _ in range(calls):
                if time.monotonic() >= end:
                    break
                await self._call(client, way, home or self._chance.choice(names))
                await asyncio.sleep(self._chance.uniform(0.5, 1.5) * self._pause_s)
            if self._task is not None:
                await client.call("finish_task", {"outcome": "done", "task_id": self._task})
            await wire.leave()
        except (OSError, EOFError, RuntimeError, TimeoutError, ValueError) as error:
            # `/mcp/{server}` introduces itself with its server's own words, which needs the server.
            excused = home is not None and self._servers.excused(home) and home in str(error)
            outcome = "error" if excused else "lost"
            self._note(Talk(way, home or "-", outcome, f"{type(error).__name__}: {error}", 0.0, excused))
            await asyncio.sleep(self._pause_s)
        finally:
            if news is not None:
                news.close()
            wire.close()

    async def _call(self, client: LeanClient, way: str, server: str) -> None:
        tool, arguments, expected = self._choice(server)
        name, wrapped = self._addressed(server, tool, arguments)
        excused, began = self._servers.excused(server), time.monotonic()
        latency_ms = 0.0
        try:
            result = await client.request("tools/call", {"name": name, "arguments": wrapped})
            # What it works on its own time is not the gateway's.
            latency_ms = (time.monotonic() - began - arguments.get("seconds", 0.0)) * 1000
        except RuntimeError as error:
            outcome, what = ("error" if server in str(error) else "unclear"), str(error)
        except (OSError, EOFError, TimeoutError) as error:
            outcome, what = "lost", f"{type(error).__name__}: {error}"
        else:
            if task := (result.get("_meta") or {}).get("toolatlas/task_id"):
                self._task = task
            outcome, what = self._judge(result, server, tool, expected, began)
        excused = excused or self._servers.excused(server)
        self._note(Talk(way, server, outcome, what, latency_ms, excused))

    def _choice(self, server: str) -> tuple[str, dict[str, Any], str]:
        """A tool, its arguments, and what has to come back."""
        # Whose count it is, is known where the agent has a session or a task of its own.
        if server == STATEFUL and (self._era is Era.SESSION or (self._mode == "search" and self._task is not None)):
            return "count", {}, f"{server}:{self._counted + 1}"
        mark = f"{self._number}-{self._chance.getrandbits(64):016x}"
        if self._chance.random() < 0.05:
            return "work", {"seconds": 0.6, "every_s": 0.2, "text": mark}, f"{server}:{mark}"
        return "echo", {"text": mark}, f"{server}:{mark}"

    def _addressed(self, server: str, tool: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        if self._mode == "server":
            return tool, arguments
        if self._mode == "direct":
            return f"{server}__{tool}", arguments
        task = {"task_id": self._task} if self._task is not None else {}
        return "call_tool", {"tool": f"{server}.{tool}", "arguments": arguments, **task}

    def _judge(self, result: dict[str, Any], server: str, tool: str, expected: str, began: float) -> tuple[str, str]:
        content = result.get("content") or [{}]
        text = str(content[0].get("text"))
        if result.get("isError"):
            # The log of the gateway would say more; an agent cannot read it.
            return ("error" if server in text else "unclear"), text
        if tool == "count" and text == f"{server}:1" and self._servers.killed_since(server, self._counted_at):
            expected = text
        if text != expected:
            return "wrong", f"{tool}: {text!r} instead of {expected!r}"
        if tool == "count":
            self._counted, self._counted_at = int(text.rpartition(":")[2]), began
        return "ok", ""


async def patient_call(base: str, servers: Servers, era: str) -> list[str]:
    """A call that takes far longer than its limit and shows progress; what was wrong with it."""
    version = {"session": Era.SESSION, "stateless": Era.STATELESS}[era]
    wire = HttpWire(f"{base}/mcp/{PATIENT}", again=False, answer_s=servers.work_s * 2 + ANSWER_S)
    client, token = LeanClient(wire, version), f"patient-{era}"
    try:
        await client.open()
        arguments = {"seconds": servers.work_s, "every_s": servers.every_s, "text": token}
        params = {"name": "work", "arguments": arguments, "_meta": {"progressToken": token}}
        result = await client.request("tools/call", params)
        await wire.leave()
    except (OSError, EOFError, RuntimeError, TimeoutError) as error:
        return [f"patient call, {era}: {type(error).__name__}: {error}"]
    finally:
        wire.close()
    problems: list[str] = []
    if result.get("isError") or result["content"][0]["text"] != f"{PATIENT}:{token}":
        problems.append(f"patient call, {era}: {json.dumps(result)[:300]}")
    progress = [notice["params"] for notice in wire.notices if notice.get("method") == "notifications/progress"]
    if len(progress) != 30 or {each["progressToken"] for each in progress} != {token}:
        problems.append(f"patient call, {era}: {len(progress)} of 30 notices of progress under its own token")
    return problems
