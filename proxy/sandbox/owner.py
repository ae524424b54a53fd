"""Which gateway a container belongs to, and whether that gateway still lives.

Above: docker.py. Below: a folder in the gateway's state, with a file that names the owner of all containers of that
folder and one locked file for each living gateway. Locks end with their process, however it ends, and no process id
can be mistaken for another's.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from proxy.errors import SandboxError
from proxy.files import locked

NAME = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Owner:
    """A living gateway. `id` is shared by all gateways of one state folder, `gateway` is this one's alone."""

    folder: Path
    id: str
    gateway: str

    def left_behind(self, gateway: str) -> bool:
        """Whether the gateway of that name, out of a container's label, lives no more. Never true of this one."""
        if gateway == self.gateway:
            return False
        if not NAME.fullmatch(gateway):
            return True
        path = _lock_of(self.folder, gateway)
        try:
            lock = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(lock)
        path.unlink(missing_ok=True)
        return True


@contextmanager
def owning(folder: Path) -> Generator[Owner]:
    """Be a living gateway of that folder.

    Raises:
        SandboxError: The folder cannot be written.
    """
    gateway = secrets.token_hex(8)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        owner = _owner(folder / "owner")
        lock = _locked(_lock_of(folder, gateway))
    except OSError as error:
        raise SandboxError(f"the sandbox cannot use {folder}: {error.strerror}; make it writable") from error
    try:
        yield Owner(folder, owner, gateway)
    finally:
        _lock_of(folder, gateway).unlink(missing_ok=True)
        os.close(lock)


def _owner(path: Path) -> str:
    """The name in the file; a new one, made by whoever comes first."""
    with locked(path) as file:
        name = os.read(file, 64).decode("ascii", "replace")
        if not NAME.fullmatch(name):
            name = secrets.token_hex(8)
            os.ftruncate(file, 0)
            os.pwrite(file, name.encode(), 0)
        return name


def _locked(path: Path) -> int:
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another gateway that looked before the lock was there took the file for a dead one's, and away.
        if path.exists() and path.stat().st_ino == os.fstat(lock).st_ino:
            return lock
        os.close(lock)


def _lock_of(folder: Path, gateway: str) -> Path:
    return folder / f"{gateway}.alive"
