"""Task files as agents work them: the user's words, what plans tell, and which tools are needed.

Above: worlds.py, queries.py, agents.py. Below: JSON lines `{text, needed_servers, needed_tools}`, with the columns
`concrete_text` and `dependency_analysis` where a file has them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure import Missing

PLANS = ("concrete_text", "dependency_analysis")
MOST_ENTITIES = 12
_QUOTED = re.compile(r"(?<!\w)[\"“‘'`]([^\"”’'`\n]{2,60})[\"”’'`](?!\w)")
_NAME = re.compile(
    r"(?<![.!?:;\n•\-]\s)(?<![.!?:\n]\n)(?<=[\w,)(]\s)(?:[A-Z][\w&'’.-]*\w)(?:\s(?:of\s|de\s)?[A-Z][\w&'’.-]*\w)*"
)
_NUMBER = re.compile(r"(?<![\w.,-])-?\d[\d,]*(?:\.\d+)?(?![\w-])")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTask:
    """One task. Servers and tools bear the names of the file."""

    task_id: str
    text: str
    plans: tuple[str, ...]
    needs: tuple[tuple[str, str], ...]
    """Server and tool, in the order of the file; each once."""
    entities: tuple[str, ...]
    """What the text names, in its order: quoted words and names."""
    numbers: tuple[float, ...]


def read_work(path: Path) -> list[WorkTask]:
    """Tasks that need a tool at all.

    Raises:
        Missing: There is no such file, or a line of it is no task.
    """
    if not path.is_file():
        raise Missing(f"there is no file {path}; --tasks names another")
    rows: list[tuple[int, Any]] = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    rows.append((number, json.loads(line)))
                except ValueError as error:
                    raise Missing(f"{path}, line {number}, is not JSON: {error}") from error
    found: list[WorkTask] = []
    for number, row in rows:
        try:
            found.append(work_task(row, str(number)))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise Missing(f"{path}, line {number}, is no task: {type(error).__name__}: {error}") from error
    found = [task for task in found if task.needs]
    if not found:
        raise Missing(f"{path} has no task that needs a tool")
    return found


def work_task(row: dict[str, Any], name: str) -> WorkTask:
    """Of one row; `name` is its id where it has none.

    Raises:
        KeyError, TypeError, AttributeError, ValueError: It is no task.
    """
    text = row["text"].strip()
    needs = [tuple(tool.split(":", 1)) for tool in dict.fromkeys(row["needed_tools"])]
    if any(len(need) != 2 for need in needs):
        raise ValueError("needed_tools are written server:tool")
    return WorkTask(
        task_id=str(row.get("task_id", name)),
        text=text,
        plans=tuple(row[plan] for plan in PLANS if row.get(plan)),
        needs=tuple((need[0], need[1]) for need in needs),
        entities=entities_of(text),
        numbers=numbers_of(text),
    )


def known_tasks(tasks: Iterable[WorkTask], tools: Sequence[str] | frozenset[str]) -> list[WorkTask]:
    """Those all of whose needs are among `tools`, written `server:tool`."""
    there = frozenset(tools)
    return [task for task in tasks if all(":".join(need) in there for need in task.needs)]


def entities_of(text: str) -> tuple[str, ...]:
    """Names and quoted words, each once, at most `MOST_ENTITIES`."""
    places = [(found.start(), found[1].strip()) for found in _QUOTED.finditer(text)]
    places += [(found.start(), found[0].strip()) for found in _NAME.finditer(text)]
    found: dict[str, str] = {}
    for _, written in sorted(places):
        plain = re.sub(r"(?:'s|’s)$", "", written)
        if plain.casefold() not in _NO_NAMES and sum(map(str.isalnum, plain)) > 1:
            found.setdefault(plain.casefold(), plain)
    return tuple(list(found.values())[:MOST_ENTITIES])


def numbers_of(text: str) -> tuple[float, ...]:
    numbers = (float(found[0].replace(",", "")) for found in _NUMBER.finditer(text))
    return tuple(dict.fromkeys(numbers))


def vocabulary(words: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(words.split())


_NO_NAMES = vocabulary("i i'm i’m i’d i'd i’ve i've i’ll i'll ok okay tbh asap thanks please hey hi")
