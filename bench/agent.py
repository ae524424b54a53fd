"""`python -m bench agent`: what a task costs an agent in each variant: turns, calls and tokens.

The tasks are worked by `proxy/policy` through a gateway of its own process, over published servers. The model is
scripted unless TOOLATLAS_AGENT_URL and TOOLATLAS_AGENT_MODEL (and _API_KEY) name a real one.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import httpx2
from rich.console import Console
from rich.table import Table

from bench.measure import Missing
from bench.scripted_agent import Competent, Errand
from bench.targets.gateway import start_gateway
from proxy.commands.agent import model_settings
from proxy.policy.base import Variant
from proxy.policy.client_world import connected
from proxy.policy.counting import tokens_of_actions
from proxy.policy.limits import WorkLimits
from proxy.policy.loop import Worked, work
from proxy.policy.making import opened
from proxy.policy.surface import Surface
from proxy.settings import ModelSettings
from tests.fixtures.openai_server import openai_server

LISTED_S = 300.0
"""On a new machine all servers are downloaded first."""
COUNTS = (1204, 87, 3320, 45, 55)
SANDBOX = "embedded"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--variant", action="append", choices=list(Variant), metavar="NAME", help="one of them only; may be repeated"
    )
    parser.add_argument("--context-tokens", type=int, default=WorkLimits().context_tokens, metavar="N")


def run(args: argparse.Namespace) -> dict[str, object]:
    settings = model_settings(os.environ.get("TOOLATLAS_AGENT_MODEL"), os.environ.get("TOOLATLAS_AGENT_URL"))
    variants = [Variant(each) for each in args.variant or Variant]
    limits = WorkLimits(context_tokens=args.context_tokens)
    with TemporaryDirectory(prefix="bench-agent-") as name:
        folder = Path(name).resolve()
        with start_gateway(folder / "gateway", servers(folder / "files"), sandbox=SANDBOX) as program:
            url = f"http://127.0.0.1:{program.wait().port}/mcp"
            rows = anyio.run(partial(measured, url, folder / "files", settings, variants, limits))
    wrong = sum(len(row["wrong"]) for row in rows)
    # A real model may fail; the scripted one only when the agent or the gateway is broken.
    failed = {"failed": f"{wrong} tasks of the scripted model went wrong"} if wrong and settings is None else {}
    return {"model": "scripted" if settings is None else settings.identity, "variants": rows} | failed


def servers(folder: Path) -> dict[str, dict[str, object]]:
    """Published servers, and the folder that one of them may read, filled.

    Raises:
        Missing: Nothing here can start them.
    """
    path = os.pathsep.join((os.environ.get("PATH", ""), str(Path(sys.executable).parent)))
    if missing := [tool for tool in ("uvx", "npx") if shutil.which(tool, path=path) is None]:
        raise Missing(f"not installed: {', '.join(missing)} (uvx comes with `make bench-agent`, npx with Node.js)")
    (folder / "counts").mkdir(parents=True)
    (folder / "note.txt").write_text("The blue heron leaves from gate 17.\n", "utf-8")
    for number, count in enumerate(COUNTS, 1):
        (folder / "counts" / f"shelf{number}.txt").write_text(f"count: {count} pieces\n", "utf-8")
    npx = {"command": "npx", "start_timeout_s": LISTED_S}
    own = "@modelcontextprotocol/server-"
    return {
        "time": {"command": "uvx", "args": ["mcp-server-time"], "start_timeout_s": LISTED_S},
        "git": {"command": "uvx", "args": ["mcp-server-git"], "start_timeout_s": LISTED_S},
        "filesystem": {**npx, "args": ["-y", f"{own}filesystem", str(folder)]},
        "memory": {**npx, "args": ["-y", f"{own}memory"], "env": {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}},
        "everything": {**npx, "args": ["-y", f"{own}everything", "stdio"]},
    }


def errands(folder: Path) -> list[Errand]:
    """One call; one call with a path; and five calls whose results belong together."""
    shelves = [str(folder / "counts" / f"shelf{number}.txt") for number in range(1, len(COUNTS) + 1)]
    code = (
        "total = 0\n"
        f"for path in {shelves!r}:\n"
        '    text = str(filesystem.read_text_file(path=path))\n'
        '    total += int(text.split("count: ")[1].split()[0])\n'
        'print("total:", total)'
    )  # fmt: skip
    return [
        Errand(
            task="It is 12:00 in the time zone UTC. What time is it in Asia/Tokyo?",
            query="convert a time from one time zone to another",
            tool="time.convert_time",
            calls=({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},),
            code="",
            answer=lambda seen: "21:00" if "T21:00" in seen else "unknown",
            accepted=("21:00", "9:00 PM", "9:00 pm", "9 PM", "9 pm"),
        ),
        Errand(
            task=f"Read the file {folder / 'note.txt'} and say from which gate the heron leaves.",
            query="read a text file",
            tool="filesystem.read_text_file",
            calls=({"path": str(folder / "note.txt")},),
            code="",
            answer=lambda seen: "Gate 17" if "gate 17" in seen else "unknown",
            accepted=("17",),
        ),
        Errand(
            task=f"Each of these files has a count: {', '.join(shelves)}. What is their sum?",
            query="read a text file",
            tool="filesystem.read_text_file",
            calls=tuple({"path": path} for path in shelves),
            code=code,
            answer=_total,
            accepted=(str(sum(COUNTS)),),
        ),
    ]


def _total(seen: str) -> str:
    if (found := re.search(r"total: (\d+)", seen)) is not None:
        return found[1]
    # Some servers say everything twice, as text and as structured content.
    said = dict.fromkeys(re.findall(r"count: (\d+) pieces", seen))
    return str(sum(map(int, said)))


async def measured(
    url: str, folder: Path, settings: ModelSettings | None, variants: Sequence[Variant], limits: WorkLimits
) -> list[dict[str, Any]]:
    """One row a variant."""
    await _listed(url)
    set_tasks = errands(folder)
    rows: list[dict[str, Any]] = []
    for variant in variants:
        async with _model(settings, set_tasks, variant) as named:
            results = [await _worked(url, each, named, variant, limits) for each in set_tasks]
        rows.append(_row(variant, set_tasks, results))
    return rows


@asynccontextmanager
async def _model(
    settings: ModelSettings | None, set_tasks: Sequence[Errand], variant: Variant
) -> AsyncGenerator[ModelSettings]:
    if settings is not None:
        yield settings
        return
    async with openai_server(Competent(set_tasks, variant)) as served:
        yield ModelSettings(model="scripted", url=served.url)


async def _worked(
    url: str, errand: Errand, settings: ModelSettings, variant: Variant, limits: WorkLimits
) -> tuple[Worked, int]:
    """And the tokens of the definitions that the model had before it in every turn."""
    async with opened(settings, limits) as model, connected(url, variant) as world:
        surface = Surface(world, variant)
        return await work(errand.task, model, surface, limits), tokens_of_actions(surface.actions)


def _row(variant: Variant, set_tasks: Sequence[Errand], results: Sequence[tuple[Worked, int]]) -> dict[str, Any]:
    worked = [each for each, _ in results]
    return {
        "variant": variant.value,
        "tasks": len(worked),
        "wrong": [
            {"task": errand.task, "stop": each.stop.value, "outcome": each.outcome, "answer": each.answer}
            for errand, each in zip(set_tasks, worked, strict=True)
            if not errand.right(each.answer)
        ],
        "turns": sum(each.turns for each in worked),
        "actions": sum(len(each.did) for each in worked),
        "failed_actions": sum(did.failed for each in worked for did in each.did),
        "folded": sum(len(each.folded) for each in worked),
        "tokens_in": sum(each.tokens_in for each in worked),
        "tokens_out": sum(each.tokens_out for each in worked),
        "definition_tokens": results[0][1],
        "seconds": round(sum(each.seconds for each in worked), 2),
    }


async def _listed(url: str) -> None:
    """Until all servers are: a variant that loads everything must not find half of it."""
    states: Mapping[str, int] = {}
    async with httpx2.AsyncClient() as client:
        with anyio.move_on_after(LISTED_S):
            while states.keys() != {"ready"}:
                await anyio.sleep(0.2)
                states = (await client.get(httpx2.URL(url).join("/readyz"))).json()["servers"]
    if states.keys() != {"ready"}:
        raise Missing(f"the servers could not all be started: {dict(states)}; they come from PyPI and npm")


def table(result: Mapping[str, Any]) -> str:
    main = Table(title=f"{result['variants'][0]['tasks']} tasks, model {result['model']}")
    columns = ("variant", "right", "turns", "actions", "failed", "folded", "tokens read", "written", "definitions")
    for title in columns:
        main.add_column(title, justify="left" if title == "variant" else "right")
    for row in result["variants"]:
        counts = (row[key] for key in ("turns", "actions", "failed_actions", "folded"))
        tokens = (row[key] for key in ("tokens_in", "tokens_out", "definition_tokens"))
        right = f"{row['tasks'] - len(row['wrong'])}/{row['tasks']}"
        main.add_row(row["variant"], right, *map(str, counts), *(f"{each:,}" for each in tokens))
    console = Console(width=110)
    with console.capture() as capture:
        console.print(main)
    return capture.get()
