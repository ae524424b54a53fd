"""`python -m bench cold`: a start with nothing cached: when the gateway answers, what the first search gets.

The servers of examples/mcp.json (published ones, through uvx and npx) and stand-ins make up the number.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
from mcp import Client
from mcp import types as t
from rich.console import Console
from rich.table import Table

from bench.measure import ROOT, Missing, Program
from bench.targets.gateway import stand_ins, start_gateway, write_catalog
from bench.targets.invented import invented_rows

QUERY = "what time is it in Tokyo"
POLL_S = 0.02
LISTED_WITHIN_S = 180.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--servers", type=int, default=20, help="how many servers in all")


def run(args: argparse.Namespace) -> dict[str, object]:
    """Start, ask at once, and wait until every server has been listed or has failed."""
    published = json.loads((ROOT / "examples/mcp.json").read_text("utf-8"))["mcpServers"]
    with TemporaryDirectory() as name:
        folder = Path(name)
        catalog = write_catalog(folder, invented_rows())
        others = list(stand_ins(catalog).items())[: max(0, args.servers - len(published))]
        # Relative folders in the examples mean the checkout.
        servers = {key: {**entry, "cwd": str(ROOT)} for key, entry in published.items()} | dict(others)
        started = time.monotonic()
        with start_gateway(folder / "gateway", servers) as gateway:
            return {"servers": len(servers), **asyncio.run(_measure(gateway, started))}


async def _measure(gateway: Program, started: float) -> dict[str, object]:
    base = f"http://127.0.0.1:{gateway.port}"
    async with httpx2.AsyncClient() as http:
        while True:
            try:
                await http.get(f"{base}/healthz")
                break
            except httpx2.TransportError:
                if time.monotonic() - started > LISTED_WITHIN_S:
                    raise Missing("the gateway did not start") from None
                await asyncio.sleep(POLL_S)
        async with Client(f"{base}/mcp") as client:
            await client.list_tools()
            first_answer_s = time.monotonic() - started
            asked = time.monotonic()
            result = await client.call_tool("search_tools", {"query": QUERY})
            search_s = time.monotonic() - asked
            answer = next(item.text for item in result.content if isinstance(item, t.TextContent))
            while (counts := (await http.get(f"{base}/readyz")).json())["servers"].get("starting"):
                if time.monotonic() - started > LISTED_WITHIN_S:
                    break
                await asyncio.sleep(POLL_S)
            complete_s = time.monotonic() - started
            again = time.monotonic()
            result = await client.call_tool("search_tools", {"query": QUERY})
            later_s = time.monotonic() - again
            later = next(item.text for item in result.content if isinstance(item, t.TextContent))
    return {
        "first_answer_s": round(first_answer_s, 2),
        "first_search_s": round(search_s, 2),
        "first_search": answer.splitlines()[0],
        "complete_s": round(complete_s, 2),
        "states": counts["servers"],
        "later_search_s": round(later_s, 3),
        "later_search": later.splitlines()[0],
    }


def table(result: dict[str, object]) -> str:
    """What happened, in the order in which it did."""
    shown = Table(title=f"A start with nothing cached, {result['servers']} servers")
    shown.add_column("")
    shown.add_column("seconds", justify="right")
    shown.add_column("answer")
    shown.add_row("process start to tools/list answered", str(result["first_answer_s"]), "")
    shown.add_row("the first search, asked then", str(result["first_search_s"]), str(result["first_search"]))
    shown.add_row("process start to all listed", str(result["complete_s"]), str(result["states"]))
    shown.add_row("the same search then", str(result["later_search_s"]), str(result["later_search"]))
    console = Console(width=110)
    with console.capture() as capture:
        console.print(shown)
    return capture.get()
