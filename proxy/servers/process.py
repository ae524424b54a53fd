"""A stdio server as a process: its streams, its last words, and the end of its whole process group.

Above: transports.py, and proxy/hosting, which starts servers under another user. The SDK's own stdio transport ends the
group only when the leader outlives its stdin, keeps no stderr and logs every stray line with a traceback;
docs/decisions/0003 says why this replaces it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from proxy.catalog.text import one_line
from proxy.servers.messages import read_message
from proxy.servers.orphans import Orphans

# What a child may inherit. Everything else, above all the gateway's own secrets, it gets from its `env` or not at all.
INHERITED = frozenset(
    {
        *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ"),
        *("TMPDIR", "TEMP", "TMP", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("APPDATA", "LOCALAPPDATA", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE"),
    }
)

MAX_LINE_BYTES = 64 * 1024 * 1024
GRACES_S = (2.0, 2.0, 2.0)
"""How long a server gets after the end of its stdin, after SIGTERM and after SIGKILL."""
EXIT_POLL_S = 0.25

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


@dataclass(slots=True)
class LastWords:
    """What a failing connection left behind, for the error text."""

    stderr: deque[str] = field(default_factory=lambda: deque[str](maxlen=20))
    junk_lines: int = 0
    junk_sample: str = ""
    ended_by_itself: bool = False
    exit_code: int | None = None
    """Of a server that ended by itself; another one's tells only how we ended it."""
    lost: str = ""
    """Why nothing is known of its end."""

    def describe(self) -> str:
        parts: list[str] = [self.lost] if self.lost else []
        if self.exit_code is not None:
            parts.append(f"it exited with code {self.exit_code}")
        if self.junk_lines:
            parts.append(f"it printed {self.junk_lines} lines on stdout that are not MCP, such as {self.junk_sample!r}")
        if self.stderr:
            parts.append("its last words on stderr: " + " | ".join(list(self.stderr)[-5:]))
        return "; ".join(parts)


def child_environment(own: Mapping[str, str], inherited: Mapping[str, str]) -> dict[str, str]:
    """The allow-listed part of `inherited` (shell functions and proxies with credentials dropped), then `own`.

    The folder of our own interpreter comes last on PATH, so that a `uvx` installed beside the gateway is found.
    """
    environment = {
        name: value
        for name, value in inherited.items()
        if name in INHERITED and not value.startswith("()") and not ("proxy" in name.lower() and "@" in value)
    }
    folders = [environment.get("PATH", os.defpath), str(Path(sys.executable).parent)]
    environment["PATH"] = os.pathsep.join(folders)
    return environment | dict(own)


class Running(Protocol):
    """A server that was started, wherever it runs."""

    @property
    def stdin(self) -> ByteSendStream: ...
    @property
    def stdout(self) -> ByteReceiveStream: ...
    @property
    def stderr(self) -> ByteReceiveStream: ...
    @property
    def exit_code(self) -> int | None:
        """Of its leader, once that is known; that of a signal is negative."""
        ...

    @property
    def lost(self) -> str:
        """Why its exit code will never be known; empty as long as it can be."""
        ...

    async def ended(self) -> None:
        """Return when the leader has ended or is lost."""
        ...

    async def end(self) -> None:
        """Close stdin, leave nothing of the process group, and close everything; takes `sum(GRACES_S)` or a little
        more at most. Not to be cancelled: shield it."""
        ...


class _Child:
    """A server that is a child of this process."""

    def __init__(self, process: Process, orphans: Orphans | None) -> None:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr
        self.lost = ""
        self._process = process
        self._orphans = orphans

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode

    async def ended(self) -> None:
        # Polled: Process.wait() also waits for the pipes, which an orphan may hold open.
        while self._process.returncode is None:
            await anyio.sleep(EXIT_POLL_S)

    async def end(self) -> None:
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self.stdin.aclose()
        await end_group(self._process, GRACES_S)
        if self._orphans is not None:
            await self._orphans.ended(self._process)


