"""A log that something can be learned from: users ask in words that no description has, and one tool serves each.

Above: tests of the loop and of its commands. Below: tests/trainer/data/logs.py.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from proxy.store.database import Database
from proxy.store.tables import DefinitionRow
from tests.fixtures.logged import NOON
from tests.trainer.data.logs import META_TOOLS, Log, put

TOPICS = {
    "lumen glow bulb": "shop.find_item",
    "drizzle puddle umbrella": "weather.forecast",
    "pallet crate depot": "warehouse.count",
    "ledger debit voucher": "bank.book",
    "ferry berth harbour": "port.schedule",
    "tempo chord melody": "music.play",
}
DESCRIPTIONS = {
    "shop.find_item": "Looks up an article of the store by its name and tells the price.",
    "shop.sell": "Sells an article of the store to a customer who pays for it.",
    "weather.forecast": "Tells what the sky will be like in the days to come.",
    "warehouse.count": "Counts how many pieces of a part are kept.",
    "bank.book": "Enters an amount into the accounts of a company.",
    "port.schedule": "Lists arrivals and departures of vessels for a day.",
    "music.play": "Starts a song by its title and its singer.",
}
AGENTS = ("ada", "ben", "cleo", "dora", "emil", "fay")


def definitions() -> list[dict[str, Any]]:
    return [
        {
            "hash": sha256(written.encode()).hexdigest(),
            "server": written.partition(".")[0],
            "tool": written.partition(".")[2],
            "definition": {
                "name": written.partition(".")[2],
                "description": description,
                "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
            "tokens": 40,
        }
        for written, description in DESCRIPTIONS.items()
    ]


def a_snapshot(hashed: str) -> dict[str, Any]:
    servers = list(dict.fromkeys(written.partition(".")[0] for written in DESCRIPTIONS))
    offered = [
        {"name": name, "description": name, "inputSchema": {"type": "object", "properties": properties}}
        for name, properties in META_TOOLS.items()
    ]
    return {
        "hash": hashed,
        "taken_at": NOON,
        "servers": [{"name": server, "written": server, "purpose": ""} for server in servers],
        "tools": [[each, sha256(each.encode()).hexdigest()] for each in DESCRIPTIONS],
        "introduction": f"Tools are hidden.\n{json.dumps(offered)}",
        "introduction_tokens": 700,
        "eager_tokens": 4_000,
    }


def episodes(first: int, count: int) -> tuple[list[Log], dict[int, float | None], dict[int, dict[str, Any]]]:
    """Logs, rewards and endings, by place: most used the right tool and went well; some sold something instead."""
    logs: list[Log] = []
    rewards: dict[int, float | None] = {}
    endings: dict[int, dict[str, Any]] = {}
    topics = list(TOPICS.items())
    for place, number in enumerate(range(first, first + count)):
        words, right = topics[number % len(topics)]
        wrong = number % 7 == 3
        tool = "shop.sell" if wrong else right
        picked = words.split()
        query = f"{picked[number % 3]} {picked[(number + 1) % 3]}"
        # Words of its own, so that no two tasks are near duplicates.
        own = " ".join(sha256(f"{number} {part}".encode()).hexdigest()[:6].translate(_LETTERS) for part in range(6))
        log = Log(number + 1, agent=AGENTS[number // len(topics) % len(AGENTS)])
        log.search(query, "shop.sell", right, *(each for _, each in topics if each != right), task=f"{own} {words}")
        log.use(tool)
        log.finish()
        logs.append(log)
        rewards[place] = 0.2 if wrong else 0.9
        endings[place] = {"task": f"{own} {words}"}
    return logs, rewards, endings


_LETTERS = str.maketrans("0123456789", "ghijklmnop")


async def fill(database: Database, count: int, *, first: int = 0, judged: bool = True) -> None:
    """Write so many episodes; numbers below `first` are there already."""
    logs, rewards, endings = episodes(first, count)
    if first == 0:
        async with database.writing() as connection:
            await database.add(connection, DefinitionRow, definitions())
    hashed = next(iter(logs[0].rows.values()))[0]["catalog"]
    await put(database, logs, rewards if judged else {}, endings=endings, snapshots=[a_snapshot(hashed)])
