"""A whole gateway in memory over real fixture servers, and an agent connected to it in either era."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from proxy.app import App, build
from proxy.servers.configfile import parse
from proxy.settings import Settings
from proxy.store.recorder import Ending, Step

LISTED_WITHIN_S = 30


@dataclass
class Steps:
    """Keeps what was recorded."""

    all: list[Step] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)

    def record(self, step: Step) -> None:
        self.all.append(step)

    def end(self, ending: Ending) -> None:
        self.endings.append(ending)

    @property
    def last(self) -> Step:
        return self.all[-1]


@dataclass(frozen=True)
class Running:
    app: App
    steps: Steps


StartGateway = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def start_gateway(tmp_path: Path) -> StartGateway:
    @asynccontextmanager
    async def start(servers: Mapping[str, Any], **changed: Any) -> AsyncGenerator[Running]:
        settings = Settings(
            config=tmp_path / "mcp.json", state_dir=tmp_path / "state", cache_dir=tmp_path / "cache", **changed
        )
        configuration = parse({"mcpServers": servers}, os.environ)
        steps = Steps()
        app = build(settings, os.environ, configuration=configuration, recorders=(steps,))
        async with app.gateway.running(configuration):
            with anyio.fail_after(LISTED_WITHIN_S):
                await app.gateway.pool.wait_for_first_listings(LISTED_WITHIN_S)
            yield Running(app, steps)

    return start
