"""Secrets go through a whole gateway, by every way that an agent has; nothing that it keeps or shows has one."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp import types as t

from tests.fixtures.running import entry
from tests.lifecycle.conftest import StartProcess, gateway_process
from tests.store_secrets.planted import planted

__all__ = ["gateway_process"]
pytestmark = pytest.mark.anyio


async def ask(client: Client, name: str, **arguments: Any) -> str:
    with anyio.fail_after(30):
        result = await client.call_tool(name, arguments)
    return "\n".join(item.text for item in result.content if isinstance(item, t.TextContent))


async def test_no_secret_is_kept_or_shown(gateway_process: StartProcess, tmp_path: Path) -> None:
    secrets = planted(Random(11))
    with gateway_process({"echo": entry("echo")}, "--sandbox", "embedded") as gateway:
        for each in secrets:
            async with Client(gateway.url, mode="legacy") as client:
                await ask(client, "search_tools", query=f"echo {each.text}", task=f"Say {each.text}")
                await ask(client, "call_tool", tool="echo.echo", arguments={"text": each.text})
                await ask(client, "call_tool", tool="echo.add", arguments={"a": each.text})
                await ask(client, f"no_{each.text}")
                code = f"x = {each.text!r}\nprint(echo.echo(text=x))\nraise ValueError(x)"
                await ask(client, "run_python", code=code)
                await ask(client, "finish_task", outcome="done", answer=f"It is {each.text}")
        async with httpx2.AsyncClient(base_url=gateway.base, follow_redirects=True, timeout=30) as http:

            async def count() -> int:
                page = (await http.get("/api/episodes", params={"limit": 100})).json()
                return sum(each["ended_at"] is not None for each in page["episodes"])

            with anyio.fail_after(60):
                while await count() < len(secrets):
                    await anyio.sleep(0.05)
            shown = await pages(http)
        folders = [tmp_path / "state", tmp_path / "cache"]
        kept = {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}
        command = [sys.executable, "-P", "-m", "proxy.cli", "episodes", "export", "--database", database_of(tmp_path)]
        with anyio.fail_after(60):
            exported = (await anyio.run_process(command)).stdout
    kept |= shown | {"export": exported, "log": gateway.log.read_bytes()}
    # The words around them are there, so the places are the right ones.
    assert exported.count(b"It is ") >= len(secrets)
    assert sum(b"Say " in page for page in shown.values()) > len(secrets)
    found = [
        (each.kind, place) for each in secrets for place, content in kept.items() if each.secret.encode() in content
    ]
    assert found == []


async def pages(http: httpx2.AsyncClient) -> dict[str, bytes]:
    """Every page and answer that leads to an episode, by address."""
    shown: dict[str, bytes] = {}
    for path in ("/ui/episodes", "/ui/tools", "/ui/servers", "/api/episodes", "/api/stats", "/api/servers"):
        shown[path] = (await http.get(path)).content
    episodes = {each["id"] for each in (await http.get("/api/episodes", params={"limit": 100})).json()["episodes"]}
    for episode in episodes:
        for path in (f"/ui/episodes/{episode}", f"/api/episodes/{episode}"):
            answer = await http.get(path)
            assert answer.status_code == 200, path
            shown[path] = answer.content
    return shown


def database_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'state' / 'toolatlas.db'}"
