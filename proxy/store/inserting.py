"""Records of the journal become rows, each once, however often they are brought.

Above: shipping.py decides what and when. Below: database.py, tables.py, deletions.py, sums.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from proxy.store.database import Database
from proxy.store.deletions import Deletions
from proxy.store.sums import sums_of
from proxy.store.tables import (
    RENDERING,
    Base,
    CallRow,
    DecisionRow,
    DefinitionRow,
    EndingRow,
    EpisodeRow,
    GapRow,
    ShadowRow,
    SnapshotRow,
    StepRow,
    StreamRow,
    Utc,
)

Record = dict[str, Any]
_IDS_AT_ONCE = 500
"""Values of one condition; databases have limits for them."""
_TIMES: dict[type[Base], frozenset[str]] = {
    table: frozenset(column.key for column in table.__table__.columns if isinstance(column.type, Utc))
    for table in (StreamRow, EpisodeRow, StepRow, CallRow, DecisionRow, ShadowRow, DefinitionRow, SnapshotRow)
}


class Inserter:
    """Writes the records of one stream. `about`: `replica`, `version` and `began_at` of its gateway."""

    def __init__(self, database: Database, stream: str, about: Mapping[str, Any]) -> None:
        self._database = database
        self._stream = stream
        self._about = about

    async def insert(self, records: Sequence[Record]) -> None:
        """All of them or, with the database's error, none."""
        kinds: defaultdict[str, list[Record]] = defaultdict(list)
        for record in records:
            kinds[record["kind"]].append(record)
        async with self._database.writing() as connection:
            deletions = await Deletions.load(connection)
            await self._add(connection, StreamRow, [{"id": self._stream, **self._about}])
            await self._add(connection, GapRow, [self._gap(gap) for gap in kinds["gap"]])
            await self._add(connection, DefinitionRow, map(_definition, kinds["definition"]))
            for snapshot in kinds["snapshot"]:
                await self._add(connection, SnapshotRow, [await _snapshot(connection, snapshot)])
            await self._steps(connection, [step for step in kinds["step"] if not _covered(deletions, step)])
            await self._shadows(connection, [each for each in kinds["shadow"] if not _covered(deletions, each)])
            endings = [ending for ending in kinds["ending"] if not _covered(deletions, ending)]
            await self._endings(connection, {ending["episode"]["id"]: _ending(ending) for ending in endings})

    async def close(self, missing: tuple[int, int] | None) -> int:
        """The gateway is gone: write down the numbers that are missing, and end its episodes; how many these are."""
        async with self._database.writing() as connection:
            await self._add(connection, StreamRow, [{"id": self._stream, **self._about}])
            if missing is not None:
                gap = {"first": missing[0], "last": missing[1], "reason": "killed"}
                await self._add(connection, GapRow, [self._gap(gap)])
            last = func.max(StepRow.started_at)
            left_open = (
                select(EpisodeRow.id, last)
                .join(StepRow, StepRow.episode_id == EpisodeRow.id)
                .where(EpisodeRow.stream == self._stream)
                .where(EpisodeRow.id.not_in(select(EndingRow.episode_id)))
                .group_by(EpisodeRow.id)
            )
            lost = {
                episode: {"episode_id": episode, "reason": "lost", "ended_at": ended, "outcome": None, "answer": None}
                for episode, ended in (await connection.execute(left_open))
            }
            await self._endings(connection, lost)
        return len(lost)

    async def _steps(self, connection: AsyncConnection, steps: Sequence[Record]) -> None:
        episodes: dict[str, Record] = {}
        calls: list[Record] = []
        decisions: list[Record] = []
        for record in steps:
            step = record["step"]
            same = {"step_id": step["id"], "episode_id": step["episode_id"]}
            episode = {"stream": self._stream, "rendering": RENDERING, **record["episode"]}
            episodes.setdefault(step["episode_id"], episode)
            if (call := record.get("call")) is not None:
                calls.append(same | call)
            if (decision := record.get("decision")) is not None:
                decisions.append(same | decision | {"catalog": step["catalog"], "decided_at": step["started_at"]})
        await self._add(connection, EpisodeRow, episodes.values())
        await self._add(connection, StepRow, [{"stream": self._stream, **record["step"]} for record in steps])
        await self._add(connection, CallRow, calls)
        await self._add(connection, DecisionRow, decisions)

    async def _shadows(self, connection: AsyncConnection, shadows: Sequence[Record]) -> None:
        """One whose step was refused, or is deleted already, has nothing to stand beside."""
        there: set[str] = set()
        for ids in _pieces([each["step"] for each in shadows]):
            there |= set((await connection.execute(select(StepRow.id).where(StepRow.id.in_(ids)))).scalars())
        await self._add(connection, ShadowRow, [_shadow(each) for each in shadows if each["step"] in there])

    async def _endings(self, connection: AsyncConnection, endings: Mapping[str, Record]) -> None:
        """An episode of which no step was to be written has no ending either."""
        for ids in _pieces(list(endings)):
            sums = await sums_of(connection, ids)
            await self._database.add(connection, EndingRow, [endings[id] | sums[id] for id in ids if id in sums])

    async def _add(self, connection: AsyncConnection, table: type[Base], rows: Iterable[Record]) -> None:
        times = _TIMES.get(table, frozenset[str]())
        timed = [
            {name: datetime.fromisoformat(value) if name in times else value for name, value in row.items()}
            for row in rows
        ]
        await self._database.add(connection, table, timed)

    def _gap(self, gap: Record) -> Record:
        return {
            "stream": self._stream,
            "first_seq": gap["first"],
            "last_seq": gap["last"],
            "reason": gap["reason"],
            "reported_at": datetime.now(UTC),
        }


def _covered(deletions: Deletions, record: Record) -> bool:
    episode = record["episode"]
    return deletions.covers(episode["id"], episode["agent"], datetime.fromisoformat(episode["began_at"]))


def _shadow(record: Record) -> Record:
    names = ("policy", "adapter", "candidates", "decided_at")
    of_it = {"step_id": record["step"], "episode_id": record["episode"]["id"]}
    return of_it | {name: record[name] for name in names}


def _ending(record: Record) -> Record:
    return {
        "episode_id": record["episode"]["id"],
        "reason": record["reason"],
        "ended_at": datetime.fromisoformat(record["ended_at"]),
        "outcome": record["outcome"],
        "answer": record["answer"],
    }


def _definition(record: Record) -> Record:
    return {name: record[name] for name in ("hash", "server", "tool", "definition", "tokens")}


async def _snapshot(connection: AsyncConnection, record: Record) -> Record:
    tokens = 0
    for hashes in _pieces([digest for _, digest in record["tools"]]):
        found = select(func.sum(DefinitionRow.tokens)).where(DefinitionRow.hash.in_(hashes))
        tokens += (await connection.execute(found)).scalar() or 0
    names = ("hash", "taken_at", "servers", "tools", "introduction", "introduction_tokens")
    return {name: record[name] for name in names} | {"eager_tokens": tokens}


def _pieces(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[start : start + _IDS_AT_ONCE] for start in range(0, len(ids), _IDS_AT_ONCE))
