"""Notices that the configuration file changed while the gateway runs.

Above: the composition root, which applies a new `Configuration`. Below: configfile.py and the watchfiles library.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from pathlib import Path

import anyio
from anyio import to_thread
from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]  (its stop_event may be trio's)

from proxy.errors import ConfigurationError
from proxy.servers.configfile import Configuration, load

QUIET_MS = 50
LONGEST_WAIT_MS = 500
"""A writer that never rests is read after this time all the same."""
LOOK_MS = 1_000
"""Network and container mounts report no changes, so the content is also compared this often."""


async def watch(
    path: Path,
    environ: Mapping[str, str],
    on_change: Callable[[Configuration], Awaitable[None]],
    on_error: Callable[[ConfigurationError], None],
    *,
    current: Configuration | None = None,
) -> None:
    """Runs until cancelled; hands over each configuration that differs from the one before.

    `current` is what is in force already; without it, what the file says at the start. A file that cannot be used
    goes to `on_error`, once for each content, and what was in force stays.
    """
    file = _File(path, environ)
    stop = anyio.Event()
    # The folders, not the file: editors put a new file in its place, and it may be a link.
    folders = {path.parent, Path(await anyio.Path(path).resolve()).parent}
    events = awatch(
        *folders, watch_filter=None, recursive=False, debounce=LONGEST_WAIT_MS, step=QUIET_MS,
        rust_timeout=LOOK_MS, yield_on_timeout=True, stop_event=stop,
    )  # fmt: skip
    async with aclosing(events), anyio.create_task_group() as group:
        group.start_soon(_set_when_cancelled, stop)
        while True:
            try:
                found = await file.changed()
            except ConfigurationError as error:
                on_error(error)
            else:
                if found is not None and current is None:
                    current = found
                elif found is not None and found != current:
                    current = found
                    await on_change(found)
            try:
                await anext(events)
            except (OSError, StopAsyncIteration):
                # No folder, or no watches left in the system: looking now and then still works.
                await anyio.sleep(LOOK_MS / 1000)


class _File:
    """Reads the file again only when its bytes differ from the last time."""

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self.path = path
        self.environ = environ
        self.seen: bytes | str = ""

    async def changed(self) -> Configuration | None:
        """What the file says now; None when its bytes are the same as before."""
        now = await to_thread.run_sync(self.content)
        if now == self.seen:
            return None
        self.seen = now
        return await to_thread.run_sync(load, self.path, self.environ)

    def content(self) -> bytes | str:
        """The bytes, or why there are none."""
        try:
            return self.path.read_bytes()
        except OSError as error:
            return str(error)


async def _set_when_cancelled(event: anyio.Event) -> None:
    """The thread that waits for changes cannot be cancelled; it looks at this event."""
    try:
        await anyio.sleep_forever()
    finally:
        event.set()
