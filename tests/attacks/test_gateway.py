"""Attacks of code on a whole gateway: calls made by hand, past the interpreter, have the agent's rights and no more.

The gateway's own checks are taken away by allowing the tool, and the same attack succeeds.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp import types as t

from proxy.app import build
from proxy.sandbox.base import Limits
from proxy.sandbox.docker import DockerBackend
from proxy.sandbox.engine import Engine
from proxy.servers.configfile import parse
from proxy.settings import Settings
from proxy.store.recorder import Outcome, Step
from tests.fixtures.running import entry
from tests.proxy.endpoint.conftest import LISTED_WITHIN_S, Steps

pytestmark = [pytest.mark.docker, pytest.mark.anyio]

BY_HAND = """
import os, time
frame = b'{"op": "call", "run": RUN, "call": 77, "tool": "TOOL", "arguments": {"a": 40, "b": 2}}\\n'
for number in range(3, 64):
    for run in range(1, 20):
        try: os.write(number, frame.replace(b"RUN", str(run).encode()))
        except OSError: break
time.sleep(0.5)
"""
LIMIT_S = 40.0


@asynccontextmanager
async def serving(image: str, folder: Path, **servers: Any) -> AsyncIterator[tuple[Client, Steps]]:
    """An agent of a gateway that runs code in containers."""
    settings = Settings(config=folder / "mcp.json", state_dir=folder / "state", cache_dir=folder / "cache")
    configuration = parse({"mcpServers": servers}, os.environ)
    steps = Steps()
    backend = DockerBackend(Limits(), engine=Engine.connect(os.environ), image=image, folder=folder / "sandbox")
    app = build(settings, os.environ, configuration=configuration, recorders=(steps,), backend=backend)
    assert app.interpreters is not None
    async with app.gateway.running(configuration), app.interpreters.running():
        with anyio.fail_after(LISTED_WITHIN_S):
            await app.gateway.pool.wait_for_first_listings(LISTED_WITHIN_S)
        async with Client(app.server, mode="legacy") as client:
            yield client, steps


async def run(client: Client, code: str) -> str:
    with anyio.fail_after(LIMIT_S):
        result = await client.call_tool("run_python", {"code": code})
    return "\n".join(item.text for item in result.content if isinstance(item, t.TextContent))


def called(steps: Steps) -> list[Step]:
    return [step for step in steps.all if step.mode == "code"]


async def test_a_denied_tool_is_denied_to_a_call_by_hand(sandbox_image: str, tmp_path: Path) -> None:
    denied = {**entry("echo"), "tools": {"deny": ["add"]}}
    async with serving(sandbox_image, tmp_path, tools=denied) as (client, steps):
        await run(client, BY_HAND.replace("TOOL", "tools.add"))
        assert [(step.name, step.outcome, step.server) for step in called(steps)] == [
            ("tools.add", Outcome.DENIED, None)
        ]


async def test_an_allowed_tool_is_called_as_by_its_function(sandbox_image: str, tmp_path: Path) -> None:
    async with serving(sandbox_image, tmp_path, tools=entry("echo")) as (client, steps):
        await run(client, BY_HAND.replace("TOOL", "tools.add"))
        (step,) = called(steps)
        assert (step.name, step.outcome, step.tool) == ("tools.add", Outcome.OK, "add")
        assert step.parent is not None


async def test_names_that_are_no_tools_lead_nowhere(sandbox_image: str, tmp_path: Path) -> None:
    names = ("run_python", "finish_task", "tools", "tools.__class__", "../tools.add", "%s{0}", "x" * 400)
    async with serving(sandbox_image, tmp_path, tools=entry("echo")) as (client, steps):
        for name in names:
            await run(client, BY_HAND.replace("TOOL", name))
            assert "Value:\n2" in await run(client, "1 + 1")
        assert [(step.outcome, step.server) for step in called(steps)] == [
            (Outcome.INVALID_ARGUMENTS, None) for _ in names
        ]


async def test_secrets_of_a_server_are_not_in_the_container(sandbox_image: str, tmp_path: Path) -> None:
    keyed = {**entry("echo"), "env": {"API_KEY": "key-of-the-server"}}
    code = """
import os, glob
paths = [path for path in glob.glob("/proc/*/environ") if os.access(path, os.R_OK)]
found = [path for path in paths if b"key-of" in open(path, "rb").read()]
print(found, "API_KEY" in os.environ, [value for value in os.environ.values() if "key-of" in value])
"""
    async with serving(sandbox_image, tmp_path, tools=keyed) as (client, _):
        assert "[] False []" in await run(client, code)
