"""`python -m bench sandbox`: what a run of code costs, and what it saves against calls one by one.

Two limits are held, measured in one run: a warm run at most 3 ms (p50), and a tool call from code at most 1.5 ms above
the same call outside of a sandbox. The chores must come to their answers by fewer tokens and round trips as a program.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import httpx2
from rich.console import Console
from rich.table import Table

from bench.measure import Missing, percentile
from bench.targets.chore_agents import by_hand, by_program
from bench.targets.chores import CHORES, prepare
from bench.targets.coding import Coding, coding
from bench.targets.gateway import start_gateway
from bench.tokens import by_bytes, o200k
from proxy.sandbox.base import Limits, RunResult, Status
from proxy.sandbox.docker import DockerBackend

MAX_RUN_MS = 3.0
MAX_CALL_MS = 1.5
ROUNDS = 10
ANSWER_S = 60.0
LISTED_S = 300.0
"""On a new machine the servers are downloaded first."""
THINKING_S = 2.0
"""Between two tasks that come one after the other."""
ONE_CALL = """
import time as clock
def timed():
    began = clock.perf_counter()
    echo.echo(text="x")
    return clock.perf_counter() - began
"""
CROWD = """
words = parallel(lambda number: echo.echo(text=f"word {number}"), range(8))
total = sum(len(str(word)) for word in words)
total
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=500, metavar="N", help="warm runs, and calls of each kind")
    parser.add_argument("--starts", type=int, default=7, metavar="N", help="containers started with nothing in reserve")
    parser.add_argument("--arrivals", type=int, default=10, metavar="N", help="tasks that come one after the other")
    parser.add_argument("--tasks", type=int, default=50, metavar="N", help="tasks at once")
    parser.add_argument("--no-chores", action="store_true", help="leave out the published servers")


def run(args: argparse.Namespace) -> dict[str, object]:
    with TemporaryDirectory(prefix="bench-sandbox-") as name:
        folder = Path(name)
        result: dict[str, object] = anyio.run(_measure, args, folder)
        if not args.no_chores:
            result["chores"] = _chores(folder)
    return result | _verdict(result)


async def _measure(args: argparse.Namespace, folder: Path) -> dict[str, object]:
    result: dict[str, object] = {}
    limits = Limits(calls=10**6, warm=1)
    (folder / "warm").mkdir()
    async with coding(folder / "warm", limits) as gateway:
        result["warm"] = await _warm(gateway, args.runs)
        result["arrivals"] = await _arrivals(gateway, args.arrivals)
    (folder / "cold").mkdir()
    async with coding(folder / "cold", Limits(warm=0)) as gateway:
        result["cold_start_s"] = await _cold(gateway, args.starts)
    (folder / "crowd").mkdir()
    async with coding(folder / "crowd", Limits(interpreters=args.tasks)) as gateway:
        result["crowd"] = await _crowd(gateway, args.tasks)
    return result


