"""`python -m bench stubs`: every tool of a catalogue file as a Python stub, checked.

A stub must be Python that compiles, its names must lead back to exactly what the server knows, and all stubs together
must be shorter than the JSON that they stand for. One broken stub, or too long ones, make the exit code 1.
"""

from __future__ import annotations

import argparse
import ast
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.measure import SHARED, Missing, percentile
from bench.targets.catalog_server import rows_of, tool_of
from bench.targets.gateway import listings, write_catalog
from proxy.catalog.catalog import Catalog, Source, build_catalog
from proxy.catalog.records import ToolRecord
from proxy.catalog.stubs import MAX_PARAMETERS, parameters, stub

DEFAULT_CATALOG = SHARED / "data" / "catalog_large.jsonl"
MAX_SHARE = 0.6
"""Of the length of {name, description, inputSchema} as compact JSON, over the whole catalogue."""
SHOWN_PROBLEMS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--catalog", type=Path, default=DEFAULT_CATALOG, metavar="FILE", help="JSON lines, one tool each"
    )


def run(args: argparse.Namespace) -> dict[str, object]:
    if not args.catalog.is_file():
        raise Missing(f"there is no file {args.catalog}; --catalog names another")
    return measure(args.catalog)


def measure(path: Path) -> dict[str, object]:
    """Checks the stub of every row of a catalogue file."""
    known = build_catalog(
        (Source(name, "", listing) for name, listing in listings(path).items()),
        refusal=lambda _server, _tool: None,
    )
    written = {(tool.server, tool.name): tool.written for tool in known.tools.values()}
    problems: list[str] = []
    stub_characters = schema_characters = 0
    shares: list[float] = []
    times: list[float] = []
    rows = rows_of(path)
    for row in rows:
        # The row's own schema: a few catalogues have a name twice, and a listing keeps one of the two.
        tool = ToolRecord(row["server"], row["tool"], written[row["server"], row["tool"]], tool_of(row))
        start = time.perf_counter()
        source = stub(tool)
        times.append(time.perf_counter() - start)
        schema = json.dumps(tool.raw, ensure_ascii=False, separators=(",", ":"))
        problems += (f"{tool.server}: {tool.name}: {problem}" for problem in problems_of(source, tool, known))
        stub_characters += len(source)
        schema_characters += len(schema)
        shares.append(len(source) / len(schema))
    share = stub_characters / schema_characters
    result: dict[str, object] = {
        "tools": len(rows),
        "servers": len(known.servers),
        "valid": len(rows) - len({problem.rpartition(": ")[0] for problem in problems}),
        "share_of_schema": share,
        "share_p50": percentile(shares, 0.5),
        "share_p95": percentile(shares, 0.95),
        "stub_us_p50": percentile(times, 0.5) * 1e6,
        "stub_us_p99": percentile(times, 0.99) * 1e6,
        "problems": problems,
    }
    failed = [f"{len(problems)} problems"] if problems else []
    if share > MAX_SHARE:
        failed.append(f"stubs have {share:.3f} of the schemas' length, more than {MAX_SHARE}")
    return result | ({"failed": "; ".join(failed)} if failed else {})


def measure_rows(rows: Sequence[Mapping[str, Any]], folder: Path) -> dict[str, object]:
    """The same for rows that are not in a file yet."""
    return measure(write_catalog(folder, rows))


def problems_of(source: str, tool: ToolRecord, known: Catalog) -> Iterator[str]:
    """What is wrong with a stub, one clause each."""
    if (found := known.tool(tool.written)).name != tool.name or found.server != tool.server:
        yield f"{tool.written} leads to {found.server}: {found.name}"
    try:
        compile(source, tool.written, "exec")
    except (SyntaxError, ValueError) as error:
        yield f"not Python, {error}"
        return
    *classes, function = ast.parse(source).body
    if not all(isinstance(each, ast.ClassDef | ast.Assign) for each in classes):
        yield "more than classes before the function"
    if not isinstance(function, ast.FunctionDef) or tool.written != f"{tool.written.split('.')[0]}.{function.name}":
        yield f"does not end with the function {tool.written}"
        return
    back = parameters(tool)
    if [argument.arg for argument in function.args.kwonlyargs] != list(back)[:MAX_PARAMETERS]:
        yield "its parameters are not those that can be mapped back"
    sent = [*tool.input_schema.get("properties", ()), *tool.input_schema.get("required", ())]
    if sorted(back.values()) != sorted(set(sent)):
        yield "its parameters do not lead back to the schema's properties"


def table(result: Mapping[str, Any]) -> str:
    rows = Table(title="stubs", show_header=False)
    for key, value in result.items():
        if isinstance(value, int | float):
            rows.add_row(key.replace("_", " "), f"{value:,.3f}" if isinstance(value, float) else f"{value:,}")
    console = Console(width=100)
    with console.capture() as captured:
        console.print(rows, *result["problems"][:SHOWN_PROBLEMS], sep="\n", markup=False)
    return captured.get().rstrip()
