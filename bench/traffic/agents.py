"""A simulated agent: works one task through the gateway, over MCP, with the habits of its episode.

Above: running.py. Below: bench/lean.py for the wire, queries.py, arguments.py. It calls only what the gateway showed it
in this episode. What a tool is good for it sees from what it reads there; habits.py says how well. What it did is kept
in `Worked`, which stays with the simulator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from random import Random
from typing import Any, cast

from bench.lean import LeanClient
from bench.traffic.arguments import Knowing, arguments_for
from bench.traffic.habits import READS_ON, Habits
from bench.traffic.queries import Queries
from bench.traffic.tasks import WorkTask

SEARCHES = 2
"""For one need, before it is looked for otherwise."""
PAGES = 3
"""Of a server's list that are read."""
LIMITS = (5, 8, 10)
_TOOL = re.compile(r"^(\w+\.\w+)[(:]", re.MULTILINE)
_DEGRADED = re.compile(r"^The router is .+; this ranking is ", re.MULTILINE)
_TASK = re.compile(r"\b(t[\w-]+_[0-9a-f]{24})\b")
_IDENTITY = frozenset({"subject", "id", "related"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A tool of the catalogue, as agents read of it."""

    written: str
    server: str
    """Written name of its server."""
    configured: str
    """Name of its server in files."""
    schema: Mapping[str, Any]
    description: str


@dataclass(slots=True, kw_only=True)
class Worked:
    """What the simulator knows of an episode; nothing of it is in the log."""

    task: str
    agent: str
    careless: bool
    episode: str | None = None
    """Id in the log."""
    outcome: str = ""
    claimed: bool = False
    """It told what it had not been told."""
    needs: int = 0
    met: int = 0
    decisions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """`need`, `tool` chosen, whether it was a `slip`, and whether the result was `useful`."""
    searches: int = 0
    degraded: int = 0
    """Searches that the router's process did not answer."""
    calls: int = 0

    @property
    def good(self) -> bool:
        return self.met == self.needs and not self.claimed and self.outcome == "done"


class Agent:
    """One episode."""

    def __init__(
        self,
        client: LeanClient,
        task: WorkTask,
        needs: Sequence[Offer],
        offers: Mapping[str, Offer],
        habits: Habits,
        chance: Random,
        worked: Worked,
    ) -> None:
        """`needs`: the tool for each need of the task, which it recognises when it reads of it; `offers`: all tools by
        written name, of which it uses the schema of one that it was shown."""
        self._client = client
        self._task = task
        self._needs = needs
        self._offers = offers
        self._habits = habits
        self._chance = chance
        self._worked = worked
        self._queries = Queries(task, [need.description for need in needs])
        self._passes_task = chance.random() < habits.passes_task
        self._shown: dict[str, None] = {}
        """Of all that it has seen, what it saw last comes last."""
        self._tried: set[str] = set()
        self._told: list[Mapping[str, Any]] = []
        """Records that results gave."""
        self._unmet: list[int] = []

    async def work(self) -> None:
        """To the end of the task, in whatever way."""
        worked, habits, chance = self._worked, self._habits, self._chance
        worked.needs = len(self._needs)
        ended = False
        if chance.random() < habits.whole:
            await self._search(self._queries.whole(), limit=chance.choice(LIMITS))
        for place in range(len(self._needs)):
            if await self._meet(place):
                worked.met += 1
            else:
                self._unmet.append(place)
                if ended := chance.random() < habits.gives_up:
                    self._unmet += range(place + 1, len(self._needs))
                    break
        await self._finish(gave_up=ended)

    async def _meet(self, place: int) -> bool:
        """Whether it got what it needs there."""
        if self._chance.random() < self._habits.reveals:
            await self._look_around()
        wrong: set[str] = set()
        for attempt in range(2):
            tool, slip = await self._decide(place, wrong)
            if tool is None:
                return False
            useful = await self._use(tool, place)
            self._worked.decisions.append({"need": place, "tool": tool, "slip": slip, "useful": useful})
            if useful and tool == self._needs[place].written:
                return True
            wrong.add(tool)
            if attempt == 0 and self._chance.random() >= self._habits.repairs:
                return False
        return False

    async def _decide(self, place: int, wrong: set[str]) -> tuple[str | None, bool]:
        """The tool that it takes, and whether that is a slip; None where it finds nothing that would do."""
        right, chance, habits = self._needs[place].written, self._chance, self._habits
        slips = chance.random() < habits.slips and not wrong
        shown = [] if wrong else list(reversed(self._shown))
        if right in shown and not slips and self._reads(shown, right):
            return right, False
        for attempt in range(SEARCHES):
            vague = attempt == 0 and chance.random() < habits.vague
            query = self._queries.vague(chance) if vague else self._queries.of_need(place, chance)
            shown = await self._search(query, limit=chance.choice(LIMITS) if chance.random() < habits.limits else None)
            if slips and (others := self._wrong(shown, wrong) or self._wrong(list(reversed(self._shown)), wrong)):
                return self._mistaken(others), True
            if right in shown and self._reads(shown, right):
                return right, False
        if chance.random() < habits.lists and await self._listed(self._needs[place]):
            return right, False
        others = self._wrong(shown, wrong)
        return (self._mistaken(others), True) if others else (None, True)

    def _wrong(self, shown: Sequence[str], tried: set[str]) -> list[str]:
        """Those that are of no use for this task."""
        of_use = {need.written for need in self._needs}
        return [tool for tool in shown if tool not in of_use and tool not in tried]

    def _reads(self, shown: Sequence[str], tool: str) -> bool:
        """Whether it reads as far as that tool."""
        return self._chance.random() < READS_ON ** shown.index(tool)

    def _mistaken(self, others: Sequence[str]) -> str:
        """One of those, the first the likeliest; mostly one that it has not tried yet."""
        fresh = [tool for tool in others if tool not in self._tried] or others
        return self._chance.choices(fresh, [1 / (1 + rank) for rank in range(len(fresh))])[0]

    async def _search(self, query: str, limit: int | None = None) -> list[str]:
        arguments: dict[str, Any] = {"query": query}
        if self._passes_task:
            arguments["task"] = self._task.text
        if limit is not None:
            arguments["limit"] = limit
        text, failed = await self._ask("search_tools", arguments)
        self._worked.searches += 1
        self._worked.degraded += _DEGRADED.search(text) is not None
        found = [] if failed else [tool for tool in _TOOL.findall(text) if tool in self._offers]
        for tool in reversed(found):
            # The first of the latest search is what it sees first.
            self._shown.pop(tool, None)
            self._shown[tool] = None
        return found

    async def _listed(self, need: Offer) -> bool:
        """Whether the server's list names the tool: the agent thought of the server by itself."""
        for page in range(1, PAGES + 1):
            text, failed = await self._ask(
                "list_tools", {"server": need.server, **({"page": page} if page > 1 else {})}
            )
            if failed:
                return False
            if need.written in _TOOL.findall(text):
                return True
        return False

    async def _look_around(self) -> None:
        if self._shown and self._chance.random() < 0.5:
            await self._ask("describe_tools", {"tools": list(self._shown)[-3:]})
        else:
            await self._ask("list_servers", {})

    async def _use(self, tool: str, place: int) -> bool:
        """Calls it; whether something came of it."""
        offer = self._offers[tool]
        if tool not in self._tried and self._chance.random() < self._habits.describes:
            await self._ask("describe_tools", {"tools": [tool]})
        self._tried.add(tool)
        text, failed = await self._ask("call_tool", {"tool": tool, "arguments": self._arguments(offer, place)})
        self._worked.calls += 1
        if failed:
            return False
        records = _records(text)
        own = [each for each in records if "subject" not in each or self._speaks(each)]
        self._told += [each for each in own[:1] if each not in self._told]
        return bool(own)

    def _arguments(self, offer: Offer, place: int) -> dict[str, Any]:
        subjects = self._task.entities or (self._queries.topic,)
        subject = subjects[place % len(subjects)]
        ids = [str(each["id"]) for each in reversed(self._told) if "id" in each]
        others = [each for each in subjects if each != subject]
        knowing = Knowing(
            subject=subject,
            others=[*ids[:1], *others[:2]],
            numbers=self._task.numbers,
            text=self._task.text,
            today=datetime.now(UTC).date(),
        )
        return arguments_for(offer.schema, knowing)

    def _speaks(self, record: Mapping[str, Any]) -> bool:
        """Whether a record is of what the task is about."""
        subject = str(record.get("subject", ""))
        told = subject.casefold() in self._task.text.casefold() or subject == self._queries.topic
        return bool(subject) and told

    async def _finish(self, *, gave_up: bool) -> None:
        worked, chance = self._worked, self._chance
        if gave_up or (self._unmet and chance.random() >= self._habits.claims):
            worked.outcome = "abandoned" if gave_up else "failed"
            answer = self._answer("I could not find everything that was asked for.")
        else:
            worked.outcome, worked.claimed = "done", bool(self._unmet)
            answer = self._answer(self._made_up() if self._unmet else "")
        await self._close(worked.outcome, answer)

    async def _close(self, outcome: str, answer: str) -> None:
        text, _ = await self._ask("finish_task", {"outcome": outcome, "answer": answer})
        if (found := _TASK.search(text)) is not None:
            # As the gateway makes it of a task's id.
            self._worked.episode = f"e_{sha256(found[1].encode()).hexdigest()[:24]}"

    def _answer(self, last: str) -> str:
        """What results told, one line for each, and `last`."""
        lines = []
        for record in self._told:
            values = [f"{name} {value}" for name, value in record.items() if name not in _IDENTITY]
            related = record.get("related")
            about = ", ".join([str(record.get("subject", "")), *(related if isinstance(related, list) else [])])
            lines.append(f"{about} ({record.get('id', '')}): {', '.join(values)}." if values else f"{about}.")
        return "\n".join([*lines, *([last] if last else [])]) or last

    def _made_up(self) -> str:
        """What it tells of what it was not told."""
        subjects = self._task.entities or (self._queries.topic,)
        lines: list[str] = []
        for place in self._unmet[:3]:
            word = self._needs[place].written.split(".")[1].replace("_", " ")
            lines.append(f"{subjects[place % len(subjects)]}: {word} {self._chance.randint(1_100, 98_000) / 100}.")
        return "\n".join(lines)

    async def _ask(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """The text of the answer, and whether it is an error."""
        result = await self._client.request("tools/call", {"name": name, "arguments": arguments})
        text = "\n".join(item["text"] for item in result["content"] if item["type"] == "text")
        return text, result.get("isError") is True


def _records(text: str) -> list[Mapping[str, Any]]:
    """What a result tells, as far as it tells anything."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        return []
    if not isinstance(value, Mapping):
        return []
    read = cast("Mapping[str, Any]", value)
    several = read.get("results")
    if isinstance(several, list):
        return [each for each in cast("list[Any]", several) if isinstance(each, Mapping)]
    return [read]
