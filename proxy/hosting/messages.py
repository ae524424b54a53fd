"""What a gateway and a host say to each other over a Unix socket: one connection is one server, one line one message.

Above: client.py (the gateway's side) and host.py. The gateway opens a connection and sends a `Start`; with its first
byte go three descriptors, the server's ends of its standard streams. The host answers `started` or `refused`, and
`ended` once the server has. The gateway ends the server by ending its side of the connection, which also happens when
it is killed; the host closes its side when nothing of the server is left.
"""

from __future__ import annotations

from typing import Annotated, Literal

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MAX_START_BYTES = 1024 * 1024
MAX_REPLY_BYTES = 16 * 1024
DESCRIPTORS = 3


class Violation(Exception):
    """The other side said something that this protocol does not know; the text says what."""


def _without_null(text: str) -> str:
    if "\0" in text:
        raise ValueError("has a null character")
    return text


def _given(text: str) -> str:
    if not text:
        raise ValueError("is empty")
    return _without_null(text)


def _variable(name: str) -> str:
    if not name or "=" in name:
        raise ValueError("is no name of a variable")
    return _without_null(name)


Text = Annotated[str, AfterValidator(_without_null)]
Given = Annotated[str, AfterValidator(_given)]


class Start(BaseModel):
    """Start this command as the leader of a process group."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)

    command: Given
    args: Annotated[tuple[Text, ...], Field(max_length=4096)]
    env: Annotated[dict[Annotated[str, AfterValidator(_variable)], Text], Field(max_length=4096)]
    """What the configuration says. The host adds its own safe base, and nothing else."""
    cwd: Given | None
    """None for the host's own."""


class Reply(BaseModel):
    """What the host says of the one server of the connection."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    kind: Literal["started", "refused", "ended"]
    code: int = 0
    """The exit code of one that ended, negative for a signal."""
    text: str = ""
    """Why it was refused."""

    def line(self) -> bytes:
        return self.model_dump_json(exclude_defaults=True).encode() + b"\n"


async def next_line(stream: BufferedByteReceiveStream, max_bytes: int) -> bytes | None:
    """The next line without its end; None when the other side has ended, in the middle of a line or not.

    Raises:
        Violation: The line is longer.
    """
    try:
        return await stream.receive_until(b"\n", max_bytes)
    except anyio.DelimiterNotFound:
        raise Violation(f"a message of more than {max_bytes} bytes") from None
    except (anyio.IncompleteRead, anyio.BrokenResourceError):
        return None
