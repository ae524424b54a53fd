"""`python -m bench overhead`: what the gateway adds to a call, beside other proxies, in one interleaved run.

An echo server is called directly and through each proxy, in both eras of the protocol, over HTTP to HTTP and HTTP to
stdio, one call after another and 16 at once. Processor time is the proxy process's own, children left out.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop
from rich.console import Console
from rich.table import Table

from bench.lean import Era, LeanClient, http_client, stdio_client
from bench.measure import ROOT, SHARED, Missing, Program, free_port, percentile
from bench.targets.gateway import listings, stand_ins, start_gateway, write_catalog
from bench.targets.invented import invented_rows

AT_ONCE = 16
ROUNDS = 5
SLOW_SHARE = 0.06
"""Share of the calls that a proxy gets which connects anew for every call."""
ECHO = [sys.executable, "-m", "bench.targets.echo"]
PROTOTYPES = SHARED / "prototypes" / "mcp"
GROWTH = {"10 tools": (1, 9), "5,700 tools": (600, 5_699)}
"""Servers and tools of the catalogue beside the one echo tool."""


@dataclass
class Samples:
    """What was measured of one way to the server, over all rounds."""

    sequential_ms: list[float] = field(default_factory=list[float])
    at_once_ms: list[float] = field(default_factory=list[float])
    at_once_s: float = 0.0
    cpu_us: list[float] = field(default_factory=list[float])
    """One figure a round, as the next."""
    at_once_cpu_us: list[float] = field(default_factory=list[float])

    def figures(self) -> dict[str, object]:
        # Medians of the rounds, so that one round beside somebody else's work does not decide.
        return {
            "calls": len(self.sequential_ms) + len(self.at_once_ms),
            "p50_ms": round(percentile(self.sequential_ms, 0.5), 3),
            "p95_ms": round(percentile(self.sequential_ms, 0.95), 3),
            "at_once_p50_ms": round(percentile(self.at_once_ms, 0.5), 3),
            "at_once_p95_ms": round(percentile(self.at_once_ms, 0.95), 3),
            "calls_per_s": round(len(self.at_once_ms) / self.at_once_s, 1),
            "cpu_us": round(statistics.median(self.cpu_us)) if self.cpu_us else None,
            "cpu_us_rounds": [round(value) for value in self.cpu_us],
            "at_once_cpu_us": round(statistics.median(self.at_once_cpu_us)) if self.at_once_cpu_us else None,
        }


@dataclass(frozen=True)
class Way:
    """One way to the echo server. Without a program to watch there is no figure of processor time."""

    name: str
    behind: str
    """How the echo server itself is reached: `http` or `stdio`."""
    url: str
    program: Program | None
    tool: str = "echo"
    slow: bool = False

    def arguments(self, text: str) -> dict[str, object]:
        named = self.tool != "call_tool"
        return {"text": text} if named else {"tool": f"echo_{self.behind}.echo", "arguments": {"text": text}}

    def calls(self, usual: int) -> int:
        return max(2, round(usual * SLOW_SHARE)) if self.slow else usual

    @asynccontextmanager
    async def clients(self, era: Era) -> AsyncIterator[list[LeanClient]]:
        """As many as call at once; over HTTP each has its connection, a stdio server has one agent."""
        async with AsyncExitStack() as stack:
            if not self.url:
                yield [await stack.enter_async_context(stdio_client(ECHO, era))] * AT_ONCE
                return
            yield [await stack.enter_async_context(http_client(self.url, era)) for _ in range(AT_ONCE)]


async def call(way: Way, client: LeanClient, text: str) -> float:
    """Milliseconds of one call. Raises RuntimeError when the answer is not the echo."""
    started = time.perf_counter()
    result = await client.call(way.tool, way.arguments(text))
    elapsed = time.perf_counter() - started
    if text not in str(result.get("content")):
        raise RuntimeError(f"{way.name} did not answer with what was sent, but with {str(result)[:500]}")
    return elapsed * 1000


async def measure_round(way: Way, clients: Sequence[LeanClient], calls: int, samples: Samples) -> None:
    """One round: some calls one after another, then as many by all clients at once."""

    async def several(client: LeanClient, count: int) -> list[float]:
        return [await call(way, client, f"text {number}") for number in range(count)]

    async def timed(counts: Sequence[int]) -> tuple[list[float], float, float]:
        cpu, started = way.program.cpu_s() if way.program else 0.0, time.perf_counter()
        parts = await asyncio.gather(*map(several, clients, counts))
        elapsed = time.perf_counter() - started
        times = [value for part in parts for value in part]
        return times, elapsed, ((way.program.cpu_s() - cpu) if way.program else 0.0) / len(times) * 1e6

    count = way.calls(calls)
    times, _, cpu_us = await timed([count])
    samples.sequential_ms += times
    many, elapsed, many_cpu_us = await timed([max(1, count // AT_ONCE)] * AT_ONCE)
    samples.at_once_ms += many
    samples.at_once_s += elapsed
    if way.program:
        samples.cpu_us.append(cpu_us)
        samples.at_once_cpu_us.append(many_cpu_us)


async def measure(ways: Sequence[Way], era: Era, calls: int) -> list[dict[str, object]]:
    """All ways in turn, several rounds, so that what else the machine does falls on all of them alike."""
    samples = {way: Samples() for way in ways}
    async with AsyncExitStack() as stack:
        clients = {way: await stack.enter_async_context(way.clients(era)) for way in ways}
        for way in ways:
            if way.tool == "call_tool":
                # A gateway that has just started may not know the tools of its servers yet; asked for them, it does.
                async with http_client(f"{way.url}/echo_{way.behind}", era) as asking:
                    await asking.list_tools()
            # Connections behind the proxy are made here, and code is warm after some calls.
            for number in range(way.calls(40)):
                await call(way, clients[way][number % AT_ONCE], "warm")
        for _ in range(ROUNDS):
            for way in ways:
                await measure_round(way, clients[way], max(2, calls // ROUNDS), samples[way])
    return [
        {"era": era.value, "behind": way.behind, "way": way.name, **measured.figures()}
        for way, measured in samples.items()
    ]


@contextmanager
def started(notes: list[str]) -> Iterator[list[Way]]:
    """All ways, everything they need running."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-overhead-")))

        def start(*command: str, port: int) -> Program:
            return stack.enter_context(Program([sys.executable, *command], port, folder / f"{port}.log"))

        ports = [free_port() for _ in range(6)]
        echo = start("-m", "bench.targets.echo", str(ports[0]), port=ports[0])
        echo_url = f"http://127.0.0.1:{echo.port}/mcp"
        servers = {
            "echo_http": {"url": echo_url, "approve": "never"},
            "echo_stdio": {"command": ECHO[0], "args": ECHO[1:], "cwd": str(ROOT), "approve": "never"},
        }
        floor = start("-m", "bench.targets.byte_proxy", str(ports[1]), echo_url, port=ports[1])
        fastmcp_http = start("-m", "bench.targets.fastmcp_proxy", str(ports[2]), echo_url, port=ports[2])
        fastmcp_stdio = start("-m", "bench.targets.fastmcp_proxy", str(ports[3]), *ECHO, port=ports[3])
        echo.wait()
        ours = stack.enter_context(start_gateway(folder / "gateway", servers))
        ways = [Way("direct", "http", echo_url, echo), Way("byte proxy", "http", _mcp(floor), floor)]
        programs = [floor, fastmcp_http, fastmcp_stdio, ours]
        if PROTOTYPES.is_dir():
            relay_http = start(str(PROTOTYPES / "proxy_http.py"), str(ports[4]), echo_url, port=ports[4])
            relay_stdio = start("-m", "bench.targets.relay_stdio", str(PROTOTYPES), str(ports[5]), *ECHO, port=ports[5])
            ways += [
                Way("raw relay", "http", _mcp(relay_http), relay_http),
                Way("raw relay", "stdio", _mcp(relay_stdio), relay_stdio),
            ]
            programs += [relay_http, relay_stdio]
        else:
            notes.append(f"no raw relay: {PROTOTYPES} is not here")
        ways.append(Way("direct", "stdio", "", None))
        for behind in ("http", "stdio"):
            ways.append(Way("toolatlas call_tool", behind, _mcp(ours), ours, tool="call_tool"))
            ways.append(Way("toolatlas /mcp/server", behind, f"{_mcp(ours)}/echo_{behind}", ours))
        ways.append(Way("fastmcp create_proxy", "http", _mcp(fastmcp_http), fastmcp_http, slow=True))
        ways.append(Way("fastmcp create_proxy", "stdio", _mcp(fastmcp_stdio), fastmcp_stdio))
        for program in programs:
            program.wait()
        yield ways


