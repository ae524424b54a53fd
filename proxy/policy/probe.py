"""Whether a model can work tasks at all: three small ones, through a real gateway over the toy server.

Above: commands/probing.py opens that gateway; doctor and serve read the record. Below: loop.py, toy.py. Each task has a
tool to find among others, arguments that follow from its words and the tool's definition, and an answer that nobody can
guess. A model that fails one of them would be a trap for agents that trust it with theirs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from proxy.errors import ConfigurationError
from proxy.files import replace_file
from proxy.policy.base import FINISH, Model, Variant, World
from proxy.policy.limits import WorkLimits
from proxy.policy.loop import Did, Stop, Worked, work
from proxy.policy.surface import Surface
from proxy.policy.toy import Toy

REVISION = 1
"""Of the tasks and of what passes: a model that passed another one is tried again."""
FILE = "agent-probe.json"
LIMITS = WorkLimits(turns=14, tokens=120_000, seconds=300, context_tokens=12_000, output_tokens=512)
MOST_MISTAKES = 2
"""Actions in one task that do not exist or cannot be read, before it has failed."""

OpenWorld = Callable[[Toy], AbstractAsyncContextManager[World]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One that is set."""

    text: str
    calls: tuple[str, ...]
    """Tools that have to be called with the right arguments, in this order."""
    answer: str
    """What has to stand in the answer."""


TASKS = (
    Task(text="How many units of the article KX-417 are in the warehouse Lund?", calls=("count_units",), answer="3862"),
    Task(
        text="Book the meeting room Aurora on 14 March 2031 for 6 people, and tell me the confirmation code.",
        calls=("book_room",),
        answer="QZ-5591",
    ),
    Task(
        text="What is the telephone extension of the manager of Ines Falk?",
        calls=("find_employee", "get_extension"),
        answer="7719",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One task, and how far the model came."""

    task: str
    found: bool
    """It searched or listed, and went on with a tool."""
    described: bool
    """It read a definition; a signature that it saw in a search may be enough, so that this decides nothing."""
    called: bool
    """With the right arguments, in the right order."""
    answered: bool
    finished: bool
    mistakes: int
    turns: int

    @property
    def passed(self) -> bool:
        return self.called and self.answered and self.finished and self.mistakes <= MOST_MISTAKES

    @property
    def lacks(self) -> str:
        """What kept it from passing, in a few words; empty when it passed."""
        lacking = {
            "no tool was found": self.found or self.called,
            "no right call": self.called,
            "no right answer": self.answered,
            "not finished": self.finished,
            f"{self.mistakes} malformed actions": self.mistakes <= MOST_MISTAKES,
        }
        return ", ".join(words for words, well in lacking.items() if not well)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What is known of one model."""

    model: str
    """Its identity."""
    at: str
    passed: bool
    tried: tuple[Tried, ...]


async def probe(model: Model, open_world: OpenWorld) -> Probed:
    """Have the model work all tasks, each in a world of its own.

    Raises:
        ModelError: It cannot be asked.
    """
    tried: list[Tried] = []
    for task in TASKS:
        toy = Toy()
        async with open_world(toy) as world:
            worked = await work(task.text, model, Surface(world, Variant.TOOLS), LIMITS)
        tried.append(_judged(task, toy, worked))
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return Probed(model=model.identity, at=at, passed=all(each.passed for each in tried), tried=tuple(tried))


def keep(folder: Path, probed: Probed) -> None:
    """Note it in the state folder.

    Raises:
        ConfigurationError: The folder cannot be written.
    """
    known = {**_read(folder), probed.model: {**asdict(probed), "revision": REVISION}}
    try:
        replace_file(folder / FILE, (json.dumps(known, indent=2) + "\n").encode())
    except OSError as error:
        raise ConfigurationError(f"{folder / FILE} cannot be written: {error.strerror}") from error


def may_be_offered(folder: Path, identity: str) -> bool:
    """Whether the model of that identity passed, by the tasks as they are now."""
    known = _read(folder).get(identity)
    if not isinstance(known, Mapping):
        return False
    known = cast("Mapping[str, Any]", known)
    return known.get("passed") is True and known.get("revision") == REVISION


def _judged(task: Task, toy: Toy, worked: Worked) -> Tried:
    well = [did for did in worked.did if not did.failed]
    names = [did.name for did in well]
    return Tried(
        task=task.text,
        found=any(name in ("search_tools", "list_tools") for name in names) and "call_tool" in names,
        described="describe_tools" in names,
        called=_in_order(task.calls, toy.called),
        answered=task.answer in (worked.answer or "").replace(",", ""),
        finished=worked.stop is Stop.FINISHED and worked.outcome == "done" and names[-1:] == [FINISH],
        mistakes=sum(map(_mistaken, worked.did)),
        turns=worked.turns,
    )


def _in_order(wanted: tuple[str, ...], called: list[str]) -> bool:
    rest = iter(called)
    return all(name in rest for name in wanted)


def _mistaken(did: Did) -> bool:
    return not did.understood


def _read(folder: Path) -> dict[str, Any]:
    try:
        known = json.loads((folder / FILE).read_text("utf-8"))
    except (OSError, ValueError):
        # Never probed, or not readable: then no model is known to be capable.
        return {}
    return cast("dict[str, Any]", known) if isinstance(known, dict) else {}
