"""The small made-up world of each task: what its needed tools know, and nobody else.

Above: canned.py, whose servers answer from it. Below: tasks.py, values.py. A world depends on its task alone, so that
servers in one process and agents in another need not tell each other anything, and all episodes of a task agree.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.traffic import values
from bench.traffic.tasks import WorkTask, vocabulary

FIELDS = 2
LISTED = 6
"""Records that a tool which is asked about nothing tells of."""
_VERBS = vocabulary(
    "get list search find fetch create update delete read write convert calculate compute query lookup retrieve "
    "make add remove set run check tool the for and all with from this that your you are can use used using "
    "returns return given name specific based optional default string number"
)
_WORD = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}(?![a-z])")
_CONTENT = re.compile(r"[A-Za-z]{5,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What one tool knows of one task."""

    task_id: str
    keys: frozenset[str]
    """Small letters: who asks with one of them is answered."""
    numbers: frozenset[float]
    record: Mapping[str, Any]


class Worlds:
    """What all tools know."""

    def __init__(self, tasks: Iterable[WorkTask], words: Mapping[tuple[str, str], str]) -> None:
        """`words`: description of each tool, from which its fields get their names."""
        self._known: dict[tuple[str, str], list[Known]] = defaultdict(list)
        for task in tasks:
            for need, known in zip(task.needs, world_of(task, words), strict=True):
                self._known[need].append(known)

    def ask(self, server: str, tool: str, asked: Sequence[str], numbers: Sequence[float]) -> list[Mapping[str, Any]]:
        """The records that the tool has for these texts and numbers of its arguments; none where it knows nothing of
        them. Asked about nothing, it tells of whatever it knows."""
        known = self._known.get((server, tool), [])
        texts = [text.casefold() for text in asked if text.strip()]
        scored = [(_score(each, texts, numbers), each) for each in known]
        best = max((score for score, _ in scored), default=0)
        if best:
            return [each.record for score, each in scored if score == best][:LISTED]
        return [] if texts else [each.record for each in known][:LISTED]


def world_of(task: WorkTask, words: Mapping[tuple[str, str], str]) -> list[Known]:
    """One for each need of the task, in order."""
    subjects = task.entities or (topic_of(task.text),)
    keys = frozenset(subject.casefold() for subject in (*subjects, topic_of(task.text)))
    ids = [values.code(f"{task.task_id} {server}:{tool}") for server, tool in task.needs]
    found: list[Known] = []
    for place, (server, tool) in enumerate(task.needs):
        own = subjects[place % len(subjects)]
        # All that a task names is known to one of its tools.
        rest = [each for at, each in enumerate(subjects) if at % len(task.needs) == place and each != own]
        record: dict[str, Any] = {"subject": own, "id": ids[place]}
        if rest:
            record["related"] = rest
        for number, field in enumerate(fields_of(tool, words.get((server, tool), ""))):
            record[field] = _value(f"{task.task_id} {server}:{tool} {field}", number)
        found.append(
            Known(
                task_id=task.task_id,
                keys=keys | {each.casefold() for each in ids},
                numbers=frozenset(task.numbers),
                record=record,
            )
        )
    return found


def topic_of(text: str) -> str:
    """A few words that say what a text is about, for one that names nothing."""
    words = list(dict.fromkeys(found[0].lower() for found in _CONTENT.finditer(text[:600])))
    return " ".join(words[2:5] or words) or text[:40]


def fields_of(tool: str, description: str) -> list[str]:
    """Names for what a tool tells, from its own words."""
    words = [word.lower() for word in _WORD.findall(f"{tool} {description[:200]}")]
    found = [word for word in dict.fromkeys(words) if word not in _VERBS and word not in ("subject", "related")]
    return [*found, "value", "total"][:FIELDS]


def _value(key: str, number: int) -> object:
    return values.amount(key) if number == 0 else values.one_of(f"{key} kind", (values.day, values.name))(key)


def _score(known: Known, texts: Sequence[str], numbers: Sequence[float]) -> int:
    """How much of what is asked it knows, in characters."""
    named = sum(max((len(key) for key in known.keys if key in text), default=0) for text in texts)
    return named + (0 if named or texts else sum(number in known.numbers for number in numbers))
