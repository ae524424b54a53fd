"""The journal of one stream: lines with checksums in files of a few megabytes, durable before they are acknowledged.

Above: intake.py appends, shipping.py reads and discards, each in its own thread. Below: files.py.
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from proxy.files import PRIVATE

SEGMENT_BYTES = 4 << 20
_SUFFIX = ".journal"


class Position(NamedTuple):
    """A place between two lines."""

    segment: int
    offset: int


@dataclass(slots=True)
class Batch:
    """Consecutive records, and where the next one begins."""

    end: Position
    records: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    damaged: int = 0
    """Lines that were left out because a crash or the disk damaged them."""


def framed(record: bytes) -> bytes:
    """A line of the journal; `record` is JSON and holds no line feed."""
    return b"%08x %s\n" % (zlib.crc32(record), record)


class Journal:
    """Opening it keeps what is there; new lines always go into a new file, so that what a crash left is not touched."""

    def __init__(self, folder: Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._mutex = threading.Lock()
        self._sizes = {number: path.stat().st_size for number, path in _segments(folder)}
        self._file = -1
        first = min(self._sizes, default=1)
        self._current = max(self._sizes, default=0) + 1
        self._read_to = Position(first, 0)
        self._durable = Position(self._current, 0)

    @property
    def durable(self) -> Position:
        """What is before it survives any crash, and may be read."""
        return self._durable

    @property
    def waiting_bytes(self) -> int:
        """What was appended and not discarded yet."""
        with self._mutex:
            return sum(self._sizes.values()) - self._read_to.offset

    def append(self, header: bytes, lines: Sequence[bytes]) -> None:
        """Write framed lines, and before the first of a new file `header`.

        Raises:
            OSError: None of them is kept; the next try begins a new file.
        """
        with self._mutex:
            if self._sizes.get(self._current, 0) >= self._segment_bytes:
                self._begin_next()
            if self._file < 0:
                self._open()
            before = self._sizes[self._current]
            content = memoryview(b"".join(lines if before else [header, *lines]))
            try:
                while content:
                    content = content[os.write(self._file, content) :]
            except OSError:
                os.ftruncate(self._file, before)
                if before:
                    self._begin_next()
                raise
            self._sizes[self._current] = os.fstat(self._file).st_size

    def sync(self) -> None:
        """Make durable what was appended.

        Raises:
            OSError: Some of it may be lost, whatever a second call says.
        """
        with self._mutex:
            file, end = self._file, Position(self._current, self._sizes.get(self._current, 0))
            if file < 0:
                return
            os.fdatasync(file)
            self._durable = end

    def discard(self, upto: Position, *, idle: bool = False) -> None:
        """All before `upto` is not needed any more: remove the files of which nothing else is left; the one that is
        appended to only if `idle`, since a new one takes the disk's time."""
        with self._mutex:
            self._read_to = upto
            written = self._sizes.get(self._current, 0)
            if idle and written and upto == Position(self._current, written):
                self._leave()
                self._read_to = self._durable
            for number in [number for number in self._sizes if number < self._read_to.segment]:
                _path(self._folder, number).unlink(missing_ok=True)
                del self._sizes[number]

    def read(self, start: Position | None, limit_bytes: int) -> Batch:
        """Durable records from `start` on, or from the beginning; about `limit_bytes` of them at most. Blocks.

        Raises:
            OSError: It cannot be read.
        """
        durable = self._durable
        place = start if start is not None else self._read_to
        batch = Batch(end=place)
        while limit_bytes > 0 and place < durable:
            known = place.segment in self._sizes
            last = place.segment == durable.segment
            content = _read(_path(self._folder, place.segment), place.offset, limit_bytes) if known else b""
            if last:
                content = content[: durable.offset - place.offset]
            if not content:
                place = batch.end = durable if last else Position(place.segment + 1, 0)
                continue
            whole = content.rfind(b"\n") + 1
            # A line that is longer than was read, or half a line that a crash left.
            if not whole:
                if len(content) == limit_bytes:
                    limit_bytes *= 2
                    continue
                whole = len(content)
            for line in content[:whole].removesuffix(b"\n").split(b"\n"):
                if (record := _record(line)) is not None:
                    batch.records.append(record)
                else:
                    batch.damaged += 1
            limit_bytes -= whole
            place = batch.end = Position(place.segment, place.offset + whole)
        return batch

    def close(self) -> None:
        with self._mutex:
            self._close_file()

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self) -> None:
        self._file = os.open(
            _path(self._folder, self._current), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE
        )
        self._sizes[self._current] = os.fstat(self._file).st_size
        folder = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _begin_next(self) -> None:
        """What was appended so far is synced first: later only the next file is."""
        if self._file >= 0:
            os.fdatasync(self._file)
        self._leave()

    def _leave(self) -> None:
        self._close_file()
        self._current += 1
        self._durable = Position(self._current, 0)


def _segments(folder: Path) -> list[tuple[int, Path]]:
    return sorted((int(path.stem), path) for path in folder.glob(f"*{_SUFFIX}") if path.stem.isdecimal())


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:012d}{_SUFFIX}"


def _read(path: Path, offset: int, limit: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(limit)


def _record(line: bytes) -> dict[str, Any] | None:
    """None for a line that is not as it was written."""
    try:
        if int(line[:8], 16) != zlib.crc32(line[9:]):
            return None
        return cast("dict[str, Any]", json.loads(line[9:]))
    except ValueError:
        return None
