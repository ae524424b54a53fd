"""Notices logins made while the gateway serves, and lists again the servers that were waiting for one.

Above: the composition root. Below: pool.py and the folder of logins. A call needs none of this, since it looks for the
login itself; but a server that was never listed has no tools that could be called.
"""

from __future__ import annotations

import logging
from pathlib import Path

import anyio

from proxy.errors import GatewayError
from proxy.servers.pool import Pool
from proxy.servers.supervisor import Phase

logger = logging.getLogger("toolatlas.servers")

LOOK_S = 1.0


async def watch_logins(folder: Path, pool: Pool) -> None:
    """Runs until cancelled."""
    seen = _changed_at(folder)
    while True:
        await anyio.sleep(LOOK_S)
        now = _changed_at(folder)
        if now == seen:
            continue
        seen = now
        for name, config in list(pool.configs.items()):
            if config.url and config.usable and pool.state(name).phase is Phase.DOWN:
                try:
                    await pool.refresh(name)
                except GatewayError as error:
                    logger.debug("listing %s after a login: %s", name, error)


def _changed_at(folder: Path) -> int:
    """Of the folder, which a new file in it changes."""
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0
