"""`toolatlas broker`: alone reaches the Docker engine, and gives gateways containers of one template over a socket.

Above: cli.py. Below: broker/ and sandbox/. Everything about the containers is decided here, from these options and this
installation's image, before the first gateway connects.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio
import anyio.to_thread
import typer

from proxy import __version__
from proxy.broker.listening import listening
from proxy.broker.server import Broker
from proxy.errors import ConfigurationError, SandboxError
from proxy.sandbox.base import Limits
from proxy.sandbox.choosing import try_out
from proxy.sandbox.engine import Engine
from proxy.sandbox.engine_source import EngineSource
from proxy.sandbox.image import ensure_image
from proxy.sandbox.limits import limits_of
from proxy.settings import Folders

SPARE = 8
"""Containers beyond those that gateways use and keep ready: some are still starting or being removed."""

logger = logging.getLogger("toolatlas.broker")


def register(app: typer.Typer) -> None:
    app.command("broker")(broker)


def broker(
    socket: Annotated[
        Path, typer.Option(envvar="TOOLATLAS_BROKER", help="Where to listen: a Unix socket, given to gateways too.")
    ],
    group: Annotated[
        int | None, typer.Option(min=0, help="Number of a group that can reach the socket; else this user alone can.")
    ] = None,
    user: Annotated[
        list[int] | None,
        typer.Option(envvar="TOOLATLAS_BROKER_USER", min=0, help="Number of a user that is served beside this one."),
    ] = None,
    sandbox_limit: Annotated[
        list[str] | None,
        typer.Option(envvar="TOOLATLAS_SANDBOX_LIMITS", help="A limit of containers, such as memory_bytes=512m."),
    ] = None,
) -> None:
    """Start containers for run_python of gateways, which then need no access to the Docker engine."""
    logging.basicConfig(stream=sys.stderr, level="INFO", format="%(asctime)s %(levelname)s %(name)s %(message)s")
    limits = limits_of(sandbox_limit or ())
    folder = Folders.from_environment(os.environ).state_dir / "broker"
    anyio.run(_run, socket.absolute(), group, frozenset({os.geteuid(), *(user or ())}), limits, folder)


async def _run(path: Path, group: int | None, users: frozenset[int], limits: Limits, folder: Path) -> None:
    source = await _source(limits, folder)
    # Not before: where there is a socket, there are containers.
    with listening(path, group) as listener:
        async with source.running(), anyio.create_task_group() as tasks:
            most = limits.interpreters + limits.warm + SPARE
            tasks.start_soon(Broker(source, most=most, users=users).serve, listener)
            typer.echo(f"toolatlas {__version__} gives containers at {path}", err=True)
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    break
            tasks.cancel_scope.cancel()


async def _source(limits: Limits, folder: Path) -> EngineSource:
    """Raises ConfigurationError where no container can be started."""
    try:
        engine = await anyio.to_thread.run_sync(lambda: Engine.connect(os.environ))
        provide = partial(ensure_image, note=logger.info)
        source = EngineSource(engine, await anyio.to_thread.run_sync(lambda: provide(engine.client)), limits, folder)
        await try_out(source, limits)
    except SandboxError as error:
        raise ConfigurationError(f"the broker cannot start containers: {error}") from error
    return source
