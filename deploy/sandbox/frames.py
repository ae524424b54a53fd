"""Lines of JSON: how they are cut out of a stream, written, and checked when they come from the child.

The gateway's side is proxy/sandbox/frames.py. Between supervisor and child the same operations are used, and `stop`.
"""

import json

MAX_FRAME = 16 * 1024 * 1024
"""Bytes of a line to or from the gateway."""
MAX_CALL = 2 * 1024 * 1024
"""Bytes of a line from the child: read JSON can be fifty times its length, and the child shares the memory."""
MAX_TEXT = 8 * 1024 * 1024
"""Bytes of a line from the child that is a single string: the value of the run that ends next."""
MAX_NAME = 500
"""Characters of a name in a call."""
LOOK_UPS = ("servers", "help", "describe")


class Broken(Exception):
    """The child sent what it never sends by itself."""


class Lines:
    """Cuts a stream of bytes into lines."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._data = bytearray()

    def add(self, data: bytes) -> list[bytes]:
        """The lines that are complete now. Raises Broken when one is too long."""
        seen = len(self._data)
        self._data += data
        end = self._data.rfind(b"\n", seen)
        lines = []
        if end >= 0:
            lines = bytes(self._data[:end]).split(b"\n")
            del self._data[: end + 1]
        if len(self._data) > self._longest or any(len(line) > self._longest for line in lines):
            raise Broken
        return lines


def for_child(frame: dict) -> bytes:
    """One line. Whatever came from the gateway can go on, lone surrogates as well."""
    return json.dumps(frame, separators=(",", ":")).encode() + b"\n"


def encoded(frame: dict) -> bytes:
    """One line for the gateway. Raises ValueError for lone surrogates and for numbers that are no JSON."""
    return json.dumps(frame, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def value_of(line: bytes) -> str | None:
    """The value of a run, where the line is one. Raises Broken or ValueError."""
    return text(json.loads(line), MAX_TEXT) if line.startswith(b'"') else None


def from_child(line: bytes) -> dict:
    """A frame of the child with nothing in it but what belongs there.

    Raises:
        Broken: Or what comes of reading something else: ValueError, KeyError, TypeError, RecursionError.
    """
    if len(line) > MAX_CALL:
        raise Broken
    frame = json.loads(line)
    match frame["op"]:
        case "call" as op:
            if not isinstance(frame["arguments"], dict):
                raise Broken
            return _numbered(op, frame, tool=text(frame["tool"], MAX_NAME), arguments=frame["arguments"])
        case "look_up" as op:
            if frame["what"] not in LOOK_UPS:
                raise Broken
            return _numbered(op, frame, what=frame["what"], name=text(frame["name"], MAX_NAME))
        case "done" as op:
            if frame["status"] not in ("ok", "error"):
                raise Broken
            failure = frame["failure"]
            if failure is not None:
                failure = {name: text(failure[name], MAX_CALL) for name in ("kind", "message", "traceback")}
            return {"op": op, "run": natural(frame["run"]), "status": frame["status"], "failure": failure}
        case "ready" as op:
            return {"op": op}
    raise Broken


def natural(value: object) -> int:
    """Raises Broken."""
    if type(value) is not int or not 0 <= value < 2**53:
        raise Broken
    return value


def text(value: object, longest: int) -> str:
    """Raises Broken, or ValueError for lone surrogates."""
    if not isinstance(value, str) or len(value) > longest:
        raise Broken
    value.encode()
    return value


def _numbered(op: str, frame: dict, **fields: object) -> dict:
    return {"op": op, "run": natural(frame["run"]), "call": natural(frame["call"]), **fields}
