"""Takes records from the pipe into the journal, however slow the database is, and acknowledges them.

Above: writer.py runs it in a thread of its own. Below: rows.py, journal.py, streams.py for the counters.
"""

from __future__ import annotations

import json
import logging
import os
import select
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from proxy.store.journal import Journal, Position, framed
from proxy.store.records import line_of
from proxy.store.rows import Record, Rows
from proxy.store.streams import Counters

logger = logging.getLogger("toolatlas.log")

CHUNK_BYTES = 64 << 10
"""Worked on between two looks at the clock."""
SYNC_S = 0.02
"""Between two waits for the disk: what comes meanwhile goes together."""
RETRY_S = 0.25


class _GivenUp(Exception):
    """The gateway is gone, and what it sent last cannot be written."""


class Intake:
    """Reads `source` to its end.

    Args:
        limit_bytes: Of the journal; when it is full, nothing is taken until some of it is in the database.
        told: Called when something became durable, and when there is a problem or none any more.
        patience_s: How long what came last is tried to be written after the other end of the pipe is closed.
    """

    def __init__(
        self,
        source: int,
        rows: Rows,
        journal: Journal,
        counters: Counters,
        *,
        limit_bytes: int,
        patience_s: float,
        told: Callable[[], None],
    ) -> None:
        self._source = source
        self._rows = rows
        self._journal = journal
        self._counters = counters
        self._limit_bytes = limit_bytes
        self._patience_s = patience_s
        self._told = told
        self._rest: list[bytes] = []
        self._last_seq = counters.acknowledged
        self._lines = 0
        self.taken = 0
        """Lines of the pipe that are durable."""
        self.marks: deque[tuple[Position, int]] = deque()
        """How many had been taken at which place of the journal."""
        self.problem: str | None = None
        self.complete = False
        """The gateway said that no more comes."""
        self.ended = False

    def run(self) -> None:
        """Returns when the other end of the pipe is closed, and all that came is durable or cannot be.

        Raises:
            OSError: What was written cannot be made durable.
        """
        with suppress(_GivenUp):
            self._run()
        self.ended = True
        self._told()

    def _run(self) -> None:
        synced = 0.0
        unsynced = False
        while True:
            wait_s = max(0.0, synced + SYNC_S - time.monotonic()) if unsynced else None
            if select.select([self._source], [], [], wait_s)[0]:
                if not (chunk := os.read(self._source, CHUNK_BYTES)):
                    break
                if lines := self._split(chunk):
                    self._append(lines)
                    unsynced = True
            if unsynced and time.monotonic() >= synced + SYNC_S:
                synced = time.monotonic()
                self._sync()
                unsynced = False
        if unsynced:
            self._sync()

    def _split(self, chunk: bytes) -> list[bytes]:
        """Whole lines; a part of one waits for the rest, and counts for nothing if that never comes."""
        whole, end, rest = chunk.rpartition(b"\n")
        if not end:
            self._rest.append(chunk)
            return []
        lines = b"".join((*self._rest, whole)).split(b"\n")
        self._rest = [rest]
        return lines

    def _append(self, lines: list[bytes]) -> None:
        kept: list[bytes] = []
        header = framed(line_of({"kind": "segment", "after": self._last_seq})[:-1])
        for line in lines:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                # Its number is missing then, and that is found when the next one comes into the tables.
                logger.error("a record of %d bytes came that is no JSON", len(line))
                continue
            if record["kind"] == "end":
                self.complete = True
                continue
            kept.append(framed(line_of(self._made(record))[:-1]))
            self._last_seq = max(self._last_seq, record.get("seq", 0), record.get("last", 0))
        self._lines += len(lines)
        self._until_done(lambda: self._journal.append(header, kept) if kept else None)

    def _made(self, record: Record) -> Record:
        try:
            return self._rows.of(record)
        except Exception as error:
            # A bug of ours or of a library's, met by one record: it must not stop all others.
            return {
                "kind": "gap",
                "first": record.get("seq", 0),
                "last": record.get("seq", 0),
                "reason": "refused",
                "error": type(error).__name__,
            }

    def _sync(self) -> None:
        # No second try: after a failure, the system may say that all is well while some of it is lost. The next writer
        # is sent what was not acknowledged.
        self._journal.sync()
        self._counters.acknowledged = max(self._counters.acknowledged, self._last_seq)
        self.taken = self._lines
        self.marks.append((self._journal.durable, self.taken))
        self._told()

    def _until_done(self, work: Callable[[], None]) -> None:
        """Write once there is room. Meanwhile the pipe fills, then the gateway's memory, and then the gateway counts
        what it cannot keep."""
        deadline: float | None = None
        while True:
            try:
                full = self._journal.waiting_bytes > self._limit_bytes
                if not full:
                    work()
                    self._tell(None)
                    return
                self._tell(f"the journal holds {self._limit_bytes} bytes that the database has not taken")
            except OSError as error:
                self._tell(f"the journal cannot be written: {error.strerror}")
            if self._closed():
                deadline = deadline or time.monotonic() + self._patience_s
                if time.monotonic() > deadline:
                    raise _GivenUp
            time.sleep(RETRY_S)

    def _tell(self, problem: str | None) -> None:
        if problem != self.problem:
            self.problem = problem
            self._told()

    def _closed(self) -> bool:
        """Whether the gateway is gone; what it sent before may still be in the pipe."""
        poll = select.poll()
        poll.register(self._source, select.POLLHUP)
        return bool(poll.poll(0))
