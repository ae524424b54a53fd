"""Noticing changes of the configuration file."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream

from proxy.errors import ConfigurationError
from proxy.servers.configfile import Configuration, load
from proxy.servers.watch import watch

pytestmark = pytest.mark.anyio

Event = Configuration | ConfigurationError
A = '{"mcpServers": {"a": {"command": "x"}}}'
B = '{"mcpServers": {"b": {"command": "x"}}}'
BROKEN = '{"mcpServers": {'


@asynccontextmanager
async def watching(path: Path, current: Configuration | None = None) -> AsyncIterator[MemoryObjectReceiveStream[Event]]:
    """Everything that `watch` reports, in order; leaving proves that nothing more came and that it can be cancelled."""
    send, receive = anyio.create_memory_object_stream[Event](100)
    with send, receive, anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: watch(path, {}, send.send, send.send_nowait, current=current))
            yield receive
            group.cancel_scope.cancel()
        assert receive.statistics().current_buffer_used == 0


def put(path: Path, text: str) -> None:
    """As an editor saves: a new file in the place of the old one."""
    beside = path.with_name("beside")
    beside.write_text(text, "utf-8")
    os.replace(beside, path)


async def names(events: MemoryObjectReceiveStream[Event]) -> list[str]:
    event = await events.receive()
    assert isinstance(event, Configuration)
    return [server.name for server in event.servers]


async def test_a_file_that_was_replaced_is_handed_over(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    put(path, A)
    async with watching(path, load(path, {})) as events:
        put(path, B)
        assert await names(events) == ["b"]
        put(path, A)
        assert await names(events) == ["a"]


async def test_a_file_written_in_place_is_handed_over(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    put(path, A)
    async with watching(path, load(path, {})) as events:
        path.write_text(B, "utf-8")
        # A reading between the emptying and the writing of the file is an error, and then comes what was written.
        while isinstance(event := await events.receive(), ConfigurationError):
            pass
        assert [server.name for server in event.servers] == ["b"]


async def test_a_change_before_the_watching_began_is_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    put(path, A)
    before = load(path, {})
    put(path, B)
    async with watching(path, before) as events:
        assert await names(events) == ["b"]


async def test_a_broken_file_is_an_error_and_its_repair_to_the_same_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    put(path, A)
    async with watching(path, load(path, {})) as events:
        put(path, BROKEN)
        assert isinstance(await events.receive(), ConfigurationError)
        put(path, A)
        put(tmp_path / "other.json", B)
        # What follows is the next report: the repaired file made none, nor did the other spelling of the same.
        put(path, A + "\n")
        put(path, B)
        assert await names(events) == ["b"]


async def test_a_file_that_goes_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    put(path, A)
    async with watching(path, load(path, {})) as events:
        path.unlink()
        error = await events.receive()
        assert isinstance(error, ConfigurationError)
        assert "There is no configuration file" in str(error)
        put(path, B)
        assert await names(events) == ["b"]


async def test_the_target_of_a_link_is_watched(tmp_path: Path) -> None:
    target = tmp_path / "far" / "mcp.json"
    target.parent.mkdir()
    put(target, A)
    link = tmp_path / "near" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to(target)
    async with watching(link, load(link, {})) as events:
        put(target, B)
        assert await names(events) == ["b"]


async def test_a_folder_that_is_not_there_yet_is_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "new" / "mcp.json"
    async with watching(path, Configuration(path, (), ())) as events:
        assert isinstance(await events.receive(), ConfigurationError)
        path.parent.mkdir()
        put(path, A)
        assert await names(events) == ["a"]


async def test_without_a_current_configuration_the_first_reading_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    put(path, BROKEN)
    async with watching(path) as events:
        # The error shows that the watching began.
        assert isinstance(await events.receive(), ConfigurationError)
        put(path, A)
        put(path, BROKEN + " ")
        assert isinstance(await events.receive(), ConfigurationError)
