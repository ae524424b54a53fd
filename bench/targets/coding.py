"""The parts of our gateway that run code, in this process: a backend with real containers, and a server to call.

Above: bench/sandbox.py. What an agent pays for HTTP is left out here, so that milliseconds of the sandbox can be seen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from bench.measure import ROOT, Missing
from proxy.app import App, build
from proxy.catalog.shapes import Shapes
from proxy.errors import SandboxError
from proxy.metatools.attachments import Attachments
from proxy.metatools.base import Caller, Request
from proxy.metatools.calling import Answers
from proxy.metatools.code_calls import CodeCalls, Means
from proxy.sandbox.base import Limits
from proxy.sandbox.docker import DockerBackend
from proxy.sandbox.docker_client import open_engine
from proxy.sandbox.engine import Engine
from proxy.sandbox.image import ensure_image
from proxy.servers.configfile import parse
from proxy.servers.origin import Origin
from proxy.settings import Settings
from proxy.store.recorder import Episode, Level
from proxy.tasks import Task

LISTED_S = 60.0


@dataclass(frozen=True, slots=True)
class Coding:
    """A gateway with one server, `echo`, whose agents can run code."""

    app: App
    backend: DockerBackend
    engine: Engine
    limits: Limits
    folder: Path

    def calls(self) -> CodeCalls:
        """What the code of one run may call, with the checks and the log of a gateway that serves agents."""
        means = Means(
            gateway=self.app.gateway,
            caller=self.app.service.calls,
            answers=Answers(self.app.gateway, Shapes(self.folder / "shapes"), Level.FULL),
            attachments=Attachments(1_000_000),
            steps=self.app.service.steps,
            limits=self.limits,
            wait_s=2.0,
        )
        episode = Episode(id="e_bench", agent="bench", mode="search", began_at=datetime.now(UTC))
        caller = Caller(agent="bench", origin=Origin(session="bench", modern=False, ask=_unasked, tell=_untold))
        return CodeCalls(means, Request(Task("t0_bench", "bench", 0.0, episode), caller, {}))


@asynccontextmanager
async def coding(folder: Path, limits: Limits) -> AsyncIterator[Coding]:
    """
    Raises:
        Missing: There is no Docker engine, or it cannot build the image.
    """
    try:
        image = await anyio.to_thread.run_sync(_image)
        engine = Engine.connect(os.environ)
    except SandboxError as error:
        raise Missing(str(error)) from error
    with closing(engine):
        settings = Settings(config=folder / "mcp.json", state_dir=folder / "state", cache_dir=folder / "cache")
        echo = {"command": sys.executable, "args": ["-m", "bench.targets.echo"], "cwd": str(ROOT)}
        configuration = parse({"mcpServers": {"echo": echo}}, os.environ)
        backend = DockerBackend(limits, engine=engine, image=image, folder=folder / "sandbox")
        app = build(settings, os.environ, configuration=configuration, backend=backend, recorders=())
        async with app.gateway.running(configuration), backend.running():
            with anyio.fail_after(LISTED_S):
                await app.gateway.pool.wait_for_first_listings(LISTED_S)
            yield Coding(app, backend, engine, limits, folder)


def _image() -> str:
    with closing(open_engine(os.environ)) as client:
        return ensure_image(client)


async def _unasked(method: str, params: Mapping[str, Any], on_progress: object) -> dict[str, Any]:
    raise RuntimeError(f"the bench was asked {method}")


async def _untold(method: str, params: Mapping[str, Any]) -> None:
    """Nobody listens."""
