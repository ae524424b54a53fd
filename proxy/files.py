"""Files that several processes share: replaced in one step, so that no reader sees half of one and no crash leaves half
of one; told apart when they changed; and locked.

Below nothing of ours; the callers say in their own words what it means when a file cannot be written.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

PRIVATE = 0o600


def replace_file(path: Path, content: bytes, *, mode: int = PRIVATE, durable: bool = True) -> None:
    """Put `content` in the place of `path`, making its folder if need be.

    `durable` waits until it is on the disk; what can be made anew need not be.

    Raises:
        OSError: It cannot be written; what was there is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # Mode 0600 until it is complete.
    try:
        with open(handle, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if mode != PRIVATE:
            os.chmod(draft, mode)
        os.replace(draft, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise


def make_file_once(path: Path, content: bytes) -> None:
    """Put `content` at `path`, private, unless something is there already: whoever was first stays.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    replace_file(draft, content)
    try:
        # A link is never put in the place of a file that is there, as a rename would be.
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def stamp_of(status: os.stat_result) -> tuple[int, int, int]:
    """Differs after each write by `replace_file`."""
    # Each write is a new file, so the inode tells two writes within one tick of the clock apart.
    return status.st_mtime_ns, status.st_ino, status.st_size


@contextmanager
def lock_file(path: Path) -> Generator[int]:
    """The descriptor of a private file to lock; closing it, in the end, gives the lock back.

    Raises:
        OSError: It cannot be opened.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        yield lock
    finally:
        os.close(lock)


@contextmanager
def locked(path: Path) -> Generator[int]:
    """Hold off every other process that locks `path`, waiting for one that does. Raises as `lock_file` does."""
    with lock_file(path) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def try_lock(lock: int) -> bool:
    """Lock a descriptor of `lock_file` if nobody holds it now."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
