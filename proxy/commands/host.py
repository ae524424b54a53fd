"""`toolatlas host-servers`: starts stdio servers for a gateway, under the user that this command runs as.

Above: cli.py. Below: proxy/hosting. The gateway is told of it with --servers-host.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from proxy.errors import ConfigurationError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("host-servers")(host_servers)


def host_servers(
    socket: Annotated[Path, typer.Option("--socket", metavar="PATH", help="Unix socket to listen at.")],
    allow_uid: Annotated[
        list[int] | None,
        typer.Option("--allow-uid", min=0, help="Number of a user whose gateway may start servers; else our own."),
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Group that can connect; else all users if others are allowed.")
    ] = None,
) -> None:
    """Start stdio servers for a gateway that runs as another user, and end them with it."""
    if os.geteuid() == 0:
        raise ConfigurationError(
            "servers would run as root, which can read everything: run toolatlas host-servers as a user of its own"
        )
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    import anyio

    allowed = frozenset(allow_uid or [os.geteuid()])
    anyio.run(_serve, socket, allowed, group, backend_options={"use_uvloop": True})


async def _serve(path: Path, allowed: frozenset[int], group: str | None) -> None:
    import anyio

    from proxy.hosting.host import Host
    from proxy.hosting.listening import listening

    logger = logging.getLogger("toolatlas.hosting")
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with listening(path, allowed, group) as listener, anyio.create_task_group() as tasks:
            tasks.start_soon(Host(allowed, os.environ).serve, listener)
            logger.info("servers run as user %d; users who may start them: %s", os.geteuid(), sorted(allowed))
            async for sign in signals:
                logger.info("ends its servers: %s", sign.name)
                break
            tasks.cancel_scope.cancel()