async def growth(calls: int) -> list[dict[str, object]]:
    """Processor time of a call with few and with thousands of tools in the catalogue."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-growth-")))
        port = free_port()
        echo = stack.enter_context(Program([*ECHO, str(port)], port, folder / "echo.log")).wait()
        ways: list[Way] = []
        for name, (servers, tools) in GROWTH.items():
            own = folder / name
            own.mkdir()
            catalog = write_catalog(own, invented_rows(servers, tools))
            entries = {**stand_ins(catalog), "echo_http": {"url": _mcp(echo), "approve": "never"}}
            ours = stack.enter_context(start_gateway(own / "gateway", entries, listings(catalog))).wait()
            ways.append(Way(name, "http", _mcp(ours), ours, tool="call_tool"))
        return await measure(ways, Era.STATELESS, calls)


def _mcp(program: Program) -> str:
    return f"http://127.0.0.1:{program.port}/mcp"


def add_ratios(rows: Sequence[dict[str, object]]) -> None:
    """Adds to every row its processor time over the raw relay's, and over that of our call_tool."""
    for row in rows:
        for key, other in (("ratio_to_relay", "raw relay"), ("ratio_to_ours", "toolatlas call_tool")):
            same = (r for r in rows if (r["era"], r["behind"], r["way"]) == (row["era"], row["behind"], other))
            base = next(same, {}).get("cpu_us")
            own = row["cpu_us"]
            row[key] = round(own / base, 2) if isinstance(own, int) and isinstance(base, int) else None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--calls",
        type=int,
        default=300,
        metavar="N",
        help="calls of each way one after another, and as many at once (default %(default)s)",
    )


