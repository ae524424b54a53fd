"""`toolatlas stats`: which tools were used, with what outcome, how fast, and what hiding them saved in tokens.

Above: cli.py. Below: store/statistics.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from rich.table import Table

from proxy.catalog.text import one_line
from proxy.commands.database_option import DatabaseOption, wide_console, with_database
from proxy.commands.local import emit
from proxy.store.recorder import Outcome
from proxy.store.statistics import Range, Savings, Statistics, ToolStatistics, statistics

NAME_CHARS = 40


def register(app: typer.Typer) -> None:
    app.command("stats")(stats)


def stats(
    days: Annotated[int, typer.Option(min=1, metavar="N", help="Of the last N days.")] = 30,
    database: DatabaseOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer as JSON on stdout.")] = False,
) -> None:
    """Tools by use: calls, outcomes, durations, tokens; and the tokens that hiding them saved."""
    span = Range(since=datetime.now(UTC) - timedelta(days=days))
    found = with_database(database, lambda database: statistics(database, span))
    emit(_answer(found), as_json, lambda: _print(found, days))


def _answer(found: Statistics) -> dict[str, Any]:
    savings = found.savings
    return {
        "since": None if found.range.since is None else found.range.since.isoformat(),
        "episodes": found.episodes,
        "steps": found.steps,
        "tools": [
            {
                "server": tool.server,
                "tool": tool.tool,
                "calls": tool.calls,
                "outcomes": dict(tool.outcomes),
                "p50_ms": tool.p50_ms,
                "p95_ms": tool.p95_ms,
                "read_tokens": tool.read_tokens,
                "code_tokens": tool.code_tokens,
                "uncounted": tool.uncounted,
            }
            for tool in found.tools
        ],
        "savings": {
            "episodes": savings.episodes,
            "left_out": savings.left_out,
            "eager_tokens": savings.eager_tokens,
            "introduction_tokens": savings.introduction_tokens,
            "finding_tokens": savings.finding_tokens,
            "saved_tokens": savings.saved_tokens,
        },
    }


def _print(found: Statistics, days: int) -> None:
    console = wide_console()
    console.print(f"Last {days} days: {found.episodes:,} episodes with {found.steps:,} steps began.")
    if found.tools:
        table = Table(
            "server", "tool", caption="Tokens: of results; those that only code read did not reach the agent."
        )
        for title in ("calls", "p50 ms", "p95 ms", "tokens read", "by code"):
            table.add_column(title, justify="right")
        table.add_column("not ok")
        for tool in found.tools:
            table.add_row(
                one_line(tool.server, NAME_CHARS),
                one_line(tool.tool, NAME_CHARS),
                f"{tool.calls:,}",
                f"{tool.p50_ms:,.0f}",
                f"{tool.p95_ms:,.0f}",
                f"{tool.read_tokens:,}",
                f"{tool.code_tokens:,}",
                _failures(tool),
            )
        console.print(table)
    console.print(_savings(found.savings), soft_wrap=True)


def _failures(tool: ToolStatistics) -> str:
    others = sorted(tool.outcomes.items() - {(Outcome.OK.value, tool.outcomes.get(Outcome.OK, 0))})
    return ", ".join(f"{outcome} {count:,}" for outcome, count in others)


def _savings(savings: Savings) -> str:
    left_out = f" {savings.left_out:,} others cannot be compared." if savings.left_out else ""
    if not savings.episodes:
        return f"Tokens saved: not known, since no episode in search mode has ended with its contents logged.{left_out}"
    return (
        f"Tokens saved in {savings.episodes:,} episodes: {savings.saved_tokens:,} = "
        f"{savings.eager_tokens:,} that all definitions would have taken - {savings.introduction_tokens:,} of the "
        f"introduction - {savings.finding_tokens:,} for finding tools; each counted once an episode, "
        f"though agents send their context with every turn.{left_out}"
    )
