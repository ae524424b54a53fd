"""`python -m bench search`: what the lexical router costs over a catalogue, and what it finds.

Queries are the texts of a tasks file, where known needs give recall, or else words out of descriptions, drawn with a
fixed seed: then `found_at_5` says how often the tool that a query was made from is among the first five.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import psutil
from rich.console import Console
from rich.table import Table

from bench.measure import SHARED, Missing, percentile
from bench.targets.gateway import listings
from proxy.catalog.catalog import Catalog, Source, build_catalog
from proxy.catalog.purpose import purpose
from proxy.router.base import Query, Ranked
from proxy.router.lexical import LexicalRouter

NAME = "search"
SEED = 11
DRAWN_QUERIES = 500
QUERY_WORDS = 6
ANSWERED = 10
"""As many tools as agents ask for."""
DEFAULT_CATALOG = SHARED / "data" / "catalog_large.jsonl"


@dataclass(frozen=True)
class Asked:
    """One query, and the written names of the tools, and of the servers, that it is known to need."""

    text: str
    tools: frozenset[str]
    servers: frozenset[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--catalog", type=Path, default=DEFAULT_CATALOG, help="JSON lines, one tool a line")
    parser.add_argument("--queries", type=Path, help="JSON lines with text, needed_servers, needed_tools")


def run(args: argparse.Namespace) -> dict[str, object]:
    for path in (args.catalog, args.queries):
        if path is not None and not path.is_file():
            raise Missing(f"there is no file {path}; --catalog and --queries name others")
    return dict(measure(args.catalog, args.queries))


def table(result: dict[str, object]) -> str:
    rows = Table(title="search", show_header=False)
    for key, value in result.items():
        if isinstance(value, int | float | str):
            rows.add_row(key.replace("_", " "), f"{value:,.3f}" if isinstance(value, float) else str(value))
    console = Console(width=100)
    with console.capture() as captured:
        console.print(rows)
    return captured.get().rstrip()


def measure(catalog: Path, queries: Path | None) -> dict[str, float | int | str]:
    """Builds the router over `catalog`, asks it everything, and returns the figures."""
    known = build_catalog(
        (Source(name, purpose(None, listing), listing) for name, listing in listings(catalog).items()),
        refusal=lambda _server, _tool: None,
    )
    asked = _from_descriptions(known) if queries is None else _from_tasks(queries, known)
    process = psutil.Process()
    gc.collect()
    memory, start = process.memory_info().rss, time.perf_counter()
    router = LexicalRouter(known.servers)
    build_s = time.perf_counter() - start
    gc.collect()
    grown = process.memory_info().rss - memory

    times: list[float] = []
    answers: list[list[Ranked]] = []
    for query in asked:
        start = time.perf_counter()
        router.rank(Query(query.text), ANSWERED)
        times.append((time.perf_counter() - start) * 1000)
        # Five servers may take many tools.
        answers.append(router.rank(Query(query.text), len(known.tools)))
    return {
        "catalog": catalog.name,
        "servers": len(known.servers),
        "tools": len(known.tools),
        "build_s": round(build_s, 3),
        "memory_mb": round(grown / 1e6, 1),
        "queries": len(asked),
        "p50_ms": round(percentile(times, 0.50), 2),
        "p95_ms": round(percentile(times, 0.95), 2),
        "p99_ms": round(percentile(times, 0.99), 2),
    } | (_found(asked, answers) if queries is None else _recall(asked, answers))


def _from_descriptions(catalog: Catalog) -> list[Asked]:
    draw = random.Random(SEED)
    described = [tool for tool in catalog.tools.values() if len(tool.description.split()) >= QUERY_WORDS]
    asked: list[Asked] = []
    for tool in draw.sample(described, min(DRAWN_QUERIES, len(described))):
        words = " ".join(draw.sample(tool.description.split(), QUERY_WORDS))
        asked.append(Asked(words, frozenset({tool.written}), frozenset({tool.written.partition(".")[0]})))
    return asked


def _from_tasks(queries: Path, catalog: Catalog) -> list[Asked]:
    servers = {server.name: server.written for server in catalog.servers}
    tools = {f"{tool.server}:{tool.name}": tool.written for tool in catalog.tools.values()}
    with queries.open(encoding="utf-8") as file:
        tasks = [json.loads(line) for line in file]
    return [
        Asked(
            task["text"],
            # A tool that the catalogue lacks counts as not found.
            frozenset(tools.get(name, name) for name in task.get("needed_tools", ())),
            frozenset(servers.get(name, name) for name in task.get("needed_servers", ())),
        )
        for task in tasks
    ]


def _found(asked: Sequence[Asked], answers: Sequence[list[Ranked]]) -> dict[str, float | int | str]:
    hits = [not query.tools.isdisjoint(_tools(answer, 5)) for query, answer in zip(asked, answers, strict=True)]
    return {"found_at_5": round(fmean(hits), 3)} if hits else {}


def _recall(asked: Sequence[Asked], answers: Sequence[list[Ranked]]) -> dict[str, float | int | str]:
    pairs = list(zip(asked, answers, strict=True))
    servers = [
        len(query.servers & _servers(answer, 5)) / len(query.servers) for query, answer in pairs if query.servers
    ]
    tools = [len(query.tools & _tools(answer, 10)) / len(query.tools) for query, answer in pairs if query.tools]
    return {
        name: round(fmean(shares), 3)
        for name, shares in {"server_recall_at_5": servers, "tool_recall_at_10": tools}.items()
        if shares
    }


def _tools(answer: Sequence[Ranked], count: int) -> set[str]:
    return {ranked.tool for ranked in answer[:count]}


def _servers(answer: Sequence[Ranked], count: int) -> set[str]:
    return set(list(dict.fromkeys(ranked.tool.partition(".")[0] for ranked in answer))[:count])
