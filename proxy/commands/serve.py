"""`toolatlas serve`: the gateway as a process."""

from __future__ import annotations

import logging
import math
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
from uvicorn.lifespan.on import LifespanOn

from proxy import __version__
from proxy.app import App, build, check, choose_backend
from proxy.commands.agent import EndpointOption, LimitOption, ModelOption, VariantOption, model_settings
from proxy.endpoint.draining import Draining
from proxy.endpoint.running import GatewayRecord, Registry
from proxy.errors import ConfigurationError
from proxy.observing.exporting import configured
from proxy.router.encoder import DEFAULT_ENCODER
from proxy.router.launching import Launched
from proxy.settings import (
    DEFAULT_PORT,
    Folders,
    OAuth,
    Settings,
    check_explore,
    check_level,
    check_mode,
    check_peers,
    check_public_url,
    check_replica,
    check_router,
    check_sandbox,
    check_sure,
)

logger = logging.getLogger("toolatlas.serve")

LOG_LEVELS = ("debug", "info", "warning", "error")

IssuerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--oauth-issuer", envvar="TOOLATLAS_OAUTH_ISSUER", help="Take access tokens of this authorization server."
    ),
]
RouterOption = Annotated[
    str,
    typer.Option(
        envvar="TOOLATLAS_ROUTER",
        help="What ranks tools for searches: auto, lexical, fused, slm:MODEL or endpoint:URL#MODEL.",
    ),
]
RouterModelOption = Annotated[
    str,
    typer.Option(
        envvar="TOOLATLAS_ROUTER_MODEL", metavar="NAME_OR_PATH", help="Encoder: a package, a folder or a hub's name."
    ),
]
AdaptersOption = Annotated[
    Path | None,
    typer.Option(
        envvar="TOOLATLAS_ADAPTERS",
        metavar="FOLDER",
        help="Where promoted adapters lie; `adapters` in the state folder if not given.",
    ),
]
JwksOption = Annotated[
    str | None, typer.Option("--oauth-jwks-url", envvar="TOOLATLAS_OAUTH_JWKS_URL", help="Where its keys are.")
]


def register(app: typer.Typer) -> None:
    app.command("serve")(serve)


