"""A supervisor on the other end of a socket, in a process of this machine or in a container, and its frames."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SANDBOX = Path(__file__).parents[2] / "deploy" / "sandbox"
LIMIT_S = 30.0
"""Until a frame has to be there; the machine may be busy."""
Frame = dict[str, Any]
Answer = Callable[[Frame], Mapping[str, Any] | None]
"""What is replied to a call or a look-up: `ok`, `value` and `tool`; None for no reply."""


def echo(frame: Frame) -> Mapping[str, Any]:
    """Gives back the arguments, or fails with them where the tool's name says so."""
    if frame["op"] == "look_up":
        return {"ok": True, "value": f"{frame['what']} of {frame['name']}"}
    if frame["tool"].endswith(".fail"):
        return {"ok": False, "value": "failed on purpose", "tool": frame["tool"]}
    return {"ok": True, "value": frame["arguments"]}


class Supervised:
    """Speaks with one supervisor. Blocks, for `LIMIT_S` at most."""

    def __init__(self, connected: socket.socket, end: Callable[[], None], *, wrapped: bool) -> None:
        connected.settimeout(LIMIT_S)
        self._socket = connected
        self._end = end
        self._wrapped = wrapped
        """Whether the engine has put its headers around what comes in."""
        self._raw = b""
        self._lines = b""
        self._runs = 0
        self.calls: list[Frame] = []
        """Of the last run."""
        self.receive("ready")

    @classmethod
    def process(cls) -> Supervised:
        ours, theirs = socket.socketpair()
        process = subprocess.Popen([sys.executable, "-I", str(SANDBOX)], stdin=theirs, stdout=theirs)
        theirs.close()

        def end() -> None:
            ours.close()
            try:
                process.wait(LIMIT_S)
            finally:
                process.kill()

        return cls(ours, end, wrapped=False)

    def close(self) -> None:
        self._end()

    def send(self, frame: Mapping[str, Any]) -> None:
        self._socket.sendall(json.dumps(frame, separators=(",", ":")).encode() + b"\n")

    def receive(self, op: str | None = None) -> Frame:
        """The next frame, which has to be of this kind where one is given."""
        while b"\n" not in self._lines:
            self._lines += self._read()
        line, _, self._lines = self._lines.partition(b"\n")
        frame = json.loads(line)
        assert op is None or frame["op"] == op, frame
        return frame

    def reset(self) -> None:
        self.send({"op": "reset"})
        assert self.receive() == {"op": "ready", "fresh": True}

    def begin_anew(self) -> None:
        """A new interpreter, whatever an earlier test has left unread."""
        self.send({"op": "reset"})
        number = self.start("None")
        while (frame := self.receive())["op"] != "done" or frame["run"] != number:
            pass
        self.reset()

    def start(self, code: str, *, timeout: float = LIMIT_S, servers: tuple[str, ...] = ("s",), **limits: Any) -> int:
        """Returns the number of the run."""
        self._runs += 1
        self.calls = []
        limits = {"output_kept": 1_000_000, "grace_s": 1.0, "processes": 64, "parallel": 8} | limits
        frame = {"op": "run", "run": self._runs, "code": code, "timeout": timeout}
        self.send(frame | {"servers": list(servers), "limits": limits})
        return self._runs

    def finish(self, answer: Answer = echo) -> Frame:
        """Answer calls until the run is done."""
        while (frame := self.receive())["op"] in ("call", "look_up"):
            assert frame["run"] == self._runs
            self.calls.append(frame)
            if (reply := answer(frame)) is not None:
                self.reply(frame, reply)
        assert (frame["op"], frame["run"]) == ("done", self._runs), frame
        return frame

    def reply(self, call: Frame, reply: Mapping[str, Any]) -> None:
        self.send({"op": "reply", "run": call["run"], "call": call["call"], **reply})

    def run(self, code: str, answer: Answer = echo, **settings: Any) -> Frame:
        self.start(code, **settings)
        return self.finish(answer)

    def value(self, code: str, answer: Answer = echo, **settings: Any) -> Any:
        """Of the last expression, as JSON; the run has to end well."""
        done = self.run(code, answer, **settings)
        assert done["status"] == "ok", done
        return None if done["value"] is None else json.loads(done["value"])

    def at_end(self) -> bytes:
        """What comes until the supervisor is gone."""
        rest = self._lines
        while data := self._read(or_end=True):
            rest += data
        return rest

    def _read(self, *, or_end: bool = False) -> bytes:
        """What has come in, at least a byte."""
        while True:
            data = self._socket.recv(1 << 16)
            if not data:
                assert or_end, "the supervisor is gone"
                return b""
            if not self._wrapped:
                return data
            self._raw += data
            if plain := self._unwrap():
                return plain

    def _unwrap(self) -> bytes:
        plain = b""
        while len(self._raw) >= 8:
            stream, size = struct.unpack(">BxxxI", self._raw[:8])
            if len(self._raw) < 8 + size:
                break
            assert stream == 1, self._raw[8 : 8 + size]
            plain += self._raw[8 : 8 + size]
            self._raw = self._raw[8 + size :]
        return plain
