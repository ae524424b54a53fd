"""Tasks with known needs, and the catalogue that they are asked over.

Above: routing.py and served.py. Below: catalogue files as targets/gateway.py reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from bench.measure import Missing
from bench.targets.gateway import listings
from bench.tokens import by_bytes, compact
from proxy.catalog.catalog import Catalog, Source, build_catalog
from proxy.catalog.purpose import purpose
from proxy.router.metrics import Need

SHORT_WORDS = 30
"""Of a short query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task, its needs in written names. What the catalogue lacks keeps the file's name, so nothing meets it."""

    task_id: str
    text: str
    servers: tuple[Need, ...]
    tools: tuple[Need, ...]

    @property
    def short(self) -> str:
        """A query of at most `SHORT_WORDS` words: its longest line, cut."""
        longest = max(self.text.splitlines() or [""], key=lambda line: len(line.split()))
        return " ".join(longest.split()[:SHORT_WORDS])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    tasks: tuple[Task, ...]
    notes: tuple[str, ...]
    """What of the file does not fit the catalogue, one sentence each."""


def read_catalog(path: Path) -> Catalog:
    """The catalogue that a gateway would have with these servers, all of them permitted."""
    _there(path, "--catalog")
    return build_catalog(
        (Source(name, purpose(None, listing), listing) for name, listing in listings(path).items()),
        refusal=lambda _server, _tool: None,
    )


def schema_tokens(catalog: Catalog) -> dict[str, int]:
    """Written name -> tokens of what an agent reads to know the tool: its name, description and input schema."""
    return {
        written: by_bytes(compact([{key: tool.raw[key] for key in _SHOWN if key in tool.raw}]))
        for written, tool in catalog.tools.items()
    }


_SHOWN = ("name", "description", "inputSchema")


def read_tasks(path: Path, catalog: Catalog) -> Tasks:
    """Rows `{text, needed_servers, needed_tools}`, tools as `server:tool`, and optionally `alternatives`.

    These map a needed tool to others that do as well; a server is replaced by one that can replace all its tools.

    Raises:
        Missing: There is no such file, or it holds something else than tasks.
    """
    _there(path, "--tasks")
    tools = {f"{tool.server}:{tool.name}": tool.written for tool in catalog.tools.values()}
    servers = {server.name: server.written for server in catalog.servers}
    read: list[Task] = []
    for number, row in _rows(path):
        try:
            read.append(_task(number, row, servers, tools))
        except (KeyError, TypeError, AttributeError) as error:
            raise Missing(f"{path}, line {number}, is no task: {type(error).__name__}: {error}") from error
    if not read:
        raise Missing(f"{path} has no tasks")
    return Tasks(tasks=tuple(read), notes=tuple(_notes(read, servers.values(), tools.values())))


def _task(number: int, row: Mapping[str, Any], servers: Mapping[str, str], tools: Mapping[str, str]) -> Task:
    alternatives: Mapping[str, Sequence[str]] = row.get("alternatives") or {}
    needed_tools = list(dict.fromkeys(row.get("needed_tools") or ()))
    needed_servers = list(dict.fromkeys(row.get("needed_servers") or ()))
    meeting = {name: [name, *alternatives.get(name, ())] for name in needed_tools}
    if not all(isinstance(name, str) for name in chain(needed_servers, *meeting.values())):
        raise TypeError("names must be strings")
    able: list[Need] = []
    for server in needed_servers:
        own = [
            {name.partition(":")[0] for name in meeting[tool]} for tool in needed_tools if tool.startswith(f"{server}:")
        ]
        replacing = set[str]().union(*own).intersection(*own) if own else set[str]()
        able.append(frozenset(servers.get(name, name) for name in {server, *replacing}))
    return Task(
        task_id=str(row.get("task_id", number)),
        text=row["text"].strip(),
        servers=tuple(able),
        tools=tuple(frozenset(tools.get(each, each) for each in meeting[name]) for name in needed_tools),
    )


def _notes(tasks: Sequence[Task], servers: Any, tools: Any) -> Iterator[str]:
    for what, known, needs in (
        ("servers", frozenset(servers), [need for task in tasks for need in task.servers]),
        ("tools", frozenset(tools), [need for task in tasks for need in task.tools]),
    ):
        absent = sorted({min(need) for need in needs if need.isdisjoint(known)})
        if absent:
            shown = ", ".join(absent[:5]) + (", …" if len(absent) > 5 else "")
            yield f"{len(absent)} needed {what} are not in the catalogue and count as not found: {shown}"
        without = sum(not (task.servers if what == "servers" else task.tools) for task in tasks)
        if without:
            yield f"{without} of {len(tasks)} tasks name no {what} that they need, and count for no figure of {what}"


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except ValueError as error:
                    raise Missing(f"{path}, line {number}, is not JSON: {error}") from error


def _there(path: Path, option: str) -> None:
    if not path.is_file():
        raise Missing(f"there is no file {path}; {option} names another")
