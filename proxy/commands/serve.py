"""`toolatlas serve`: the gateway as a process."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import anyio
import typer
import uvicorn

from proxy import __version__
from proxy.app import App, build
from proxy.endpoint.running import GatewayRecord, Registry
from proxy.errors import ConfigurationError
from proxy.settings import DEFAULT_PORT, Folders, Settings, check_mode

LOG_LEVELS = ("debug", "info", "warning", "error")


def register(app: typer.Typer) -> None:
    app.command("serve")(serve)


def serve(
    config: Annotated[Path | None, typer.Option(help="The mcpServers file.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; others than loopback need tokens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = DEFAULT_PORT,
    mode: Annotated[str, typer.Option(help="What /mcp shows: search or direct.")] = "search",
    allowed_host: Annotated[list[str] | None, typer.Option(help="Further Host header to accept.")] = None,
    max_request_bytes: Annotated[int, typer.Option(help="Largest request accepted.")] = 4 * 1024 * 1024,
    result_limit: Annotated[int, typer.Option(help="Bytes of a result shown at once.")] = 10_000,
    exit_when_idle: Annotated[float | None, typer.Option(help="Exit after this many idle seconds.")] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve the configured servers to MCP clients at http://HOST:PORT/mcp."""
    folders = Folders.from_environment(os.environ)
    settings = Settings(
        config=(config or folders.config).expanduser().resolve(),
        host=host,
        port=port,
        mode=check_mode(mode),
        allowed_hosts=tuple(allowed_host or ()),
        state_dir=folders.state_dir,
        cache_dir=folders.cache_dir,
        max_request_bytes=max_request_bytes,
        result_limit=result_limit,
        exit_when_idle_s=exit_when_idle,
    )
    _log_to_stderr(log_level)
    built = build(settings, os.environ)
    with _listen(settings) as listener:
        actual_port = listener.getsockname()[1]
        url = f"http://{f'[{host}]' if ':' in host else host}:{actual_port}/mcp"
        registry = Registry(settings.state_dir)
        registry.announce(
            GatewayRecord(
                pid=os.getpid(),
                url=url,
                config=str(settings.config),
                version=__version__,
                started_at=datetime.now(UTC).isoformat(),
            )
        )
        typer.echo(f"toolatlas {__version__} serves {settings.config} at {url}", err=True)
        try:
            anyio.run(_run, built, settings, listener, backend_options={"use_uvloop": sys.platform != "win32"})
        finally:
            registry.withdraw()


def _log_to_stderr(level: str) -> None:
    """Readable lines, but for the steps: those are JSON, one object a line, for machines to take out."""
    if level.lower() not in LOG_LEVELS:
        raise ConfigurationError(f"--log-level is one of {', '.join(LOG_LEVELS)}, not {level!r}")
    logging.basicConfig(stream=sys.stderr, level=level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for noisy in ("httpx2", "mcp", "bm25s", "uvicorn", "watchfiles"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    steps = logging.getLogger("toolatlas.steps")
    steps.addHandler(logging.StreamHandler(sys.stderr))
    steps.propagate = False


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        # From here on connections queue, so that whoever finds the record below can already ask /healthz.
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"cannot listen on {settings.host} port {settings.port} ({error.strerror}): "
            "another program uses it, perhaps another gateway; stop that one or choose another --port"
        ) from error
    return listener


async def _run(built: App, settings: Settings, listener: socket.socket) -> None:
    config = uvicorn.Config(
        built.http,
        log_config=None,
        access_log=False,
        http="httptools",
        lifespan="on",
        # Clients keep connections for their next call; the default of 5 s would cut them in between.
        timeout_keep_alive=120,
        timeout_graceful_shutdown=5,
    )
    server = _Server(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_exit_on_signal, server)
        if settings.exit_when_idle_s is not None:
            tasks.start_soon(_exit_when_idle, server, built, settings.exit_when_idle_s)
        await server.serve(sockets=[listener])
        tasks.cancel_scope.cancel()


class _Server(uvicorn.Server):
    """Uvicorn would raise the signal again once it is done, which ends the process before it has cleaned up."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def _exit_on_signal(server: uvicorn.Server) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            # A second one means that somebody does not want to wait for open streams.
            server.force_exit = server.should_exit
            server.should_exit = True


async def _exit_when_idle(server: uvicorn.Server, built: App, limit_s: float) -> None:
    while built.activity.idle_s < limit_s:
        await anyio.sleep(min(5.0, limit_s / 4))
    server.should_exit = True
