"""What the tests of the sandbox share: a real Docker engine with the real image, and tools that code may call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import anyio
import pytest

from proxy.errors import SandboxError
from proxy.sandbox.base import Reply
from proxy.sandbox.engine import Engine
from proxy.sandbox.image import ensure_image

REQUIRED = "TOOLATLAS_REQUIRE_DOCKER"
"""Set where there must be an engine, so that a test skipped there is a failure."""
LIMIT_S = 60.0
"""What a whole test may take, with much to spare: the machine is shared."""


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    try:
        engine = Engine.connect(os.environ)
    except SandboxError as error:
        if os.environ.get(REQUIRED):
            raise
        pytest.skip(f"{error}; start one to run the tests of the Docker sandbox")
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def image(engine: Engine) -> str:
    return ensure_image(engine.client)


class Tools:
    """A `Calls` whose tools belong to one server, `s`."""

    servers = ("s",)

    def __init__(self) -> None:
        self.on_extend: Callable[[float], None] = lambda seconds: None
        self.made: list[tuple[str, dict[str, Any]]] = []
        self.at_once = self.most_at_once = 0
        self.began = anyio.Event()
        """Set by `s.hang`, which then waits until it is cancelled."""
        self.cancelled = 0

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        self.made.append((tool, dict(arguments)))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            match tool:
                case "s.echo":
                    return Reply(True, arguments.get("value"))
                case "s.slow":
                    await anyio.sleep(arguments["seconds"])
                    return Reply(True, arguments["value"])
                case "s.repeat":
                    return Reply(True, arguments["text"] * arguments["times"])
                case "s.ask":
                    # As a question to a person would: it takes longer than the run has.
                    self.on_extend(60.0)
                    await anyio.sleep(arguments["seconds"])
                    self.on_extend(arguments["seconds"] - 60.0)
                    return Reply(True, "yes")
                case "s.hang":
                    self.began.set()
                    await anyio.sleep_forever()
                case _:
                    pass
            return Reply(False, f"{tool} failed on purpose", tool)
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        finally:
            self.at_once -= 1

    async def look_up(self, what: str, name: str) -> Reply:
        if what == "servers":
            return Reply(True, [{"name": "s", "purpose": "for tests", "tools": 4}])
        return Reply(True, f"{what} of {name}")


async def until(done: Callable[[], bool], what: str, limit_s: float = 20.0) -> None:
    with anyio.move_on_after(limit_s):
        while not done():
            await anyio.sleep(0.02)
        return
    raise AssertionError(f"not within {limit_s:g} s: {what}")
