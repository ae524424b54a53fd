"""The socket of a host: who can reach it, and that there is one host at it.

Above: commands/host.py. Whoever reaches it is still asked for its user (host.py); the mode keeps others from asking.
"""

from __future__ import annotations

import grp
import os
import socket
from collections.abc import AsyncGenerator, Set
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import Listener, SocketStream

from proxy.errors import ConfigurationError

PRIVATE, FOR_THE_GROUP, FOR_ALL = 0o600, 0o660, 0o666
PROBE_S = 2.0


@asynccontextmanager
async def listening(path: Path, allowed: Set[int], group: str | None) -> AsyncGenerator[Listener[SocketStream]]:
    """Listen at `path`, which goes away again after the block. With a group its members can connect, without one
    everybody if other users than our own are allowed.

    Raises:
        ConfigurationError: The socket cannot be made there, or another host listens there.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        raise ConfigurationError("a host of servers needs Linux: other systems do not tell it who connects")
    if _answers(path):
        raise ConfigurationError(f"another host listens at {path} already: end it, or give --socket another path")
    mode = FOR_THE_GROUP if group is not None else PRIVATE if allowed <= {os.geteuid()} else FOR_ALL
    gid = _number(group) if group is not None else -1
    try:
        listener = await anyio.create_unix_listener(path, mode=PRIVATE)
    except OSError as error:
        raise ConfigurationError(f"cannot listen at {path}: {error.strerror or error}") from error
    try:
        try:
            os.chown(path, -1, gid)
            os.chmod(path, mode)
        except OSError as error:
            raise ConfigurationError(f"cannot open {path} to those who may connect: {error.strerror}") from error
        yield listener
    finally:
        await listener.aclose()
        with suppress(OSError):
            os.unlink(path)


def _answers(path: Path) -> bool:
    """A socket without a host, left behind by one that was killed, refuses us."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PROBE_S)
        try:
            probe.connect(str(path))
        except TimeoutError:
            return True
        except OSError:
            return False
    return True


def _number(group: str) -> int:
    if group.isdecimal():
        return int(group)
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise ConfigurationError(f"--group is the name or the number of a group here, which {group!r} is not") from None
