"""A whole gateway in memory whose agents can run code."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp import types as t

from proxy.app import App, build
from proxy.servers.configfile import parse
from proxy.settings import Settings
from proxy.store.recorder import Step
from tests.fixtures.threads import ThreadBackend
from tests.proxy.endpoint.conftest import LISTED_WITHIN_S, Steps

ANSWER_S = 30.0


@dataclass(frozen=True)
class Coding:
    """A gateway over a backend that can be looked into."""

    app: App
    steps: Steps
    backend: ThreadBackend
    folder: Path

    @property
    def runs(self) -> list[Step]:
        return [step for step in self.steps.all if step.name == "run_python"]

    @property
    def calls(self) -> list[Step]:
        """What code has called."""
        return [step for step in self.steps.all if step.mode == "code"]

    async def apply(self, **servers: Any) -> None:
        await self.app.gateway.apply(parse({"mcpServers": servers}, os.environ))


StartCoding = Callable[..., AbstractAsyncContextManager[Coding]]


@pytest.fixture
def start_coding(tmp_path: Path) -> StartCoding:
    @asynccontextmanager
    async def start(
        servers: Mapping[str, Any], *, language: str = "", off: bool = False, **changed: Any
    ) -> AsyncGenerator[Coding]:
        settings = Settings(
            config=tmp_path / "mcp.json", state_dir=tmp_path / "state", cache_dir=tmp_path / "cache", **changed
        )
        configuration = parse({"mcpServers": servers}, os.environ)
        steps, backend = Steps(), ThreadBackend(language)
        app = build(
            settings, os.environ, configuration=configuration, recorders=(steps,), backend=None if off else backend
        )
        sandbox = app.interpreters.running() if app.interpreters is not None else nullcontext()
        async with app.gateway.running(configuration), sandbox:
            with anyio.fail_after(LISTED_WITHIN_S):
                await app.gateway.pool.wait_for_first_listings(LISTED_WITHIN_S)
            yield Coding(app, steps, backend, tmp_path)

    return start


@dataclass(frozen=True)
class Ran:
    """What an agent read."""

    status: str
    """The first line."""
    rest: str
    failed: bool
    task: dict[str, str]
    """To carry the task on, for agents without sessions."""


async def run(client: Client, code: str, **arguments: Any) -> Ran:
    with anyio.fail_after(ANSWER_S):
        result = await client.call_tool("run_python", {"code": code, **arguments})
    assert result.structured_content is None
    texts = [item.text for item in result.content if isinstance(item, t.TextContent)]
    named = re.search(r"\[task_id: (\w+);", texts[-1]) if len(texts) > 1 else None
    status, _, rest = texts[0].partition("\n")
    return Ran(status, rest, bool(result.is_error), {"task_id": named[1]} if named is not None else {})
