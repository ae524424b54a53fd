"""What is said on the broker's socket: three requests, each a line, and a line of JSON in reply to each.

    open            a container of the broker's one template, started; {"id": "<64 hex digits>"}. It lives no longer
                    than this connection, on which nothing but its `close` can be said from now on.
    attach <id>     on another connection, once: {"attached": true}, then that connection is the container's stdin,
                    stdout and stderr, as the engine wraps them, and its end is the container's.
    close <id>      on the connection that opened it: {"ended": {"running": false, "out_of_memory": false,
                    "exit_code": 0}}, or null where it had not ended by itself or nothing is known; then it is removed.

Anything else is answered with {"error": "...", "busy": false} and the end of the connection. No request has a place for
an image, a command, a mount, a privilege, a limit or the engine's own name of a container. Above: server.py and
client.py. Below: nothing.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, cast

from proxy.errors import SandboxBusy, SandboxError
from proxy.sandbox.source import State

MAX_REQUEST = 80
"""Bytes of a request with the end of its line."""
MAX_REPLY = 4_096
MAX_ERROR = 500
"""Characters of an error in a reply."""
_REQUEST = re.compile(rb"(open)|(attach|close) ([0-9a-f]{64})")
_ID = re.compile(r"[0-9a-f]{64}")


class Verb(StrEnum):
    OPEN = "open"
    ATTACH = "attach"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Request:
    verb: Verb
    id: str = ""
    """Of a container; empty with `open`."""

    def line(self) -> bytes:
        return f"{self.verb} {self.id}".strip().encode() + b"\n"


class Refused(Exception):
    """What was asked for is not done; `str(error)` says why. `busy`: it may be later."""

    def __init__(self, why: str, *, busy: bool = False) -> None:
        super().__init__(why)
        self.busy = busy


def new_id() -> str:
    """Says nothing and cannot be guessed."""
    return secrets.token_hex(32)


def parse(line: bytes) -> Request:
    """A request out of a line without its end.

    Raises:
        Refused: It is none.
    """
    found = _REQUEST.fullmatch(line)
    if found is None:
        raise Refused("this is no request: there are `open`, `attach ID` and `close ID`, and nothing can be added")
    if found[1]:
        return Request(Verb.OPEN)
    return Request(Verb(found[2].decode()), found[3].decode())


def opened(id: str) -> bytes:
    return _reply({"id": id})


def attached() -> bytes:
    return _reply({"attached": True})


def ended(state: State | None) -> bytes:
    return _reply({"ended": None if state is None else asdict(state)})


def refusal(error: Refused) -> bytes:
    return _reply({"error": str(error)[:MAX_ERROR], "busy": error.busy})


def read_opened(line: bytes) -> str:
    """The id. Raises SandboxError, as all that read a reply: the broker refused, or is none."""
    id = _read(line).get("id")
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise _not_a_broker()
    return id


def read_attached(line: bytes) -> None:
    if _read(line).get("attached") is not True:
        raise _not_a_broker()


def read_ended(line: bytes) -> State | None:
    state = _read(line).get("ended", "")
    if state is None:
        return None
    try:
        return State(bool(state["running"]), bool(state["out_of_memory"]), int(state["exit_code"]))
    except (TypeError, KeyError, ValueError):
        raise _not_a_broker() from None


def _reply(reply: Mapping[str, Any]) -> bytes:
    return json.dumps(reply).encode() + b"\n"


def _read(line: bytes) -> dict[str, Any]:
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError):
        raise _not_a_broker() from None
    if not isinstance(reply, dict):
        raise _not_a_broker()
    reply = cast("dict[str, Any]", reply)
    if (error := reply.get("error")) is not None:
        raise (SandboxBusy if reply.get("busy") else SandboxError)(str(error)[:MAX_ERROR])
    return reply


def _not_a_broker() -> SandboxError:
    return SandboxError("what answers is no broker of this version: run `toolatlas broker` of the gateway's version")
