"""A small catalogue with a planted secret, and a log that knows it: agents ask for tools in words that the tools'
descriptions do not have.

Above: tests of trainer/ranking. Below: the tests' encoder that needs no model.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from proxy.catalog.records import ServerRecord
from proxy.router.base import Query
from tests.proxy.router.encoders import server
from trainer.rows import Origin, RankingRow, Used

ASKED = {
    "files.read": "glance contents paper",
    "files.write": "jot scribble notes",
    "weather.forecast": "umbrella tomorrow needed",
    "weather.now": "outside coat currently",
}
"""Tool -> the words that agents use for it."""
CATALOG = "c" * 64
_START = datetime(2026, 11, 1, tzinfo=UTC)
_FILLER = ("please", "kindly", "quickly", "again", "somehow", "maybe", "today", "then")


def catalogue() -> list[ServerRecord]:
    return [
        server("files", {"read": "read a file of the disk", "write": "write a file to the disk"}),
        server("weather", {"forecast": "the forecast of rain for a city", "now": "the weather of a city"}),
        server("mail", {"send": "send a letter to a friend", "search": "search letters by sender and subject"}),
        server("music", {"play": "play a song by its title", "queue": "queue songs for the evening"}),
    ]


def query(tool: str, random: Random) -> Query:
    return Query(" ".join([*random.sample(_FILLER, 2), *random.sample(ASKED[tool].split(), 2)]))


def row(
    number: int,
    text: Query,
    tool: str,
    *,
    advantage: float = 0.5,
    ok: bool = True,
    credit: float | None = None,
    task: str | None = None,
    weight: float = 1.0,
) -> RankingRow:
    """One ranking of an episode of its own, after which an agent used `tool`."""
    origin = Origin(
        episode_id=f"episode-{number:04d}",
        agent="agent",
        family=None,
        task=task,
        began_at=_START + timedelta(minutes=number),
        catalog=CATALOG,
        servers=frozenset({tool.partition(".")[0]}),
        reward=0.5,
        advantage=advantage,
    )
    shown = ("files.read", "weather.now", "mail.search", "music.play", "weather.forecast", "files.write")
    return RankingRow(
        id=f"step-{number:04d}",
        origin=origin,
        query=text,
        policy="fused",
        adapter=None,
        candidates=tuple((name, 1.0 - place / 10) for place, name in enumerate(shown)),
        shown=shown[:5],
        propensities=None,
        order_propensity=None,
        used=(Used(tool=tool, ok=ok, credit=credit, shown=tool in shown[:5]),),
        advantage=advantage,
        weight=weight,
    )


def log(count: int, seed: int, bad: float = 0.0) -> list[RankingRow]:
    """`count` rows; in a part `bad` of them the agent used another tool, and it came out badly."""
    random = Random(seed)
    tools = sorted(ASKED)
    rows: list[RankingRow] = []
    for number in range(count):
        tool = tools[number % len(tools)]
        text = query(tool, random)
        wrong = random.random() < bad
        used = random.choice([other for other in tools if other != tool]) if wrong else tool
        rows.append(row(seed * 10_000 + number, text, used, advantage=-1.5 if wrong else 0.5))
    return rows