def stdio_process(
    command: str,
    args: tuple[str, ...],
    *,
    env: Mapping[str, str],
    cwd: str | None,
    last_words: LastWords,
    orphans: Orphans | None = None,
) -> AbstractAsyncContextManager[Streams]:
    """Start the server as a child and yield its message streams. On exit nothing of its process group is left; with
    `orphans` nothing is left either when this process is killed.

    Raises:
        OSError: The command cannot be started.
    """

    async def start() -> Running:
        process: Process | None = None
        # Cancelled between the fork and its return, it would leave a child that nobody ends.
        with anyio.CancelScope(shield=True):
            if orphans is not None:
                process = await orphans.start(command, args, env, cwd)
            else:
                process = await anyio.open_process([command, *args], env=env, cwd=cwd, start_new_session=True)
        assert process is not None
        return _Child(process, orphans)

    return message_streams(start, last_words)


@asynccontextmanager
async def message_streams(start: Callable[[], Awaitable[Running]], last_words: LastWords) -> AsyncGenerator[Streams]:
    """Start a server and yield its message streams; on exit it is ended. Raises what `start` raises."""
    running = await start()
    incoming_send, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](64)
    outgoing, outgoing_receive = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read_messages, running.stdout, incoming_send, last_words)
            tasks.start_soon(_write_messages, running.stdin, outgoing_receive, incoming_send)
            tasks.start_soon(_read_stderr, running.stderr, last_words)
            tasks.start_soon(_notice_end, running, incoming_send, last_words)
            try:
                yield incoming, outgoing
            finally:
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            for stream in (incoming, incoming_send, outgoing, outgoing_receive):
                stream.close()
            await running.end()
            if last_words.ended_by_itself:
                last_words.exit_code, last_words.lost = running.exit_code, running.lost


async def _lines(stream: ByteReceiveStream) -> AsyncIterator[bytes]:
    parts: list[bytes] = []
    size = 0
    async for chunk in stream:
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            parts.append(line)
            yield b"".join(parts)
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > MAX_LINE_BYTES:
            raise ValueError(f"a line of more than {MAX_LINE_BYTES} bytes")


async def _read_messages(
    stdout: ByteReceiveStream, incoming: MemoryObjectSendStream[SessionMessage | Exception], last_words: LastWords
) -> None:
    # Closing `incoming` is how the session learns that the server is gone.
    with incoming, suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError, ValueError):
        async for line in _lines(stdout):
            if not line.strip():
                continue
            message = read_message(line)
            if message is None:
                last_words.junk_lines += 1
                last_words.junk_sample = last_words.junk_sample or one_line(line[:400].decode("utf-8", "replace"), 120)
                continue
            await incoming.send(SessionMessage(message))
        last_words.ended_by_itself = True


async def _write_messages(
    stdin: ByteSendStream,
    outgoing: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    try:
        async for message in outgoing:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await stdin.send(text.encode() + b"\n")
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        # A server that closed its stdin while alive would leave callers waiting for ever.
        incoming.close()


async def _read_stderr(stderr: ByteReceiveStream, last_words: LastWords) -> None:
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError, ValueError):
        async for line in _lines(stderr):
            if text := one_line(line[:4000].decode("utf-8", "replace"), 400):
                last_words.stderr.append(text)


async def _notice_end(
    running: Running, incoming: MemoryObjectSendStream[SessionMessage | Exception], last_words: LastWords
) -> None:
    """End the session of a server that died: a child it left behind may hold its stdout open for ever."""
    await running.ended()
    # What it wrote last is still being read.
    await anyio.sleep(EXIT_POLL_S)
    last_words.ended_by_itself = True
    incoming.close()


async def end_group(process: Process, graces_s: tuple[float, float, float]) -> None:
    """Wait for the end that a closed stdin brings, then SIGTERM, then SIGKILL: to the group, since `sh -c` and npx
    leave children behind. `graces_s`: seconds that each of the three gets. Not to be cancelled: shield it."""
    stdin_s, term_s, kill_s = graces_s
    await _until(lambda: process.returncode is not None, stdin_s)
    for sign, grace_s in ((signal.SIGTERM, term_s), (signal.SIGKILL, kill_s)):
        if process.returncode is not None and not _group_alive(process.pid):
            break
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
        await _until(lambda: process.returncode is not None and not _group_alive(process.pid), grace_s)
    with suppress(Exception):
        # A child outside the group can still hold the pipes; without this their transports warn at collection.
        await process.aclose()


def _group_alive(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


async def _until(done: object, limit_s: float) -> None:
    # Polled: Process.wait() also waits for the pipes, which an orphan may hold open.
    assert callable(done)
    with anyio.move_on_after(limit_s):
        while not done():
            await anyio.sleep(0.01)
