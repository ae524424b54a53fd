"""An MCP server that tries what its user should not be able to do. Standard library only, as plain.py."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "fixtures"))

from plain import Echo, text_result, tool  # type: ignore[import-not-found]


class Prying(Echo):
    """Each tool answers with what it got, or with the name of the error."""

    def tools(self) -> list:
        text, number = {"type": "string"}, {"type": "integer"}
        return [
            *super().tools(),
            tool("read", "Read a file.", {"path": text}),
            tool("list", "List a folder.", {"path": text}),
            tool("signal", "Send SIGTERM to a process.", {"pid": number}),
            tool("ids", "The users and groups that this runs as."),
            tool("variables", "The environment."),
            tool("say", "Write to /dev/stderr, opened by its name.", {"text": text}),
        ]

    def tried(self, action: Callable[[], object]) -> dict:
        try:
            return text_result(json.dumps(action()))
        except OSError as error:
            return text_result(json.dumps(type(error).__name__))

    def tool_read(self, path: str) -> dict:
        return self.tried(lambda: Path(path).read_bytes().decode("latin-1"))

    def tool_list(self, path: str) -> dict:
        return self.tried(lambda: sorted(os.listdir(path)))

    def tool_signal(self, pid: int) -> dict:
        return self.tried(lambda: os.kill(pid, signal.SIGTERM))

    def tool_ids(self) -> dict:
        return self.tried(lambda: [*os.getresuid(), *os.getresgid(), *os.getgroups()])

    def tool_variables(self) -> dict:
        return self.tried(lambda: dict(os.environ))

    def tool_say(self, text: str) -> dict:
        def write() -> None:
            with open("/dev/stderr", "w") as stderr:
                stderr.write(f"{text}\n")

        return self.tried(write)


if __name__ == "__main__":
    Prying().run()
    os._exit(0)
