"""A gateway that knows every server of the corpus from an earlier run, and so starts none of them."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from proxy.app import App, build
from proxy.catalog.cache import ListingCache
from proxy.servers.configfile import parse
from proxy.settings import Settings
from tests.fixtures.poisoned import EVERYONE, Said
from tests.fixtures.threads import ThreadBackend

BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2065\u2800\u3164\uffa0\ufff5\U0001d159")
UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})

StartKnowing = Callable[..., AbstractAsyncContextManager[App]]


def unseen(text: str) -> list[str]:
    """The characters of `text` that nobody sees, line breaks apart. Written anew here, not to trust what is tested."""
    return [
        f"U+{ord(character):04X}"
        for character in sorted(set(text) - {"\n"})
        if character in BLANKS
        or unicodedata.category(character) in UNSEEN
        or 0xFE00 <= ord(character) <= 0xFE0F
        or ord(character) >= 0xE0000
    ]


def entries(everyone: Iterable[Said], **more: Any) -> dict[str, Any]:
    return {said.name: {"command": "/nonexistent/server", "args": [said.name], **more} for said in everyone}


def remember(folder: Path, servers: dict[str, Any], everyone: Iterable[Said]) -> None:
    """Lay what everyone says into the cache, as an earlier run would have."""
    cache = ListingCache(folder / "cache" / "listings")
    said = {each.name: each for each in everyone}
    for config in parse({"mcpServers": servers}, os.environ).servers:
        if config.name in said:
            cache.store(config.identity, said[config.name].listing)


@pytest.fixture
def start_knowing(tmp_path: Path) -> StartKnowing:
    @asynccontextmanager
    async def start(everyone: Iterable[Said] = EVERYONE, servers: dict[str, Any] | None = None) -> AsyncGenerator[App]:
        everyone = tuple(everyone)
        servers = entries(everyone) if servers is None else servers
        remember(tmp_path, servers, everyone)
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
        settings = Settings(config=tmp_path / "mcp.json", state_dir=tmp_path / "state", cache_dir=tmp_path / "cache")
        configuration = parse({"mcpServers": servers}, os.environ)
        app = build(settings, os.environ, configuration=configuration, recorders=(), backend=ThreadBackend())
        async with app.gateway.running(configuration):
            yield app

    return start


async def answer(client: Client, name: str, /, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    return "\n".join(item.text for item in result.content if item.type == "text")