async def _warm(gateway: Coding, runs: int) -> dict[str, float]:
    """A run of next to nothing, and calls from code beside the same calls without code, in turns."""
    interpreter = await gateway.backend.open("warm")
    await _run(gateway, interpreter, ONE_CALL)
    run_s: list[float] = []
    inside: list[float] = []
    outside: list[float] = []
    each = -(-runs // ROUNDS)
    for _ in range(ROUNDS):
        for _ in range(each):
            began = time.perf_counter()
            await _run(gateway, interpreter, "1 + 1")
            run_s.append(time.perf_counter() - began)
        inside += json.loads((await _run(gateway, interpreter, f"[timed() for _ in range({each})]")).value or "[]")
        calls = gateway.calls()
        for _ in range(each):
            began = time.perf_counter()
            reply = await calls.call("echo.echo", {"text": "x"})
            outside.append(time.perf_counter() - began)
            assert reply.ok, reply.value
    memory = await asyncio.to_thread(_memory, gateway, interpreter.container_id)
    await interpreter.close()
    return {
        "run_ms_p50": median(run_s) * 1e3,
        "run_ms_p95": percentile(run_s, 0.95) * 1e3,
        "call_from_code_ms_p50": median(inside) * 1e3,
        "call_from_code_ms_p95": percentile(inside, 0.95) * 1e3,
        "call_outside_ms_p50": median(outside) * 1e3,
        "call_outside_ms_p95": percentile(outside, 0.95) * 1e3,
        "call_added_ms": (median(inside) - median(outside)) * 1e3,
        "memory_mb": memory,
    }


def _memory(gateway: Coding, container: str | None) -> float:
    """Of the container and what the kernel keeps for it, without files it could drop."""
    stats = gateway.engine.client.api.stats(container, stream=False)["memory_stats"]
    dropped = stats["stats"].get("total_inactive_file", stats["stats"].get("inactive_file", 0))
    return (stats["usage"] - dropped) / 1e6


async def _arrivals(gateway: Coding, tasks: int) -> dict[str, object]:
    """Tasks that each come a moment after the one before, as agents of a few people do."""
    before = gateway.backend.pool.hits, gateway.backend.pool.misses
    for number in range(tasks):
        await anyio.sleep(THINKING_S)
        interpreter = await gateway.backend.open(f"arrival {number}")
        await _run(gateway, interpreter, CROWD)
        await interpreter.close()
    return _rate(gateway.backend, before)


async def _cold(gateway: Coding, starts: int) -> dict[str, float]:
    """From asking for an interpreter to the result of its first run."""
    took: list[float] = []
    for number in range(starts):
        began = time.perf_counter()
        interpreter = await gateway.backend.open(f"cold {number}")
        await _run(gateway, interpreter, "1 + 1")
        took.append(time.perf_counter() - began)
        await interpreter.close()
    return {"p50": median(took), "max": max(took)}


async def _crowd(gateway: Coding, tasks: int) -> dict[str, object]:
    """All tasks ask at the same time; each runs a program of eight calls, and a second one with its variables."""
    before = gateway.backend.pool.hits, gateway.backend.pool.misses
    first: list[float] = []
    second: list[float] = []
    began = time.perf_counter()

    async def one(number: int) -> None:
        interpreter = await gateway.backend.open(f"crowd {number}")
        result = await _run(gateway, interpreter, CROWD)
        assert result.value == "48", result
        first.append(time.perf_counter() - began)
        again = time.perf_counter()
        result = await _run(gateway, interpreter, f"total + {number}")
        assert result.value == str(48 + number), result
        second.append(time.perf_counter() - again)

    async with anyio.create_task_group() as group:
        for number in range(tasks):
            group.start_soon(one, number)
    return {
        "tasks": tasks,
        "all_done_s": time.perf_counter() - began,
        "first_answer_s_p50": median(first),
        "first_answer_s_max": max(first),
        "next_run_ms_p50": median(second) * 1e3,
        **_rate(gateway.backend, before),
    }


async def _run(gateway: Coding, interpreter: Any, code: str) -> RunResult:
    result = await interpreter.run(code, 60.0, gateway.calls())
    if result.status is not Status.OK:
        raise RuntimeError(f"a run of the bench ended with {result}")
    return result


def _rate(backend: DockerBackend, before: tuple[int, int]) -> dict[str, object]:
    hits, misses = backend.pool.hits - before[0], backend.pool.misses - before[1]
    return {"from_reserve": hits, "started_for": misses}


def _chores(folder: Path) -> list[dict[str, object]]:
    """Each by hand and by program, over one gateway with published servers."""
    work = (folder / "chores").resolve()
    work.mkdir()
    servers = {name: {**entry, "start_timeout_s": LISTED_S} for name, entry in prepare(work).items()}
    with start_gateway(folder / "gateway", servers, sandbox="docker") as gateway:
        base = f"http://127.0.0.1:{gateway.wait().port}"
        _wait_until_listed(base, len(servers))
        return [anyio.run(_chore, f"{base}/mcp", number, work) for number in range(len(CHORES))]


async def _chore(url: str, number: int, folder: Path) -> dict[str, object]:
    chore, real = CHORES[number], o200k()
    by = {"by_hand": await by_hand(url, chore, folder), "by_program": await by_program(url, chore, folder)}
    return {
        "chore": chore.name,
        "right": {way: _same(done.answer, chore.answer) for way, done in by.items()},
        **{
            way: {
                "round_trips": done.round_trips,
                "tokens": done.tokens(by_bytes),
                "tokens_o200k": done.tokens(real) if real else None,
                "read_in_all": done.read_again(by_bytes),
            }
            for way, done in by.items()
        },
    }


def _same(answer: str, known: str) -> bool:
    """Lists may come as Python writes them."""
    with suppress(ValueError, SyntaxError):
        return ast.literal_eval(answer) == json.loads(known)
    return False


def _wait_until_listed(base: str, servers: int) -> None:
    deadline = time.monotonic() + LISTED_S
    states: dict[str, int] = {}
    while time.monotonic() < deadline:
        states = httpx2.get(f"{base}/readyz", timeout=ANSWER_S).json()["servers"]
        if states == {"ready": servers}:
            return
        time.sleep(0.2)
    raise Missing(f"the published servers did not start: {states}; they need uvx, npx, PyPI and npm (or --no-chores)")


def _verdict(result: Mapping[str, Any]) -> dict[str, object]:
    failed: list[str] = []
    warm = result["warm"]
    if warm["run_ms_p50"] > MAX_RUN_MS:
        failed.append(f"a warm run takes {warm['run_ms_p50']:.2f} ms, more than {MAX_RUN_MS:g}")
    if warm["call_added_ms"] > MAX_CALL_MS:
        failed.append(f"code adds {warm['call_added_ms']:.2f} ms to a call, more than {MAX_CALL_MS:g}")
    for chore in result.get("chores", ()):
        failed += [f"{chore['chore']}: a wrong answer {way}" for way, right in chore["right"].items() if not right]
        for what in ("round_trips", "tokens"):
            if chore["by_program"][what] >= chore["by_hand"][what]:
                failed.append(f"{chore['chore']}: the program saves no {what.replace('_', ' ')}")
    return {"failed": "; ".join(failed)} if failed else {}


def table(result: Mapping[str, Any]) -> str:
    warm, crowd, cold, arrivals = (result[name] for name in ("warm", "crowd", "cold_start_s", "arrivals"))
    figures = Table(title="run_python in containers")
    for title in ("", "p50", "p95 or max", "limit"):
        figures.add_column(title, justify="right" if title else "left")
    rows: Sequence[tuple[str, str, str, str]] = (
        ("warm run, ms", f"{warm['run_ms_p50']:.2f}", f"{warm['run_ms_p95']:.2f}", f"{MAX_RUN_MS:g}"),
        ("tool call from code, ms", f"{warm['call_from_code_ms_p50']:.2f}", f"{warm['call_from_code_ms_p95']:.2f}", ""),
        ("the same call outside, ms", f"{warm['call_outside_ms_p50']:.2f}", f"{warm['call_outside_ms_p95']:.2f}", ""),
        ("added by code, ms", f"{warm['call_added_ms']:.2f}", "", f"{MAX_CALL_MS:g}"),
        ("start with nothing in reserve, s", f"{cold['p50']:.2f}", f"{cold['max']:.2f}", ""),
        ("memory of a container, MB", f"{warm['memory_mb']:.1f}", "", ""),
        (f"one after the other, every {THINKING_S:g} s: from the reserve", _share(arrivals), "", ""),
        (f"{crowd['tasks']} at once: first answer, s", *_both(crowd, "first_answer_s"), ""),
        (f"{crowd['tasks']} at once: from the reserve", _share(crowd), "", ""),
        (f"{crowd['tasks']} at once: next run, ms", f"{crowd['next_run_ms_p50']:.2f}", "", ""),
    )
    for row in rows:
        figures.add_row(*row)
    chores = Table(title="one program against calls one by one")
    for title in ("chore", "round trips", "tokens", "o200k_base", "read in all", "answers"):
        chores.add_column(title, justify="left" if title == "chore" else "right")
    for chore in result.get("chores", ()):
        hand, program = chore["by_hand"], chore["by_program"]
        pairs = (
            f"{hand[key]:,} → {program[key]:,}" if hand[key] is not None else ""
            for key in ("round_trips", "tokens", "tokens_o200k", "read_in_all")
        )
        chores.add_row(chore["chore"], *pairs, "right" if all(chore["right"].values()) else "WRONG")
    console = Console(width=130)
    with console.capture() as captured:
        console.print(figures, *([chores] if "chores" in result else []), sep="\n")
    return captured.get().rstrip()


def _share(counts: Mapping[str, int]) -> str:
    return f"{counts['from_reserve']} of {counts['from_reserve'] + counts['started_for']}"


def _both(counts: Mapping[str, float], name: str) -> tuple[str, str]:
    return f"{counts[f'{name}_p50']:.1f}", f"{counts[f'{name}_max']:.1f}"
