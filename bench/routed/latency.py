"""What a search takes end to end, and what other calls take while the router's process has all it can do.

Above: routing.py. A gateway over a catalogue file, with an echo server beside it. Calls of that are measured in turns
with nothing else going on and with searches from another process that keep the router busy, so that what else the
machine does falls on both alike; then the router's process is killed, and after that the gateway.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvloop
from rich.table import Table

from bench.lean import Era, LeanClient, http_client
from bench.measure import ROOT, Program, cpu_s, free_port, percentile
from bench.routed.routed_gateway import metrics, restarted_gateway, routed_gateway, search, wait_until_ready, worker_of
from bench.routed.tasks import read_catalog, read_tasks

SEARCHES = 200
LIMIT = 5
"""As many tools as an agent gets that does not ask for a number."""
ROUNDS = 6
CALLS = 250
"""Of the echo tool, in each round and of each kind."""
WARM = 20
SEARCHERS = 2
"""At once, with whole tasks: one is always waiting."""
FULL_S = 1.0
"""Until the queue is full."""


def measure(catalog: Path, tasks: Path) -> dict[str, Any]:
    """`tasks`: a file whose short queries are searched for, and whose whole texts keep the router busy."""
    short = [task.short for task in read_tasks(tasks, read_catalog(catalog)).tasks]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-latency-")))
        port = free_port()
        echo = stack.enter_context(Program([sys.executable, "-m", "bench.targets.echo", str(port)], port, folder / "e"))
        url = f"http://127.0.0.1:{echo.wait().port}/mcp"
        gateway = stack.enter_context(routed_gateway(folder, catalog, {"bench_echo": {"url": url, "approve": "never"}}))
        measured = uvloop.run(_measured(gateway, short, catalog, tasks))
        began = time.perf_counter()
        worker_of(gateway).send_signal(signal.SIGKILL)
        wait_until_ready(gateway, starts=2)
        restart_s = time.perf_counter() - began
        gateway.kill()
        began = time.perf_counter()
        gateway = stack.enter_context(restarted_gateway(folder))
        return {
            **measured,
            "restart_s": round(restart_s, 2),
            "gateway_restart_s": round(time.perf_counter() - began, 2),
            "gateway_restart_cpu_s": round(gateway.cpu_s(), 2),
            "router_restart_cpu_s": round(cpu_s(worker_of(gateway).pid), 2),
        }


def table(result: Mapping[str, Any]) -> Table:
    rows = Table(title="the router beside the gateway", show_header=False)
    for key, value in result.items():
        rows.add_row(key.replace("_", " "), f"{value:,}" if isinstance(value, int | float) else str(value))
    return rows


async def _measured(gateway: Program, short: Sequence[str], catalog: Path, tasks: Path) -> dict[str, Any]:
    url = f"http://127.0.0.1:{gateway.port}/mcp"
    idle: list[float] = []
    busy: list[float] = []
    busy_share: list[float] = []
    async with http_client(url, Era.SESSION) as client:
        for number in range(WARM):
            await _echo(client, number)
            await search(client, short[number % len(short)], LIMIT)
        # The echo server was listed meanwhile, which makes another catalogue.
        await asyncio.to_thread(wait_until_ready, gateway)
        searches = [await search(client, short[number % len(short)], LIMIT) for number in range(SEARCHES)]
        before = metrics(gateway)
        for _ in range(ROUNDS):
            idle += [await _echo(client, number) for number in range(CALLS)]
            with _searching(url, catalog, tasks):
                await asyncio.sleep(FULL_S)
                pid, began = worker_of(gateway).pid, time.perf_counter()
                worked = cpu_s(pid)
                busy += [await _echo(client, number) for number in range(CALLS)]
                busy_share.append((cpu_s(pid) - worked) / (time.perf_counter() - began))
    assert metrics(gateway)["toolatlas_router_starts_total"] == before["toolatlas_router_starts_total"]
    times = [ms for _, ms in searches]
    figures: dict[str, Any] = {
        "searches": len(times),
        "search_p50_ms": round(percentile(times, 0.5), 2),
        "search_p95_ms": round(percentile(times, 0.95), 2),
        "searches_degraded": round(sum(found.degraded is not None for found, _ in searches) / len(searches), 4),
        "router_busy_share_of_a_core": round(sum(busy_share) / len(busy_share), 2),
        "calls_each": len(idle),
    }
    for share in (50, 99):
        alone, beside = percentile(idle, share / 100), percentile(busy, share / 100)
        figures |= {
            f"call_p{share}_ms_router_idle": round(alone, 2),
            f"call_p{share}_ms_router_busy": round(beside, 2),
            f"call_p{share}_ratio": round(beside / alone, 2),
        }
    return figures


async def _echo(client: LeanClient, number: int) -> float:
    started = time.perf_counter()
    result = await client.call("call_tool", {"tool": "bench_echo.echo", "arguments": {"text": f"text {number}"}})
    elapsed = time.perf_counter() - started
    if f"text {number}" not in str(result.get("content")):
        raise RuntimeError(f"the echo answered {str(result)[:500]}")
    return elapsed * 1000


@contextmanager
def _searching(url: str, catalog: Path, tasks: Path) -> Iterator[None]:
    """Searches all the time from a process of their own, since this one's turns are measured."""
    program = [sys.executable, "-m", "bench.routed.searching", url, str(catalog), str(tasks), str(SEARCHERS)]
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        # It says when it begins.
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()
