"""The broker's socket in the file system: who can reach it, and that it is never taken from a broker that lives.

Above: commands/broker.py. Below: files.py.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from proxy.errors import ConfigurationError
from proxy.files import PRIVATE, lock_file, try_lock

BACKLOG = 128


@contextmanager
def listening(path: Path, group: int | None) -> Generator[socket.socket]:
    """A Unix socket for this user alone, or for a group too; the file is gone at the end.

    Raises:
        ConfigurationError: It cannot be there, or another broker listens.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        raise ConfigurationError("the broker runs on Linux only: elsewhere a socket does not tell who connects")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The lock ends with its process; a socket that is left says nothing about who listens.
        with lock_file(path.with_name(f"{path.name}.lock")) as lock:
            if not try_lock(lock):
                raise ConfigurationError(f"another broker listens at {path}: stop it, or choose another --socket")
            with _bound(path, group) as listener:
                yield listener
    except OSError as error:
        raise ConfigurationError(f"the broker cannot listen at {path}: {error.strerror or error}") from error


@contextmanager
def _bound(path: Path, group: int | None) -> Generator[socket.socket]:
    """Raises OSError and ConfigurationError."""
    if os.path.lexists(path):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigurationError(f"{path} is there and is no socket: choose another --socket")
        path.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        # Of a socket without a name, Linux takes this over to the file: it is closed to others from the first moment.
        os.fchmod(listener.fileno(), PRIVATE)
        listener.bind(str(path))
        try:
            if group is not None:
                os.chown(path, -1, group)
                path.chmod(0o660)
            listener.listen(BACKLOG)
            yield listener
        finally:
            path.unlink(missing_ok=True)
