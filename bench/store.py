"""`python -m bench store`: what the log costs those who are served, and how fast a large one is read.

In one run: calls per second with logging off, into SQLite and into PostgreSQL, and when steps are durable; then a large
invented log is written, streamed as a trainer does, and looked at in the dashboard.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
from rich.console import Console
from rich.table import Table

from bench.measure import ROOT, percentile
from bench.targets.gateway import start_configured
from bench.targets.logged import STEPS, batches
from bench.targets.recorded import acknowledging, failures, serving
from proxy.store.database import Database
from proxy.store.migrating import migrate
from tests.fixtures.postgres import NoPostgres, empty_database, postgres_cluster

COST_PERCENT = 10.0
ACKNOWLEDGED_MS = 250.0
STREAM_S = 3600.0
PAGE_S = 60.0
VISITS = 15
PAGES = {
    "servers": "/ui/servers",
    "episodes": "/ui/episodes",
    "episodes of an agent": "/ui/episodes?agent=agent-7",
    "episodes with a tool": "/ui/episodes?server=weather&tool=get_warning",
    "episodes with failures": "/ui/episodes?failures=1",
    "episodes by text": "/ui/episodes?text=nowhere+to+be+found",
    "one episode": f"/ui/episodes/e_{7:024x}",
    "tools, 7 days": "/ui/tools",
    "tools, all": "/ui/tools?window=all",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--calls", type=int, default=7_000, help="calls of each gateway (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=20.0, help="of steps at 100 a second (default %(default)s)")
    parser.add_argument("--steps", type=int, default=1_000_000, help="of the large log (default %(default)s)")
    parser.add_argument("--part", choices=("all", "serving", "reading"), default="all", help="only one of the parts")


def run(args: argparse.Namespace) -> dict[str, object]:
    result: dict[str, object] = {"steps": args.steps, "notes": []}
    notes: list[str] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-store-")))
        try:
            server = stack.enter_context(postgres_cluster(durable=True))
        except NoPostgres as problem:
            notes.append(str(problem))
            server = None

        def databases(part: str) -> dict[str, str]:
            found = {"sqlite": f"sqlite:///{folder / part / 'log.db'}"}
            return found | ({} if server is None else {"postgresql": stack.enter_context(empty_database(server))})

        failed: list[str] = []
        if args.part != "reading":
            (folder / "serving").mkdir()
            served = asyncio.run(serving(folder / "serving", databases("served"), args.calls))
            result["serving"] = served
            failed += failures(served, COST_PERCENT)
            durable = {
                name: asyncio.run(_acknowledged(folder, url, args)) for name, url in databases("durable").items()
            }
            result["acknowledged"] = durable
            failed += [
                f"with {name}, a step is durable after {row['p99_ms']} ms (p99), more than {ACKNOWLEDGED_MS:g}"
                for name, row in durable.items()
                if float(str(row["p99_ms"])) > ACKNOWLEDGED_MS
            ]
        if args.part != "serving":
            result["reading"] = {name: _read(folder, name, url, args) for name, url in databases("read").items()}
    return result | {"notes": notes} | ({"failed": "; ".join(failed)} if failed else {})


async def _acknowledged(folder: Path, url: str, args: argparse.Namespace) -> dict[str, object]:
    await migrate(url)
    return await acknowledging(folder / "journals", url, args.seconds)


def _read(folder: Path, name: str, url: str, args: argparse.Namespace) -> dict[str, object]:
    """The large log in one database: written, streamed, looked at."""
    written = asyncio.run(_written(url, args.steps))
    command = [sys.executable, "-m", "bench.targets.streaming", url]
    streamed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=STREAM_S)
    return {"written": written, "streamed": json.loads(streamed.stdout), "pages": _pages(folder / f"pages {name}", url)}


async def _written(url: str, steps: int) -> dict[str, object]:
    await migrate(url)
    database = Database(url)
    rows, writing_s = 0, 0.0
    for batch in batches(max(1, steps // STEPS)):
        # The rows themselves take about as long to invent.
        started = time.perf_counter()
        async with database.writing() as connection:
            for table, some in batch:
                rows += await database.add(connection, table, some)
        writing_s += time.perf_counter() - started
    await database.close()
    return {"rows": rows, "s": round(writing_s, 1), "rows_per_s": round(rows / writing_s)}


def _pages(folder: Path, url: str) -> dict[str, dict[str, object]]:
    """Milliseconds of each page of a gateway that has this log, the first visit apart: it finds nothing warm."""
    folder.mkdir()
    config = folder / "mcp.json"
    config.write_text('{"mcpServers": {}}', "utf-8")
    environ = {"TOOLATLAS_CACHE_DIR": str(folder / "cache"), "TOOLATLAS_DATABASE": url}
    found: dict[str, dict[str, object]] = {}
    with start_configured(config, folder, environ).wait() as gateway:
        with httpx2.Client(base_url=f"http://127.0.0.1:{gateway.port}", timeout=PAGE_S) as http:
            for name, path in PAGES.items():
                times: list[float] = []
                for _ in range(VISITS + 1):
                    started = time.perf_counter()
                    answer = http.get(path)
                    times.append((time.perf_counter() - started) * 1000)
                    if answer.status_code != 200:
                        break
                ordered = times[1:] or times
                found[name] = {
                    "status": answer.status_code,
                    "bytes": len(answer.content),
                    "first_ms": round(times[0], 1),
                    "p50_ms": round(percentile(ordered, 0.5), 1),
                    "max_ms": round(max(ordered), 1),
                }
    return found


def table(result: Mapping[str, object]) -> str:
    console = Console(width=120)
    with console.capture() as capture:
        if isinstance(served := result.get("serving"), list):
            console.print("Calls through a gateway; cost is against the one without a log, by the median of the rounds")
            console.print(_grid(served, ("log", "calls_per_s", "cost_percent", "cpu_us", "caught_up_s", "missing")))
        if isinstance(durable := result.get("acknowledged"), dict):
            console.print("From a step to its being durable, at 100 a second")
            console.print(_grid([{"log": name, **row} for name, row in durable.items()]))
        if isinstance(reading := result.get("reading"), dict):
            for name, parts in reading.items():
                console.print(f"A log of {result['steps']:,} steps in {name}: written, streamed, looked at")
                for part in ("written", "streamed"):
                    console.print(_grid([parts[part]]))
                console.print(_grid([{"page": page, **row} for page, row in parts["pages"].items()]))
        for note in result["notes"] if isinstance(result["notes"], list) else ():
            console.print(f"note: {note}")
    return capture.get()


def _grid(rows: list[dict[str, object]], columns: tuple[str, ...] = ()) -> Table:
    shown = Table()
    for column in columns or tuple(rows[0]):
        shown.add_column(column.replace("_", " "), justify="right" if column not in ("log", "page") else "left")
    for row in rows:
        shown.add_row(*(str(row[column]) for column in columns or tuple(rows[0])))
    return shown
