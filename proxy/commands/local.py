"""A gateway inside the command's own process, for commands that look or try without serving."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import typer

from proxy.catalog.text import visible_json
from proxy.errors import GatewayError
from proxy.servers.configfile import Configuration, load
from proxy.settings import Folders, Settings

if TYPE_CHECKING:
    from proxy.app import App

T = TypeVar("T")


def settings_for(config: Path | None) -> Settings:
    """Settings of a command that listens nowhere."""
    folders = Folders.from_environment(os.environ)
    return Settings(
        config=(config or folders.config).expanduser().resolve(),
        state_dir=folders.state_dir,
        cache_dir=folders.cache_dir,
    )


def with_gateway(config: Path | None, work: Callable[[App], Awaitable[T]], only: str | None = None) -> T:
    """Run `work` on a live gateway over the configuration, or over one of its servers alone.

    Raises:
        GatewayError: The configuration is not usable, or what `work` raises.
    """
    settings = settings_for(config)
    configuration = load(settings.config, os.environ)
    if only is not None:
        kept = tuple(server for server in configuration.servers if server.name == only)
        configuration = Configuration(configuration.path, kept, ())

    return with_configuration(settings, configuration, work)


def with_configuration(settings: Settings, configuration: Configuration, work: Callable[[App], Awaitable[T]]) -> T:
    """Run `work` on a live gateway over a configuration that need not be a file.

    Raises:
        GatewayError: What `work` raises.
    """

    # Most commands that answer by `emit` never have a gateway.
    from proxy.app import build

    async def run() -> T:
        app = build(settings, os.environ, configuration=configuration, recorders=())
        async with app.gateway.running(configuration):
            try:
                return await work(app)
            except GatewayError as error:
                # Raised outside, for a task group would wrap it.
                failure = error
        raise failure

    return anyio.run(run)


def emit(value: Any, as_json: bool, text: Callable[[], None]) -> None:
    """The answer of a command: one JSON document on stdout, or what `text` prints."""
    if as_json:
        typer.echo(visible_json(value, indent=2))
    else:
        text()
