"""Reads exported lines back into the tables.

Above: commands/episodes.py. Below: parsing.py and database.py. Importing the same again adds nothing; an episode that
has gone on since adds what is new. A bad line is reported and nothing of it is written; all other lines are. What a
file says is taken as it is: it is not redacted again, and an episode that was deleted here comes back with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import InstrumentedAttribute

from proxy.store.database import Database, is_outage
from proxy.store.parsing import BadLine, Line, LineParser, Row
from proxy.store.tables import (
    AttachmentRow,
    Base,
    CallRow,
    DecisionRow,
    DefinitionRow,
    EndingRow,
    EpisodeRow,
    GapRow,
    JudgementRow,
    LabelRow,
    RubricRow,
    RubricSourceRow,
    ShadowRow,
    SnapshotRow,
    StepRow,
    StreamRow,
)

LINES_AT_ONCE = 200
ROWS_AT_ONCE = 5_000
"""Written in one transaction, unless one line has more."""
IDS_AT_ONCE = 2_000

# What others refer to comes first.
_ORDER: tuple[type[Base], ...] = (
    StreamRow,
    GapRow,
    DefinitionRow,
    SnapshotRow,
    RubricRow,
    RubricSourceRow,
    AttachmentRow,
    EpisodeRow,
    StepRow,
    CallRow,
    DecisionRow,
    ShadowRow,
    EndingRow,
    JudgementRow,
    LabelRow,
)


@dataclass(frozen=True, slots=True)
class Refused:
    """A line of which nothing was written."""

    line: int
    """Counted from 1."""
    why: str


@dataclass(slots=True)
class Imported:
    """What came of a file."""

    episodes: int = 0
    """Episodes that were new here."""
    steps: int = 0
    """Steps that were new here."""
    known: int = 0
    """Episodes that were here already, some with something new."""
    refused: list[Refused] = field(default_factory=list[Refused])


async def import_lines(database: Database, lines: Iterable[bytes]) -> Imported:
    """Add what the lines of an export say, some hundred lines in a transaction.

    Raises:
        SQLAlchemyError: The database fails. What was imported until then stays; import the file again.
    """
    done = Imported()
    for batch in _batches(_parsed(lines, done)):
        try:
            await _write(database, [line for _, line in batch], done)
        except (BadLine, DBAPIError) as error:
            if isinstance(error, DBAPIError) and is_outage(error):
                raise
            # One of them cannot be taken. Nothing of the batch was written, so that each can be tried alone.
            for number, line in batch:
                await _write_alone(database, number, line, done)
    done.refused.sort(key=lambda refused: refused.line)
    return done


def _parsed(lines: Iterable[bytes], done: Imported) -> Iterator[tuple[int, Line]]:
    parser = LineParser()
    for number, raw in enumerate(lines, 1):
        if not raw.strip():
            continue
        try:
            yield number, parser.parse(raw)
        except BadLine as error:
            done.refused.append(Refused(number, str(error)))


def _batches(lines: Iterable[tuple[int, Line]]) -> Iterator[list[tuple[int, Line]]]:
    batch: list[tuple[int, Line]] = []
    count = 0
    for numbered in lines:
        rows = sum(map(len, numbered[1].rows.values()))
        if batch and (len(batch) == LINES_AT_ONCE or count + rows > ROWS_AT_ONCE):
            yield batch
            batch, count = [], 0
        batch.append(numbered)
        count += rows
    if batch:
        yield batch


async def _write_alone(database: Database, number: int, line: Line, done: Imported) -> None:
    try:
        await _write(database, [line], done)
    except BadLine as error:
        done.refused.append(Refused(number, str(error)))
    except DBAPIError as error:
        if is_outage(error):
            raise
        done.refused.append(Refused(number, f"the database refuses it: {error.driver_exception}"))


async def _write(database: Database, lines: Sequence[Line], done: Imported) -> None:
    """All of `lines` in one transaction, or nothing.

    Raises:
        BadLine: Something in them contradicts what is there.
    """
    rows: dict[type[Base], list[Row]] = {table: [] for table in _ORDER}
    for line in lines:
        for table, each in line.rows.items():
            rows[table] += each
    new: dict[type[Base], int] = {}
    async with database.writing() as connection:
        await _check_rubrics(connection, rows)
        rows[AttachmentRow] = await _later_attachments(connection, rows[AttachmentRow])
        rows[JudgementRow] = await _not_judged_here(connection, rows[JudgementRow])
        for table in _ORDER:
            new[table] = await database.add(connection, table, rows[table])
        await _check_episodes(connection, rows[EpisodeRow])
        for table in (StepRow, JudgementRow, LabelRow):
            await _check_owners(connection, table, rows[table])
    done.episodes += new[EpisodeRow]
    done.steps += new[StepRow]
    done.known += len(rows[EpisodeRow]) - new[EpisodeRow]


async def _check_rubrics(connection: AsyncConnection, rows: dict[type[Base], list[Row]]) -> None:
    named = {row["rubric_hash"] for row in rows[JudgementRow]} - {row["hash"] for row in rows[RubricRow]}
    for hash in named - {hash for (hash,) in await _among(connection, (RubricRow.hash,), named)}:
        raise BadLine(f"judgements: their rubric {hash} is neither here nor in a line before")


async def _later_attachments(connection: AsyncConnection, attachments: Sequence[Row]) -> list[Row]:
    """Those that are later than what is attached here at the same place: the one written last counts, and a file must
    not undo what was decided since."""
    later: list[Row] = []
    for row in sorted(attachments, key=lambda row: row["attached_at"]):
        target = AttachmentRow.target
        same = target.is_(None) if row["target"] is None else target == row["target"]
        known = select(AttachmentRow.id).where(
            AttachmentRow.scope == row["scope"], same, AttachmentRow.attached_at >= row["attached_at"]
        )
        if (await connection.execute(known.limit(1))).first() is None:
            later.append(row)
    return later


async def _not_judged_here(connection: AsyncConnection, judged: Sequence[Row]) -> list[Row]:
    """Without those that this judge has given here, too, under ids of their own."""
    key = JudgementRow.episode_id, JudgementRow.rubric_hash, JudgementRow.judge, JudgementRow.repeat
    here = await _among(connection, (*key, JudgementRow.id), {row["episode_id"] for row in judged})
    ids = {tuple(row[:-1]): row.id for row in here}
    return [row for row in judged if ids.get(tuple(row[each.key] for each in key), row["id"]) == row["id"]]


async def _check_episodes(connection: AsyncConnection, episodes: Sequence[Row]) -> None:
    columns = EpisodeRow.id, EpisodeRow.stream, EpisodeRow.began_at
    found = {row.id: row for row in await _among(connection, columns, [row["id"] for row in episodes])}
    for row in episodes:
        here = found[row["id"]]
        if (here.stream, here.began_at) != (row["stream"], row["began_at"]):
            raise BadLine(f"id: another episode here is {row['id']}, of {here.began_at.isoformat()}")


async def _check_owners(
    connection: AsyncConnection, table: type[StepRow] | type[JudgementRow] | type[LabelRow], rows: Sequence[Row]
) -> None:
    """What was not added was there, as the same thing of the same episode."""
    found = await _among(connection, (table.id, table.episode_id), [row["id"] for row in rows])
    owners = {row.id: row.episode_id for row in found}
    for row in rows:
        if owners.get(row["id"]) != row["episode_id"]:
            raise BadLine(
                f"{table.__tablename__}: {row['id']} cannot be added to {row['episode_id']}: "
                "another one has its id, or its number in the stream"
            )


async def _among(
    connection: AsyncConnection, columns: Sequence[InstrumentedAttribute[Any]], values: Collection[str]
) -> list[Any]:
    """These columns of the rows whose first one is among `values`."""
    wanted = list(values)
    found: list[Any] = []
    for start in range(0, len(wanted), IDS_AT_ONCE):
        some = wanted[start : start + IDS_AT_ONCE]
        found += (await connection.execute(select(*columns).where(columns[0].in_(some)))).all()
    return found
