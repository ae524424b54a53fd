"""`python -m bench soak`: many agents on one gateway for a while, with a server killed every few seconds.

No call may be lost without a clear error, no answer may reach another agent than the one that asked, and afterwards
processes, open files and memory have to be back where they were. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
from rich.console import Console
from rich.table import Table

from bench.measure import START_S, percentile
from bench.targets.gateway import start_gateway
from bench.targets.soak_agents import Agent, Talk, patient_call
from bench.targets.soak_servers import LEFT_OF_STATEFUL, SERVERS, Servers, State, state_of
from bench.targets.soaked import TOOLS

CALLS_PER_S = 60.0
"""Of all agents together; two cores carry more, but then everything measures the machine."""
SETTLE_S = 60.0
MORE_FILES = 8
"""Connections that a pool keeps for its next request come and go."""
MORE_MEMORY = 0.10
MORE_MEMORY_MB = 25.0


@dataclass
class Tally:
    """What happened in one phase."""

    calls: Counter[str] = field(default_factory=Counter[str])
    """Calls by how they ended: `ok`, `error` (said clearly), `lost`, `unclear`, `wrong`."""
    by_way: Counter[str] = field(default_factory=Counter[str])
    latencies_ms: list[float] = field(default_factory=list[float])
    lives: int = 0
    kills: Counter[str] = field(default_factory=Counter[str])
    violations: list[str] = field(default_factory=list[str])

    def note(self, talk: Talk) -> None:
        self.calls[talk.outcome] += 1
        self.by_way[talk.way] += 1
        if talk.outcome == "ok":
            self.latencies_ms.append(talk.latency_ms)
        elif talk.outcome != "error" or not talk.expected:
            self.violations.append(f"{talk.outcome}: {talk.way} {talk.server}: {talk.what[:300]}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=600.0, help="how long servers are killed under load")
    parser.add_argument("--agents", type=int, default=200, help="how many at a time")
    parser.add_argument("--kill-every", type=float, default=20.0, metavar="S", help="seconds between two kills")
    parser.add_argument("--seed", type=int, default=1, help="of the agents' choices")


def run(args: argparse.Namespace) -> dict[str, object]:
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> dict[str, object]:
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        async with Servers(folder, args.seconds) as servers:
            with start_gateway(folder / "gateway", servers.entries) as gateway:
                gateway.wait()
                base = f"http://127.0.0.1:{gateway.port}"
                servers.gateway = gateway.pid
                await _listed(base, len(servers.entries) * len(TOOLS))
                # The crowd as it will be, without kills: what it brings up for good belongs to the baseline.
                warm = await _crowd(base, servers, args, max(5.0, args.seconds / 10), kill=False)
                before = await _settled(base, servers)
                peak = State()
                tally, patient = await _under_fire(base, servers, args, peak)
                after = await _settled(base, servers, before)
        log = folder / "gateway" / "gateway.log"
        tracebacks = _tracebacks(log.read_text("utf-8", "replace"))
    violations = [*warm.violations, *tally.violations, *patient, *_grown(before, after)]
    if tracebacks:
        violations.append(f"{len(tracebacks)} tracebacks in the log of the gateway, the first: {tracebacks[0]}")
    result: dict[str, object] = {
        "seconds": args.seconds,
        "agents": args.agents,
        "servers": len(SERVERS),
        "calls": dict(tally.calls),
        "by_way": dict(tally.by_way),
        "lives": tally.lives,
        "kills": dict(tally.kills),
        "p50_ms": round(percentile(tally.latencies_ms or [0.0], 0.5), 1),
        "p95_ms": round(percentile(tally.latencies_ms or [0.0], 0.95), 1),
        "state": {"before": before.figures(), "peak": peak.figures(), "after": after.figures()},
        "tolerance": {"files": MORE_FILES, "memory_share": MORE_MEMORY, "memory_mb": MORE_MEMORY_MB},
        "violations": violations[:50],
    }
    if violations:
        result["failed"] = f"{len(violations)} violations, the first: {violations[0]}"
    return result


async def _listed(base: str, tools: int) -> None:
    """Until the gateway knows all tools: before that it may rightly say that there is no such tool."""
    async with asyncio.timeout(START_S):
        while True:
            answer = await asyncio.to_thread(httpx2.get, f"{base}/readyz")
            if answer.json()["tools"] == tools:
                return
            await asyncio.sleep(0.2)


async def _crowd(
    base: str, servers: Servers, args: argparse.Namespace, seconds: float, *, kill: bool, peak: State | None = None
) -> Tally:
    """All agents for `seconds`; each comes, calls a while, leaves and comes again as another."""
    tally = Tally()
    end = time.monotonic() + seconds
    pause_s = args.agents / CALLS_PER_S

    async def agent(number: int) -> None:
        chance = random.Random(f"{args.seed} {number} {kill}")
        await asyncio.sleep(chance.uniform(0, min(pause_s, seconds / 2)))
        while time.monotonic() < end:
            tally.lives += 1
            await Agent(number, base, servers, chance, pause_s, tally.note).live(end)

    async def killer() -> None:
        for name in servers.in_turn():
            await asyncio.sleep(args.kill_every)
            if time.monotonic() > end - min(args.kill_every, 5.0):
                return
            await servers.kill(name)
            tally.kills[name] += 1

    async def watcher(peak: State) -> None:
        while time.monotonic() < end:
            peak.raise_to(state_of(servers.gateway))
            await asyncio.sleep(2)

    async with asyncio.TaskGroup() as tasks:
        for number in range(args.agents):
            tasks.create_task(agent(number))
        if kill:
            tasks.create_task(killer())
        if peak is not None:
            tasks.create_task(watcher(peak))
    return tally


async def _under_fire(base: str, servers: Servers, args: argparse.Namespace, peak: State) -> tuple[Tally, list[str]]:
    """The crowd with kills, beside one call in each era that takes far longer than its limit but shows progress."""
    problems: list[str] = []
    async with asyncio.TaskGroup() as tasks:
        crowd = tasks.create_task(_crowd(base, servers, args, args.seconds, kill=True, peak=peak))
        patient = [tasks.create_task(patient_call(base, servers, era)) for era in ("session", "stateless")]
    for each in patient:
        problems += each.result()
    return crowd.result(), problems


async def _settled(base: str, servers: Servers, as_before: State | None = None) -> State:
    """What the gateway holds with no agent there and each server called once; waits until it is as before."""
    deadline = time.monotonic() + SETTLE_S
    chance = random.Random(0)
    for name in servers.entries:
        while time.monotonic() < deadline:
            talks: list[Talk] = []
            with suppress(OSError, RuntimeError, TimeoutError):
                await Agent(-1, base, servers, chance, 0, talks.append).live_once(name)
            if talks and talks[-1].outcome == "ok":
                break
            await asyncio.sleep(0.5)
    state = state_of(servers.gateway)
    while time.monotonic() < deadline:
        await asyncio.sleep(1)
        last, state = state, state_of(servers.gateway)
        if as_before is None:
            if (last.processes, last.files) == (state.processes, state.files) and not _grown(state, state):
                break
        elif not _grown(as_before, state):
            break
    return state


def _grown(before: State, after: State) -> list[str]:
    """What is not back at the baseline."""
    found: list[str] = []
    if after.processes != before.processes:
        found.append(f"processes: {before.processes} before, {after.processes} after")
    if after.of_agents > LEFT_OF_STATEFUL:
        found.append(f"processes of agents: {after.of_agents} after, of which {LEFT_OF_STATEFUL} may be there")
    if after.defunct:
        found.append(f"defunct processes: {after.defunct}")
    if after.files > before.files + MORE_FILES:
        found.append(f"open files and sockets: {before.files} before, {after.files} after")
    if after.memory_mb > before.memory_mb + max(MORE_MEMORY_MB, before.memory_mb * MORE_MEMORY):
        found.append(f"memory: {before.memory_mb:.0f} MB before, {after.memory_mb:.0f} MB after")
    return found


def _tracebacks(log: str) -> list[str]:
    """Each with the line before it and its first lines; what follows may be of another."""
    lines = log.splitlines()
    starts = [number for number, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    return ["\n".join(lines[max(0, start - 1) : start + 60]) for start in starts]


def table(result: dict[str, object]) -> str:
    console = Console(width=120)
    with console.capture() as capture:
        calls: dict[str, int] = result["calls"]  # type: ignore[assignment]
        kills: dict[str, int] = result["kills"]  # type: ignore[assignment]
        console.print(
            f"{result['agents']} agents, {result['servers']} servers, {result['seconds']:g} s: {sum(calls.values())} "
            f"calls in {result['lives']} lives, {sum(kills.values())} kills; "
            f"p50 {result['p50_ms']} ms, p95 {result['p95_ms']} ms"
        )
        outcomes = Table("how calls ended", "count")
        for name, meaning in OUTCOMES.items():
            outcomes.add_row(f"{name}: {meaning}", str(calls.get(name, 0)))
        console.print(outcomes)
        held = Table("the gateway holds", "before", "peak", "after")
        states: dict[str, dict[str, object]] = result["state"]  # type: ignore[assignment]
        for key in states["before"]:
            held.add_row(key, *(str(states[when][key]) for when in ("before", "peak", "after")))
        console.print(held)
        for violation in result["violations"]:  # type: ignore[attr-defined]
            console.print(f"violation: {violation}", markup=False)
    return capture.get()


OUTCOMES = {
    "ok": "the answer that was asked for",
    "error": "an error that names the server, after a kill",
    "lost": "no answer, or a broken connection",
    "unclear": "an error that does not say which server failed",
    "wrong": "somebody else's answer, or a wrong state",
}