def run(args: argparse.Namespace) -> dict[str, object]:
    if importlib.util.find_spec("fastmcp") is None:
        raise Missing("fastmcp is not installed; install the dependency group: pip install --group bench -e .")
    notes: list[str] = []
    rows: list[dict[str, object]] = []
    with started(notes) as ways:
        for era in Era:
            rows += uvloop.run(measure(ways, era, args.calls))
    add_ratios(rows)
    return {
        "calls": args.calls,
        "at_once": AT_ONCE,
        "rows": rows,
        "growth": uvloop.run(growth(args.calls)),
        "notes": notes,
    }


def table(result: dict[str, object]) -> str:
    rows, grown, notes = result["rows"], result["growth"], result["notes"]
    assert isinstance(rows, list)
    assert isinstance(grown, list)
    assert isinstance(notes, list)
    main = Table()
    for column in ("era", "behind", "way"):
        main.add_column(column)
    figures = ("p50_ms", "p95_ms", "cpu_us", "calls_per_s", "at_once_cpu_us", "ratio_to_relay", "ratio_to_ours")
    titles = ("p50 ms", "p95 ms", "CPU us", f"{AT_ONCE} at once /s", "CPU us", "to relay", "to call_tool")
    for title in titles:
        main.add_column(title, justify="right")
    for row in sorted(rows, key=lambda row: (row["era"], row["behind"])):
        main.add_row(row["era"], row["behind"], row["way"], *(_cell(row[key]) for key in figures))
    growing = Table()
    for title in ("catalogue", "p50 ms", "p95 ms", "CPU us"):
        growing.add_column(title)
    for row in grown:
        growing.add_row(row["way"], *(_cell(row[key]) for key in figures[:3]))
    console = Console(width=140)
    with console.capture() as capture:
        console.print("One echo call; ratios are of processor time, one call after another", main)
        console.print("call_tool by size of the catalogue, 2026-07-28, http", growing, *notes, sep="\n")
    return capture.get()


def _cell(value: object) -> str:
    return "" if value is None else f"{value:,}"
