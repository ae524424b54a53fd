"""Brings one journal into the tables, in order, and says which numbers are missing in it.

Above: writer.py for the stream that is being written, adopting.py for those that were left. Below: journal.py,
inserting.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import anyio.to_thread
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, StatementError

from proxy.store.inserting import Inserter, Record
from proxy.store.journal import Journal, Position

logger = logging.getLogger("toolatlas.log")

BATCH_BYTES = 1 << 20
"""Of the journal, about; one transaction each."""


class Shipper:
    """Reads a journal from its beginning. What it brought before is brought again, which changes nothing."""

    def __init__(self, journal: Journal, inserter: Inserter) -> None:
        self._journal = journal
        self._inserter = inserter
        self.place: Position | None = None
        """All before it is in the tables."""
        self.last_seq = 0
        """The highest number that was there, or is known to be missing."""
        self._any = False

    async def ship(self) -> bool:
        """One batch; whether there was one.

        Raises:
            Exception: The database's error: nothing of this batch is in the tables, and the next call tries it again.
        """
        batch = await anyio.to_thread.run_sync(self._journal.read, self.place, BATCH_BYTES)
        if batch.damaged:
            logger.warning("%d damaged lines in the journal of the log were left out", batch.damaged)
        if not batch.records:
            self.place = batch.end
            return False
        numbers = _Numbers(self.last_seq if self._any else None)
        await self._insert([*numbers.with_gaps(batch.records)])
        self._any, self.last_seq, self.place = True, numbers.last or 0, batch.end
        self._journal.discard(batch.end)
        return True

    async def _insert(self, records: Sequence[Record]) -> None:
        """All of them, but for those that the database refuses for what they are."""
        try:
            await self._inserter.insert(records)
        except Exception as error:
            if not _is_refusal(error):
                raise
            if len(records) > 1:
                half = len(records) // 2
                await self._insert(records[:half])
                await self._insert(records[half:])
                return
            logger.error("a record (%s) cannot be written: %s", _name(records[0]), type(error).__name__)
            if (seq := records[0].get("seq")) is not None:
                await self._inserter.insert([_gap(seq, seq, "refused")])


class _Numbers:
    """The numbers of a stream as they come by. `last`: None before the first is known."""

    def __init__(self, last: int | None) -> None:
        self.last = last

    def with_gaps(self, records: Sequence[Record]) -> Iterator[Record]:
        """The same records without those about the journal itself, and before each jump the gap."""
        for record in records:
            kind = record["kind"]
            if kind in ("segment", "step", "gap"):
                first, last = _span(record)
                if self.last is not None and first > self.last + 1:
                    yield _gap(self.last + 1, first - 1, "damaged")
                self.last = max(self.last or 0, last)
            if kind == "gap" and not record["first"]:
                logger.error("a record that is no step could not be written: %s", record.get("error"))
            elif kind != "segment":
                yield record


def _span(record: Record) -> tuple[int, int]:
    if record["kind"] == "step":
        return record["seq"], record["seq"]
    if record["kind"] == "gap":
        return record["first"], record["last"]
    return record["after"] + 1, record["after"]


def _gap(first: int, last: int, reason: str) -> dict[str, Any]:
    return {"kind": "gap", "first": first, "last": last, "reason": reason}


def _name(record: Record) -> str:
    return f"step {record['seq']}" if record["kind"] == "step" else record["kind"]


def _is_refusal(error: Exception) -> bool:
    """Whether the database will never take a record, however often it is tried."""
    if not isinstance(error, DBAPIError):
        # A value that no driver can take, or a record that lacks something.
        return isinstance(error, StatementError | ValueError | TypeError | KeyError | OverflowError)
    if isinstance(error, IntegrityError | DataError):
        return True
    cause = error.orig.__cause__ if error.orig is not None else None
    state = str(getattr(cause, "sqlstate", None) or getattr(error.orig, "sqlstate", None) or "")
    return state[:2] in ("22", "23") or isinstance(cause, ValueError)
