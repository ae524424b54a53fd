"""What logging costs: gateways without a log and with each kind of one, called in turns; and when a step is durable.

Above: bench/store.py. Below: real gateways over HTTP, and the recorder by itself where no gateway shows what it does.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import func, select

from bench.lean import Era, LeanClient, http_client
from bench.measure import Missing, Program, free_port, percentile
from bench.targets.gateway import start_configured
from proxy.store.database import Database
from proxy.store.migrating import migrate
from proxy.store.recorder import Call, Episode, Outcome, Step
from proxy.store.recording import StoreRecorder
from proxy.store.tables import StepRow

OFF = "off"
AT_ONCE = 16
ROUNDS = 7
TEXT = "word " * 100
CAUGHT_UP_S = 120.0
LOG_BEGINS_S = 10.0
POLL_S = 0.02
RATE = 100
"""Steps a second."""


@dataclass
class Way:
    """One gateway, and what it logs into."""

    name: str
    program: Program
    database: Database | None
    clients: list[LeanClient] = field(default_factory=list[LeanClient])
    calls: int = 0
    per_s: list[float] = field(default_factory=list[float])
    """One figure a round, as the next two."""
    cpu_us: list[float] = field(default_factory=list[float])
    catch_up_s: list[float] = field(default_factory=list[float])

    async def call(self, count: int) -> None:
        """So many, by all clients at once. Raises RuntimeError where an answer is not the echo."""

        async def several(client: LeanClient) -> None:
            for _ in range(count // AT_ONCE):
                result = await client.call("call_tool", {"tool": "echo.echo", "arguments": {"text": TEXT}})
                if TEXT not in str(result.get("content")):
                    raise RuntimeError(f"{self.name} answered {str(result)[:300]}")

        await asyncio.gather(*map(several, self.clients))
        self.calls += count // AT_ONCE * AT_ONCE

    async def caught_up(self, within_s: float) -> int:
        """Steps in the tables, once all calls are there or time is up."""
        if self.database is None:
            return self.calls
        deadline = time.monotonic() + within_s
        while True:
            async with self.database.reading() as connection:
                steps = (await connection.execute(select(func.count()).select_from(StepRow))).scalar_one()
            if steps >= self.calls or time.monotonic() > deadline:
                return steps
            await asyncio.sleep(POLL_S)

    async def round(self, count: int) -> None:
        cpu, started = self.program.cpu_s(), time.perf_counter()
        await self.call(count)
        self.per_s.append(count // AT_ONCE * AT_ONCE / (time.perf_counter() - started))
        self.cpu_us.append((self.program.cpu_s() - cpu) / (count // AT_ONCE * AT_ONCE) * 1e6)
        # What is still to be written must not fall into the next one's time.
        ended = time.perf_counter()
        await self.caught_up(CAUGHT_UP_S)
        self.catch_up_s.append(time.perf_counter() - ended)


async def serving(folder: Path, databases: Mapping[str, str], calls: int) -> list[dict[str, object]]:
    """Calls per second through a gateway without a log and one for each database, in turns.

    Raises:
        Missing: A gateway writes nothing into its database.
    """
    with ExitStack() as programs:
        port = free_port()
        echo = [sys.executable, "-m", "bench.targets.echo", str(port)]
        programs.enter_context(Program(echo, port, folder / "echo.log")).wait()
        config = folder / "mcp.json"
        entry = {"url": f"http://127.0.0.1:{port}/mcp", "approve": "never"}
        config.write_text(json.dumps({"mcpServers": {"echo": entry}}), "utf-8")
        async with AsyncExitStack() as stack:
            ways: list[Way] = []
            for name, url in {OFF: "", **databases}.items():
                own = folder / name
                own.mkdir()
                environ = {"TOOLATLAS_CACHE_DIR": str(own / "cache")}
                environ["TOOLATLAS_DATABASE"] = url or "none"
                if url:
                    await migrate(url)
                program = programs.enter_context(start_configured(config, own, environ)).wait()
                database = Database(url) if url else None
                if database is not None:
                    stack.push_async_callback(database.close)
                ways.append(Way(name, program, database))
            for way in ways:
                at = f"http://127.0.0.1:{way.program.port}/mcp"
                way.clients = [await stack.enter_async_context(http_client(at, Era.SESSION)) for _ in range(AT_ONCE)]
                async with http_client(f"{at}/echo", Era.SESSION) as asking:
                    await asking.list_tools()
                await way.call(AT_ONCE * 20)
                if way.database is not None and not await way.caught_up(LOG_BEGINS_S):
                    raise Missing(f"the gateway writes no log into {way.database.shown}: does serve know --database?")
            for number in range(ROUNDS):
                for place in range(len(ways)):
                    await ways[(place + number) % len(ways)].round(max(AT_ONCE, calls // ROUNDS))
            return [await _figures(way, ways[0]) for way in ways]


async def _figures(way: Way, off: Way) -> dict[str, object]:
    # Round by round, so that what else the machine does falls on both sides of a ratio.
    ratios = [own / base for own, base in zip(way.per_s, off.per_s, strict=True)]
    return {
        "log": way.name,
        "calls": way.calls,
        "calls_per_s": round(statistics.median(way.per_s), 1),
        "cost_percent": round((1 - statistics.median(ratios)) * 100, 1),
        "cost_percent_rounds": [round((1 - ratio) * 100, 1) for ratio in ratios],
        "cpu_us": round(statistics.median(way.cpu_us)),
        "caught_up_s": round(statistics.median(way.catch_up_s), 2),
        "missing": way.calls - await way.caught_up(CAUGHT_UP_S),
    }


async def acknowledging(folder: Path, url: str, seconds: float) -> dict[str, object]:
    """How long after a step was handed over it was durable, at a steady rate."""
    recorder = StoreRecorder(
        folder, url, replica="0", version="bench", key=secrets.token_bytes(32), patterns=(), catalogue=lambda _: None
    )
    handed: list[float] = []
    durable: list[float] = []

    async def until(total: int) -> None:
        while len(durable) < total:
            known = recorder.counts.acknowledged
            durable.extend([time.perf_counter()] * (known - len(durable)))
            await asyncio.sleep(0.001)

    def record(number: int) -> None:
        handed.append(time.perf_counter())
        recorder.record(_step(number))

    async with recorder.running():
        # The writer, a process of its own, is still starting.
        record(0)
        await asyncio.wait_for(until(1), CAUGHT_UP_S)
        total = int(seconds * RATE)
        watching = asyncio.create_task(until(total + 1))
        began = time.perf_counter()
        for number in range(1, total + 1):
            await asyncio.sleep(max(0.0, began + number / RATE - time.perf_counter()))
            record(number)
        await asyncio.wait_for(watching, CAUGHT_UP_S)
        await recorder.flushed(CAUGHT_UP_S)
        dropped = recorder.counts.dropped
    first, *waits = [(after - before) * 1000 for before, after in zip(handed, durable, strict=True)]
    return {
        "steps": len(waits),
        "p50_ms": round(percentile(waits, 0.5), 1),
        "p99_ms": round(percentile(waits, 0.99), 1),
        "max_ms": round(max(waits), 1),
        "first_ms": round(first),
        "dropped": dropped,
    }


def _step(number: int) -> Step:
    now = datetime.now(UTC)
    episode = Episode(id=f"e_{number // 10:024x}", agent="bench", mode="search", began_at=now)
    result = {"content": [{"type": "text", "text": TEXT}]}
    asked: Mapping[str, object] = {"text": TEXT}
    return Step(
        episode=episode,
        mode="search",
        name="call_tool",
        arguments={"tool": "echo.echo", "arguments": asked},
        outcome=Outcome.OK,
        started_at=now,
        duration_ms=1.0,
        result=result,
        call=Call(
            server="echo",
            tool="echo",
            written="echo.echo",
            arguments=asked,
            result=result,
            started_at=now,
            duration_ms=1.0,
        ),
        catalog="c" * 64,
    )


def failures(served: Sequence[Mapping[str, object]], limit_percent: float) -> list[str]:
    """What of `serving` is not as it has to be."""
    found: list[str] = []
    for row in served:
        cost, missing = row["cost_percent"], row["missing"]
        assert isinstance(cost, float)
        if cost > limit_percent:
            found.append(f"logging into {row['log']} costs {cost} %, more than {limit_percent:g} %")
        if missing:
            found.append(f"{missing} steps are not in {row['log']}")
    return found
