"""The folder of one stream: the lock that says whose it is, how far its numbers went, and its journal.

Above: recording.py makes one for each run of a gateway; adopting.py takes those that nobody holds. Below: files.py.

A gateway and its writer share one lock, which is held as long as either lives. The counters are a file mapped into
memory, so that they survive any end of the processes, `kill -9` included; a power cut may put them back.
"""

from __future__ import annotations

import json
import mmap
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from proxy.errors import ConfigurationError
from proxy.files import PRIVATE, lock_file, locked, replace_file, try_lock

_LOCK = "lock"
_COUNTERS = "counters"
_ABOUT = "about.json"


class Counters:
    """`assigned`: the highest number given to a step. `acknowledged`: the highest so that it and all before it are in
    the journal for good, or known there as missing."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        try:
            os.ftruncate(file, 16)
            self._map = mmap.mmap(file, 16)
        finally:
            os.close(file)
        # Each store is one of 8 bytes, so that no kill leaves half of a number.
        self._numbers = memoryview(self._map).cast("Q")

    @property
    def assigned(self) -> int:
        return self._numbers[0]

    @assigned.setter
    def assigned(self, number: int) -> None:
        self._numbers[0] = number

    @property
    def acknowledged(self) -> int:
        return self._numbers[1]

    @acknowledged.setter
    def acknowledged(self, number: int) -> None:
        self._numbers[1] = number

    def close(self) -> None:
        self._numbers.release()
        self._map.close()


class StreamFolder:
    """One stream's folder, for a process that holds its lock."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.id = path.name
        self.lock = lock
        """Descriptor that holds the lock; to be passed on to the writer."""

    @classmethod
    def create(cls, where: Path, *, replica: str, version: str) -> Self:
        """A new one below `where`, locked.

        Raises:
            ConfigurationError: It cannot be made.
        """
        now = datetime.now(UTC)
        path = where / f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(6)}"
        about = {"replica": replica, "version": version, "began_at": now.isoformat()}
        try:
            where.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Nobody looks for abandoned streams before this one has its lock.
            with locked(where / _LOCK):
                path.mkdir(mode=0o700)
                replace_file(path / _ABOUT, json.dumps(about).encode())
                lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
                if not try_lock(lock):
                    raise AssertionError("a new folder is nobody else's")
        except OSError as error:
            raise ConfigurationError(
                f"the log's journal in {where} cannot be begun: {error.strerror}; mend the folder, or choose another"
            ) from error
        return cls(path, lock)

    def about(self) -> dict[str, Any]:
        """`replica`, `version` and `began_at` of the gateway.

        Raises:
            OSError: It cannot be read.
        """
        return json.loads((self.path / _ABOUT).read_bytes())

    def counters(self) -> Counters:
        """Raises OSError."""
        return Counters(self.path / _COUNTERS)

    def remove(self) -> None:
        """All of it is in the tables. What cannot be removed stays, and is tried again by whoever finds it."""
        with suppress(OSError):
            for path in self.path.iterdir():
                if path.name != _ABOUT:
                    path.unlink()
            # Last, since by this it is known as a stream's folder.
            (self.path / _ABOUT).unlink()
            self.path.rmdir()

    def close(self) -> None:
        """Give the lock back, unless another process holds it with us."""
        os.close(self.lock)


def abandoned(where: Path) -> Iterator[StreamFolder]:
    """Folders of streams whose gateway and writer are gone, each locked until the next is asked for.

    Raises:
        OSError: `where` cannot be read.
    """
    for path in sorted(path.parent for path in where.glob(f"*/{_ABOUT}")):
        with suppress(FileNotFoundError), lock_file(path / _LOCK) as lock:
            with locked(where / _LOCK):
                # Whoever had it before may have removed it.
                taken = try_lock(lock) and path.exists() and (path / _LOCK).stat().st_ino == os.fstat(lock).st_ino
            if taken:
                yield StreamFolder(path, lock)
