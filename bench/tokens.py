"""`python -m bench tokens`: what an agent's context pays for the gateway, beside all tools loaded eagerly.

Counted in what a real client received over HTTP, in both eras of the protocol: UTF-8 bytes / 4 of `instructions` and
of the compact JSON of `tools`, and beside it o200k_base tokens, whose vocabulary comes with the package bpe-openai.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal
from urllib.parse import quote

import anyio
from mcp import Client
from rich.console import Console
from rich.table import Table

from bench.lean import Era, http_client
from bench.measure import Missing
from bench.targets.catalog_server import rows_of, tool_of
from bench.targets.gateway import listings, stand_ins, start_configured, start_gateway, write_catalog
from bench.targets.invented import invented_rows
from proxy.servers.configfile import load

Count = Callable[[str], int]
PIECE = 100_000
SANDBOX = "embedded"
"""The one whose run_python takes more words: it has to say what its language lacks."""
CATALOG_KEYS = {"server", "server_description", "tool", "tool_description", "input_schema"}


def by_bytes(text: str) -> int:
    """UTF-8 bytes / 4, rounded up: no tokenizer needed, and the same for every model."""
    return -(-len(text.encode()) // 4)


def o200k() -> Count | None:
    """The tokens of o200k_base, or None where the package with its vocabulary is not installed."""
    if find_spec("bpe_openai") is None:
        return None
    with warnings.catch_warnings():
        # It reads its vocabulary with a function that Python has renamed.
        warnings.simplefilter("ignore", DeprecationWarning)
        encoding = import_module("bpe_openai").get_encoding("o200k_base")

    def count(text: str) -> int:
        # It takes no megabytes at once; a cut costs at most a token or two.
        pieces = (text[start : start + PIECE] for start in range(0, len(text), PIECE))
        return sum(len(encoding.encode_ordinary(piece)) for piece in pieces)

    return count


def compact(tools: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(tools, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class Surface:
    """What one client was shown."""

    version: str
    """The version of the protocol that client and server agreed on."""
    instructions: str
    tools: tuple[Mapping[str, Any], ...]

    def tokens(self, count: Count) -> int:
        return count(self.instructions) + count(compact(self.tools))


async def surface(url: str, mode: Literal["legacy", "auto"]) -> Surface:
    """What the SDK's client receives in the era with sessions (`legacy`) or the newest that the server has (`auto`)."""
    tools: list[Mapping[str, Any]] = []
    async with Client(url, mode=mode) as client:
        cursor: str | None = None
        while True:
            page = await client.list_tools(cursor=cursor)
            tools += [tool.model_dump(by_alias=True, mode="json", exclude_unset=True) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                return Surface(client.protocol_version, client.instructions or "", tuple(tools))


async def surfaces(url: str) -> list[Surface]:
    """Both eras, the larger first."""
    both = [await surface(url, "legacy"), await surface(url, "auto")]
    return sorted(both, key=lambda shown: shown.tokens(by_bytes), reverse=True)


async def tools_behind(url: str, server: str) -> list[dict[str, Any]]:
    """All tools of one server behind the gateway, as that server sends them."""
    async with http_client(f"{url}/{quote(server, safe='')}", Era.SESSION) as client:
        return await client.list_tools()


def eager(tools: Sequence[Mapping[str, Any]]) -> str:
    """What a client without a gateway would put before its model."""
    return compact([{key: tool.get(key) for key in ("name", "description", "inputSchema")} for tool in tools])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--catalog", type=Path, metavar="FILE", help="JSON lines, one tool each; default: invented")
    source.add_argument("--config", type=Path, metavar="FILE", help="an mcpServers file; its servers are started")
    source.add_argument("--url", help="a gateway that runs already")
    parser.add_argument("--max", type=int, metavar="N", help="exit with 1 when visible_tokens is larger")


def run(args: argparse.Namespace) -> dict[str, object]:
    notes: list[str] = []
    servers: int | None = None
    tools: list[Mapping[str, Any]] | None = None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-tokens-")))
        if args.url:
            url = args.url
        elif args.config:
            config = args.config.resolve(strict=True)
            url = _mcp(stack.enter_context(start_configured(config, folder, {}, SANDBOX)).wait().port)
            names = [server.name for server in load(args.config, os.environ).servers if server.usable]
            servers, tools = len(names), []
            for name in names:
                try:
                    # Listing also fills the index of a gateway that never saw this server.
                    tools += anyio.run(tools_behind, url, name)
                except (RuntimeError, TimeoutError, OSError) as error:
                    notes.append(f"server {name} could not be listed: {error}")
        else:
            catalog = (args.catalog or write_catalog(folder, invented_rows())).resolve(strict=True)
            rows = rows_of(catalog)
            if not rows or not rows[0].keys() >= CATALOG_KEYS:
                raise Missing(f"{catalog} is not a catalogue: every line needs the keys {sorted(CATALOG_KEYS)}")
            entries = stand_ins(catalog)
            servers, tools = len(entries), [tool_of(row) for row in rows]
            program = start_gateway(folder / "gateway", entries, listings(catalog), SANDBOX)
            url = _mcp(stack.enter_context(program).wait().port)
        shown = anyio.run(surfaces, url)
    real = o200k()
    if real is None:
        notes.append("o200k_base is not available: the package bpe-openai is not installed")
    return report(shown, tools, servers, real, notes) | _verdict(shown[0].tokens(by_bytes), args.max)


def report(
    shown: Sequence[Surface],
    tools: Sequence[Mapping[str, Any]] | None,
    servers: int | None,
    real: Count | None,
    notes: Sequence[str],
) -> dict[str, object]:
    """The figures. `shown` are the surfaces of both eras, the larger first; `tools` all those behind the gateway."""
    largest, other = shown
    everything = None if tools is None else eager(tools)
    return {
        "servers": servers,
        "tools": None if tools is None else len(tools),
        "visible_tokens": largest.tokens(by_bytes),
        "visible_tokens_other_era": other.tokens(by_bytes),
        "visible_tokens_o200k": largest.tokens(real) if real else None,
        "eager_tokens": None if everything is None else by_bytes(everything),
        "eager_tokens_o200k": None if everything is None or real is None else real(everything),
        "era": largest.version,
        "other_era": other.version,
        "parts": {"instructions": by_bytes(largest.instructions)}
        | {str(tool["name"]): by_bytes(compact([tool])) for tool in largest.tools},
        "notes": list(notes),
    }


def _verdict(visible: int, limit: int | None) -> dict[str, object]:
    if limit is None or visible <= limit:
        return {}
    return {"failed": f"{visible:,} visible tokens are more than the {limit:,} allowed"}


def table(result: Mapping[str, Any]) -> str:
    behind = (
        "" if result["servers"] is None else f", {result['tools']:,} tools of {result['servers']} servers behind it"
    )
    main = Table()
    for title in ("", "bytes / 4", "o200k_base"):
        main.add_column(title, justify="right" if title else "left")
    main.add_row(f"visible, {result['era']}", *map(_cell, (result["visible_tokens"], result["visible_tokens_o200k"])))
    main.add_row(f"visible, {result['other_era']}", _cell(result["visible_tokens_other_era"]))
    main.add_row("all tools eagerly", *map(_cell, (result["eager_tokens"], result["eager_tokens_o200k"])))
    main.add_section()
    for name, tokens in result["parts"].items():
        main.add_row(name, _cell(tokens))
    console = Console(width=100)
    with console.capture() as capture:
        console.print(f"What an agent sees of the gateway{behind}", main, *result["notes"], sep="\n")
    return capture.get()


def _mcp(port: int) -> str:
    return f"http://127.0.0.1:{port}/mcp"


def _cell(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
