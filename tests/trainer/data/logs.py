"""Logs that were judged, for tests of what is made of them.

Above: the tests beside it. Below: tests/fixtures/logged.py and judged.py, whose rows a gateway and a judge would write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from proxy.store.database import Database
from proxy.store.judging_tables import FilingRow
from proxy.store.tables import SnapshotRow
from tests.fixtures import judged
from tests.fixtures.logged import CATALOG, NOON, Episode, Rows, text, write

TOOLS = (
    "shop.find_item",
    "shop.find_items",
    "shop.sell",
    "weather.forecast",
    "weather.forecast_hourly",
    "warehouse.count",
)
SERVERS = ("shop", "weather", "warehouse")
TASK = "What does the lamp cost, and will it rain?"
META_TOOLS: Mapping[str, Mapping[str, Any]] = {
    "search_tools": {"query": {"type": "string"}, "task": {"type": "string"}},
    "list_servers": {"page": {"type": "integer"}},
    "list_tools": {"server": {"type": "string"}},
    "describe_tools": {"tools": {"type": "array", "items": {"type": "string"}}},
    "call_tool": {"tool": {"type": "string"}, "arguments": {"type": "object"}},
    "run_python": {"code": {"type": "string"}},
    "read_result": {"id": {"type": "string"}},
    "finish_task": {"outcome": {"type": "string"}, "answer": {"type": "string"}},
}
INDEX = "Tools are hidden. Servers (tools):\nshop - Sells lamps. (3 tools)\nweather - Tells it. (2 tools)"


def snapshot(hash: str = CATALOG) -> dict[str, Any]:
    offered = [
        {"name": name, "description": f"{name}.", "inputSchema": {"type": "object", "properties": properties}}
        for name, properties in META_TOOLS.items()
    ]
    return {
        "hash": hash,
        "taken_at": NOON,
        "servers": [{"name": server, "written": server, "purpose": ""} for server in SERVERS],
        "tools": [[tool, f"{place:064x}"] for place, tool in enumerate(TOOLS)],
        "introduction": f"{INDEX}\n{json.dumps(offered)}",
        "introduction_tokens": 700,
        "eager_tokens": 4_000,
    }


class Log(Episode):
    """One episode, with what its search showed."""

    def __init__(self, number: int, *, agent: str = "laptop", minutes: float | None = None, **columns: Any) -> None:
        began = NOON + timedelta(minutes=float(number) if minutes is None else minutes)
        super().__init__(number, agent=agent, began_at=began, **columns)

    def search(self, query: str, *shown: str, task: str | None = TASK, cut: int | None = None, **columns: Any) -> str:
        """A search that shows the first `cut` of these tools, or all."""
        arguments = {"query": query} if task is None else {"query": query, "task": task}
        told = shown[:cut]
        step = self.step(
            "search_tools",
            arguments,
            text("\n".join(f"{tool}(name) - of use" for tool in told)),
            revealed=[[tool, "signature"] for tool in told],
        )
        scored = [(tool, 9.0 - place / 3) for place, tool in enumerate(shown)]
        self.decided(step, query, scored, len(told), task=task, **columns)
        return step

    def read(self, *tools: str) -> str:
        return self.step(
            "describe_tools",
            {"tools": list(tools)},
            text("\n".join(f"def {tool}(name): ..." for tool in tools)),
            revealed=[[tool, "definition"] for tool in tools],
        )

    def use(self, tool: str, outcome: str = "ok", words: str = "3 EUR", **columns: Any) -> str:
        server, _, name = tool.partition(".")
        failed = outcome != "ok"
        return self.call(
            server,
            name,
            {"name": "lamp"},
            text(words, **({"isError": True} if failed else {})),
            outcome=outcome,
            **columns,
        )

    def finish(self, outcome: str = "done", answer: str = "It costs 3 EUR.") -> str:
        return self.step("finish_task", {"outcome": outcome, "answer": answer}, text("closed"))


def worked(number: int, *, tool: str = "shop.find_item", task: str | None = TASK, **columns: Any) -> Log:
    """A search, a call of what it showed, and the end."""
    log = Log(number, **columns)
    log.search(f"find number {number}", "shop.sell", tool, task=task)
    log.use(tool)
    log.finish()
    return log


async def put(
    database: Database,
    logs: Sequence[Log],
    rewards: Mapping[int, float | None],
    *,
    families: Mapping[int, str] | None = None,
    endings: Mapping[int, Mapping[str, Any]] | None = None,
    credits: Mapping[int, Mapping[str, float]] | None = None,
    judgements: Mapping[int, Mapping[str, Any]] | None = None,
    running: Sequence[int] = (),
    snapshots: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write episodes by their place in `logs`, with what was judged of them; those without a key in `rewards` were not
    judged."""
    endings, credits, judgements = endings or {}, credits or {}, judgements or {}
    written: list[Rows] = []
    for place, log in enumerate(logs):
        if place in running:
            written.append(log.rows)
        else:
            its = {"task": TASK, **endings.get(place, {})}
            written.append(log.end(its.pop("task"), **its))
    await write(database, *written)
    made = [
        judged.judgement(logs[place].id, reward, **{"credits": credits.get(place), **judgements.get(place, {})})
        for place, reward in rewards.items()
    ]
    rubrics = sorted({judged.RUBRIC, *(row["rubric_hash"] for row in made)})
    await judged.write(database, [judged.rubric(each) for each in rubrics], made)
    filings = [
        {"episode_id": logs[place].id, "task_key": "t_1", "family": family, "filed_at": NOON}
        for place, family in (families or {}).items()
    ]
    async with database.writing() as connection:
        if filings:
            await database.add(connection, FilingRow, filings)
        await database.add(connection, SnapshotRow, snapshots or [snapshot()])