def serve(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(help="The mcpServers file.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; others than loopback need tokens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = DEFAULT_PORT,
    mode: Annotated[str, typer.Option(help="What /mcp shows: search or direct.")] = "search",
    allowed_host: Annotated[list[str] | None, typer.Option(help="Further Host header to accept.")] = None,
    public_url: Annotated[
        str | None,
        typer.Option(envvar="TOOLATLAS_PUBLIC_URL", help="Address that agents reach it under, without /mcp."),
    ] = None,
    oauth_issuer: IssuerOption = None,
    oauth_audience: Annotated[
        str | None,
        typer.Option(envvar="TOOLATLAS_OAUTH_AUDIENCE", help="What `aud` must say, if not the address of /mcp."),
    ] = None,
    oauth_scope: Annotated[
        list[str] | None, typer.Option(envvar="TOOLATLAS_OAUTH_SCOPE", help="Scope that access tokens must have.")
    ] = None,
    oauth_jwks_url: JwksOption = None,
    max_request_bytes: Annotated[int, typer.Option(help="Largest request accepted.")] = 4 * 1024 * 1024,
    result_limit: Annotated[int, typer.Option(help="Bytes of a result shown at once.")] = 10_000,
    router: RouterOption = "auto",
    router_model: RouterModelOption = DEFAULT_ENCODER,
    router_budget_ms: Annotated[
        int,
        typer.Option(
            min=1, envvar="TOOLATLAS_ROUTER_BUDGET_MS", help="How long a search waits before it goes by words alone."
        ),
    ] = 150,
    router_adapter: Annotated[
        Path | None,
        typer.Option(
            envvar="TOOLATLAS_ROUTER_ADAPTER", help="Folder of the adapter to serve with, whatever is promoted."
        ),
    ] = None,
    adapters: AdaptersOption = None,
    follow: Annotated[
        float,
        typer.Option(
            min=0.1, envvar="TOOLATLAS_FOLLOW", help="Seconds between two looks at which adapter is promoted."
        ),
    ] = 5.0,
    sandbox: Annotated[
        str, typer.Option(envvar="TOOLATLAS_SANDBOX", help="Where agents' code runs: auto, docker, embedded or off.")
    ] = "auto",
    sandbox_limit: Annotated[
        list[str] | None,
        typer.Option(envvar="TOOLATLAS_SANDBOX_LIMITS", help="A limit of that code, such as memory_bytes=512m."),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(
            envvar="TOOLATLAS_DATABASE",
            help="Where agents' steps are logged: sqlite:///PATH, postgresql://…, or none; a file of the state folder"
            " if not given.",
        ),
    ] = None,
    log: Annotated[
        str, typer.Option(envvar="TOOLATLAS_LOG", help="The most that is logged of a step: full, metadata or off.")
    ] = "full",
    redact: Annotated[
        list[str] | None,
        typer.Option(envvar="TOOLATLAS_REDACT", help="Regular expression of what must not be logged."),
    ] = None,
    retention_days: Annotated[
        int | None,
        typer.Option(min=1, envvar="TOOLATLAS_RETENTION_DAYS", help="Delete logged episodes after this many days."),
    ] = None,
    explore: Annotated[
        float,
        typer.Option(envvar="TOOLATLAS_EXPLORE", help="Share of searches of which two neighbours are swapped."),
    ] = 0.02,
    sure_one: Annotated[
        float, typer.Option(envvar="TOOLATLAS_SURE_ONE", help="Entropy up to which one tool is shown, in nats.")
    ] = 0.4,
    sure_two: Annotated[
        float, typer.Option(envvar="TOOLATLAS_SURE_TWO", help="Entropy up to which two are shown, in nats.")
    ] = 1.0,
    agent_model: ModelOption = None,
    agent_url: EndpointOption = None,
    agent_variant: VariantOption = "tools",
    agent_limit: LimitOption = None,
    broker: Annotated[
        Path | None,
        typer.Option(envvar="TOOLATLAS_BROKER", help="Socket of `toolatlas broker`, in place of the Docker engine's."),
    ] = None,
    servers_host: Annotated[
        Path | None,
        typer.Option(envvar="TOOLATLAS_SERVERS_HOST", help="Socket of `toolatlas host-servers`: it starts servers."),
    ] = None,
    replica: Annotated[
        str, typer.Option(envvar="TOOLATLAS_REPLICA", help="Name of this gateway among several behind one address.")
    ] = "0",
    peer: Annotated[
        list[str] | None,
        typer.Option(
            envvar="TOOLATLAS_PEERS", metavar="NAME=URL", help="Another gateway behind the same address, for its tasks."
        ),
    ] = None,
    exit_when_idle: Annotated[float | None, typer.Option(help="Exit after this many idle seconds.")] = None,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that calls in flight get to end after SIGTERM.")] = 5.0,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve the configured servers to MCP clients at http://HOST:PORT/mcp."""
    folders = Folders.from_environment(os.environ)
    peers = check_peers(peer or ())
    if peers and not peers.keys() - {replica}:
        # Tasks of all of them would bear one name, and nothing would be passed on.
        raise ConfigurationError(
            f"--peer names no gateway but {replica!r}, which is this one: give each a --replica of its own"
        )
    settings = Settings(
        config=(config or folders.config).expanduser().resolve(),
        host=host,
        port=port,
        mode=check_mode(mode),
        allowed_hosts=tuple(allowed_host or ()),
        public_url=check_public_url(public_url),
        oauth=_oauth(oauth_issuer, oauth_audience, oauth_scope, oauth_jwks_url),
        state_dir=folders.state_dir,
        cache_dir=folders.cache_dir,
        max_request_bytes=max_request_bytes,
        result_limit=result_limit,
        router=check_router(router),
        router_model=router_model,
        router_budget_ms=router_budget_ms,
        router_adapter=None if router_adapter is None else router_adapter.expanduser().resolve(),
        adapters=None if adapters is None else adapters.expanduser().resolve(),
        follow_s=follow,
        sandbox=check_sandbox(sandbox),
        sandbox_limits=tuple(sandbox_limit or ()),
        database=_database(database, folders),
        log=check_level(log),
        redact=tuple(redact or ()),
        retention_days=retention_days,
        explore=check_explore(explore),
        sure_one=sure_one,
        sure_two=check_sure(sure_one, sure_two),
        agent=model_settings(agent_model, agent_url),
        agent_variant=agent_variant,
        agent_limits=tuple(agent_limit or ()),
        broker=broker,
        servers_host=servers_host,
        replica=check_replica(replica),
        peers=peers,
        exit_when_idle_s=exit_when_idle,
        grace_s=grace,
    )
    _log_to_stderr(log_level)
    check(settings, os.environ)
    # What is in it is private one by one; that others cannot even list it is one thing less to get wrong.
    settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
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
        try:
            anyio.run(
                _run, settings, listener, url, context.obj, backend_options={"use_uvloop": sys.platform != "win32"}
            )
        finally:
            registry.withdraw()


def _database(given: str | None, folders: Folders) -> str | None:
    if given is None:
        return folders.database
    return None if given == "none" else given


def _oauth(
    issuers: list[str] | None, audience: str | None, scopes: list[str] | None, jwks_url: str | None
) -> OAuth | None:
    if issuers:
        return OAuth(issuers=tuple(issuers), audience=audience, scopes=tuple(scopes or ()), jwks_url=jwks_url)
    if audience or scopes or jwks_url:
        raise ConfigurationError("--oauth-audience, --oauth-scope and --oauth-jwks-url need an --oauth-issuer")
    return None


def _log_to_stderr(level: str) -> None:
    """Readable lines, but for the steps: those are JSON, one object a line, for machines to take out."""
    if level.lower() not in LOG_LEVELS:
        raise ConfigurationError(f"--log-level is one of {', '.join(LOG_LEVELS)}, not {level!r}")
    logging.basicConfig(stream=sys.stderr, level=level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for noisy in ("httpx2", "mcp", "bm25s", "uvicorn", "watchfiles"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    # A server whose connection breaks is no fault of ours; the supervisor says so in one line.
    logging.getLogger("mcp.client").setLevel(logging.CRITICAL)
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


async def _run(settings: Settings, listener: socket.socket, url: str, launched: Launched | None) -> None:
    built = build(
        settings,
        os.environ,
        backend=await choose_backend(settings, os.environ),
        traces=configured(os.environ, replica=settings.replica),
        launched=launched,
    )
    if launched is not None:
        launched.end()
    typer.echo(f"toolatlas {__version__} serves {settings.config} at {url}", err=True)
    http = Draining(built.http)
    config = uvicorn.Config(
        http,
        log_config=None,
        access_log=False,
        # Who a request comes from is counted at sign-in: nobody may write that into a header.
        proxy_headers=False,
        http="httptools",
        lifespan="on",
        # Clients keep connections for their next call; the default of 5 s would cut them in between.
        timeout_keep_alive=120,
        # Whatever does not end even when it is cancelled.
        timeout_graceful_shutdown=math.ceil(settings.grace_s) + 5,
    )
    server = GatewayServer(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_exit_on_signal, server, http, settings.grace_s)
        if settings.exit_when_idle_s is not None:
            tasks.start_soon(_exit_when_idle, server, built, settings.exit_when_idle_s)
        await server.serve(sockets=[listener])
        tasks.cancel_scope.cancel()
    if server.crashed:
        logger.critical("the gateway has crashed; the lines above say where. Start it again, and report it")
        raise typer.Exit(1)


class GatewayServer(uvicorn.Server):
    """Uvicorn would raise the signal again once it is done, which ends the process before it has cleaned up."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    @property
    def crashed(self) -> bool:
        """The gateway's own tasks have ended by a defect, so that nothing would be answered any more."""
        return isinstance(self.lifespan, LifespanOn) and self.lifespan.error_occurred

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self.crashed


async def _exit_on_signal(server: uvicorn.Server, http: Draining, grace_s: float) -> None:
    async def give_up() -> None:
        await anyio.sleep(grace_s)
        http.give_up()

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            async for _ in signals:
                # A second one means that somebody does not want to wait for open calls.
                server.force_exit = server.should_exit
                server.should_exit = True
                http.begin()
                tasks.start_soon(give_up)


async def _exit_when_idle(server: uvicorn.Server, built: App, limit_s: float) -> None:
    while built.activity.idle_s < limit_s:
        await anyio.sleep(min(5.0, limit_s / 4))
    server.should_exit = True
