"""A gateway with its router's process, over a catalogue file, for the benches of the router as agents meet it.

Above: served.py, latency.py and searching.py. Below: targets/gateway.py. Vectors that the bench has already go into its
cache, so that embedding thousands of tools, which is measured elsewhere, takes no part.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil

from bench.lean import LeanClient
from bench.measure import ROOT, Program
from bench.targets.gateway import listings, stand_ins, start_configured, start_gateway

EMBEDDINGS = ROOT / "bench" / "out" / "embeddings.sqlite"
READY_S = 1_200.0
"""Also for a machine that has to embed everything first."""
POLL_S = 0.05
ENVIRON = {"TOOLATLAS_ROUTER": "fused"}
_TOOL = re.compile(r"^(\w+\.\w+)\(", re.MULTILINE)
_SERVERS = re.compile(r"^Servers that fit best: (.+)$", re.MULTILINE)
_DEGRADED = re.compile(r"^The router is (.+); this ranking is ", re.MULTILINE)


class Found:
    """What search_tools answered."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        text = "\n".join(item["text"] for item in result["content"] if item["type"] == "text")
        if result.get("isError"):
            raise RuntimeError(f"search_tools failed: {text[:500]}")
        self.tools = _TOOL.findall(text)
        """Written names, in the order shown."""
        named = _SERVERS.search(text)
        self.servers = list(dict.fromkeys([*(named[1].split(", ") if named else ()), *map(_server, self.tools)]))
        """Those that are named first, then those of the tools."""
        degraded = _DEGRADED.search(text)
        self.degraded = degraded[1] if degraded else None


async def search(client: LeanClient, text: str, limit: int) -> tuple[Found, float]:
    """The answer, and the milliseconds until it was there."""
    started = time.perf_counter()
    result = await client.call("search_tools", {"query": text, "limit": limit})
    elapsed = time.perf_counter() - started
    return Found(result), elapsed * 1000


@contextmanager
def routed_gateway(
    folder: Path, catalog: Path, further: Mapping[str, Mapping[str, object]] | None = None
) -> Iterator[Program]:
    """It listens, and its router is ready. `further`: servers beside those of the catalogue."""
    (folder / "gateway" / "cache").mkdir(parents=True)
    if EMBEDDINGS.is_file():
        # A copy by SQLite itself, since another bench may write meanwhile.
        target = folder / "gateway" / "cache" / "embeddings.db"
        with closing(sqlite3.connect(EMBEDDINGS)) as ours, closing(sqlite3.connect(target)) as its:
            ours.backup(its)
    servers = {**stand_ins(catalog), **(further or {})}
    with start_gateway(folder / "gateway", servers, listings(catalog), environ=ENVIRON) as program:
        program.wait()
        wait_until_ready(program)
        yield program


@contextmanager
def restarted_gateway(folder: Path) -> Iterator[Program]:
    """That of `routed_gateway`, which has ended, with all it had kept; it listens, and its router is ready."""
    own = folder / "gateway"
    environ = {**ENVIRON, "TOOLATLAS_CACHE_DIR": str(own / "cache")}
    with start_configured(own / "mcp.json", own, environ) as program:
        wait_until_ready(program.wait())
        yield program


def wait_until_ready(program: Program, *, starts: int = 1, headers: Mapping[str, str] | None = None) -> None:
    """Until the router's process answers searches, after so many starts. Raises RuntimeError when it never does.

    `headers`: the credential of a gateway that has tokens.
    """
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        values = metrics(program, headers)
        if values["toolatlas_router_ready"] == 1 and values["toolatlas_router_starts_total"] >= starts:
            return
        time.sleep(POLL_S)
    raise RuntimeError(f"the router was not ready within {READY_S:.0f} s")


def metrics(program: Program, headers: Mapping[str, str] | None = None) -> dict[str, float]:
    """Those without labels."""
    text = httpx2.get(f"http://127.0.0.1:{program.port}/metrics", headers=headers, timeout=60).text
    lines = (line.split() for line in text.splitlines() if line and not line.startswith("#") and "{" not in line)
    return {name: float(value) for name, value, *_ in lines}


def worker_of(program: Program) -> psutil.Process:
    """The router's process."""
    children = psutil.Process(program.pid).children()
    return next(child for child in children if "proxy.router.worker" in child.cmdline())


def _server(tool: str) -> str:
    return tool.partition(".")[0]
