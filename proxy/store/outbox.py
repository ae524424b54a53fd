"""What a gateway has recorded and its writer has not made durable yet, in order and bounded.

Above: recording.py puts in, feeding.py takes out. Below: records.py. Nothing here waits.
"""

from __future__ import annotations

from collections import deque
from itertools import chain

from proxy.store.records import gap_record

ASIDE_BYTES = 32 << 10
"""Of lines put aside that the writer has at a time: a step that comes meanwhile waits for no more."""


class Outbox:
    """Lines for the writer. What it took and did not acknowledge is kept, to be sent again to the next one.

    Args:
        limit_bytes: Of all lines that are kept. Steps that do not fit are left out, and the gap becomes a line itself.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._queued: deque[bytes] = deque()
        self._aside: deque[bytes] = deque()
        self._sent: deque[bytes] = deque()
        self._bytes = 0
        self._sent_bytes = 0
        self._gap: tuple[int, int] | None = None
        self._full = False
        self.dropped = 0
        """Steps that were left out."""
        self.put_total = 0
        self.sent_total = 0
        """Lines taken by writers, those sent again counted once."""
        self.acknowledged_total = 0
        self.aside_bytes = 0
        """Of lines put aside that were not taken yet."""

    @property
    def waiting_bytes(self) -> int:
        return self._bytes

    @property
    def all_sent(self) -> bool:
        return not self._queued and not self._aside and self._gap is None

    @property
    def all_acknowledged(self) -> bool:
        return self.all_sent and not self._sent

    @property
    def queued(self) -> int:
        """Lines not taken yet, those put aside left out."""
        return len(self._queued)

    def put_step(self, line: bytes, seq: int) -> None:
        # Once it was full, half of the room has to be free again: a gap for every second step would help nobody.
        limit = self._limit_bytes // 2 if self._full else self._limit_bytes
        if self._bytes and self._bytes + len(line) > limit:
            self.leave_out(seq)
            return
        self._close_gap()
        self._put(line)

    def leave_out(self, seq: int) -> None:
        """Step `seq` cannot be written."""
        self._full = True
        self.dropped += 1
        self._gap = (self._gap[0] if self._gap is not None else seq, seq)

    def put(self, line: bytes) -> None:
        """A small line that must not be missing."""
        self._put(line)

    def put_aside(self, line: bytes) -> None:
        """A line that goes when nothing else waits, and when the writer has nearly nothing to do."""
        self._aside.append(line)
        self.aside_bytes += len(line)
        self._bytes += len(line)

    def take(self, limit_bytes: int) -> bytes:
        """The next lines for the writer, at least one where there is one, otherwise about so many bytes at most."""
        if not self._queued and self._gap is not None and self._bytes <= self._limit_bytes // 2:
            self._close_gap()
        lines: list[bytes] = []
        size = 0
        source = self._queued
        if not source and self._sent_bytes < ASIDE_BYTES:
            source, limit_bytes = self._aside, ASIDE_BYTES
        while source and (not lines or size + len(source[0]) <= limit_bytes):
            line = source.popleft()
            size += len(line)
            lines.append(line)
        if source is self._aside:
            self.aside_bytes -= size
        self._sent_bytes += size
        self._sent.extend(lines)
        self.sent_total += len(lines)
        return b"".join(lines)

    def acknowledge(self, total: int) -> None:
        """So many lines are durable, counted from the beginning."""
        for _ in range(total - self.acknowledged_total):
            size = len(self._sent.popleft())
            self._bytes -= size
            self._sent_bytes -= size
        self.acknowledged_total = max(total, self.acknowledged_total)

    def rewind(self) -> None:
        """The writer is gone: what it did not acknowledge is to be sent again."""
        self.sent_total -= len(self._sent)
        self._queued = deque(chain(self._sent, self._queued))
        self._sent.clear()
        self._sent_bytes = 0

    def close(self) -> None:
        """No more steps come: a gap at the end becomes a line."""
        self._close_gap()

    def _put(self, line: bytes) -> None:
        self._queued.append(line)
        self._bytes += len(line)
        self.put_total += 1

    def _close_gap(self) -> None:
        if self._gap is not None:
            self._put(gap_record(*self._gap))
            self._gap = None
        self._full = False
