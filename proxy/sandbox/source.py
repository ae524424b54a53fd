"""Where a backend's containers come from: an engine that this process reaches itself, or a broker that has it.

Above: container.py and docker.py. Below: engine_source.py here, and broker/client.py. Whoever asks for a container says
nothing about it: image, limits and flags are the source's own, fixed before the first one.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Started:
    """A running container and the socket of its standard streams, in the engine's wrapping. `close` ends the socket and
    whatever holds it, and with it the container, whose supervisor reads the end of its input."""

    id: str
    socket: socket.socket
    close: Callable[[], None]


@dataclass(frozen=True, slots=True)
class State:
    """Of a container that is still known to the engine."""

    running: bool
    out_of_memory: bool
    exit_code: int


class Source(Protocol):
    """Use inside `async with source.running()`; at its end all containers that are left are ended."""

    @property
    def name(self) -> str:
        """What is gone when this fails, such as "the Docker engine"."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """May be entered again after its end. Raises SandboxError."""
        ...

    async def start(self) -> Started:
        """A container whose interpreter may still be starting. Cancelled, it waits for what has begun.

        Raises:
            SandboxError: None can be started now.
        """
        ...

    async def fate(self, container: str) -> State | None:
        """How a container is whose streams have ended: `running` if it did not end soon after them, None if nothing is
        known of it any more.

        Raises:
            SandboxError: The source is gone.
        """
        ...

    async def remove(self, container: str) -> None:
        """End and forget a container; one that is gone already is no error.

        Raises:
            SandboxError: The source is gone, or cannot.
        """
        ...
