"""Composition root: settings in, wired gateway out. Nothing else constructs its own collaborators."""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import anyio
from fastapi import FastAPI
from mcp.server import Server, ServerRequestContext
from mcp.server.transport_security import TransportSecuritySettings

from proxy import __version__
from proxy.broker.client import BrokerSource
from proxy.catalog.cache import ListingCache
from proxy.catalog.prior import Prior
from proxy.dashboard.application import Dashboard, build_dashboard
from proxy.dashboard.guard import Guard
from proxy.dashboard.servers import ServerLine
from proxy.dashboard.sessions import Sessions
from proxy.endpoint.authentication import agent_label
from proxy.endpoint.http import Activity, build_http, transport_security
from proxy.endpoint.resource_server import ResourceServer
from proxy.endpoint.server import Endpoint
from proxy.endpoint.tokens import TokenStore
from proxy.errors import ConfigurationError
from proxy.gateway import Gateway
from proxy.hosting.client import HostClient
from proxy.logbook import Logbook
from proxy.metatools.delegating import Delegates
from proxy.metatools.finding import Showing
from proxy.metatools.interpreters import Interpreters
from proxy.metatools.shadowing import ShadowLog
from proxy.observing.exporting import Traces
from proxy.observing.exposition import metrics_route, registry_of
from proxy.observing.gauges import Readings, RouterReading
from proxy.observing.metrics import MetricsRecorder
from proxy.observing.requests import TracedRequests
from proxy.observing.servers import traced
from proxy.observing.steps import StepSpans
from proxy.policy.limits import work_limits
from proxy.policy.making import check_remote, variant_of
from proxy.policy.probe import may_be_offered
from proxy.router.adapters import MANIFEST
from proxy.router.cutting import Certainty
from proxy.router.encoder import missing_package
from proxy.router.exploring import Explorer
from proxy.router.following import Following
from proxy.router.guard import CanaryGuard
from proxy.router.launching import EMBEDDINGS, Launched, missing_second, worker_command
from proxy.router.lexical import LexicalRouter
from proxy.router.process import RouterProcess, Timing
from proxy.router.serving import Serving
from proxy.sandbox.base import Backend, Limits
from proxy.sandbox.choosing import Wanted, choose
from proxy.sandbox.image import ensure_image
from proxy.sandbox.limits import limits_of
from proxy.servers.configfile import Configuration, load
from proxy.servers.login_watch import watch_logins
from proxy.servers.logins import LoginStore
from proxy.servers.oauth_tokens import Keyring
from proxy.servers.orphans import Orphans
from proxy.servers.pins import PinStore
from proxy.servers.process import GRACES_S
from proxy.servers.sealing import Sealer
from proxy.servers.supervisor import Phase
from proxy.servers.transports import OpenTransport, open_transport
from proxy.servers.watch import watch
from proxy.service import Service
from proxy.settings import Settings, check_sandbox
from proxy.store.recorder import Level, LogRecorder, Recorder
from proxy.store.redaction import Redactor
from proxy.store.redaction_key import redaction_key
from proxy.tasks import TaskStore

logger = logging.getLogger("toolatlas.app")

SWEEP_S = 30.0
SECOND_HANG_S = 120.0
"""A language model on a CPU may take that long for one question; it is late then, but does not hang."""


@dataclass(frozen=True, slots=True)
class App:
    """The wired parts."""

    gateway: Gateway
    server: Server[Any]
    http: FastAPI
    tokens: TokenStore
    activity: Activity
    service: Service
    interpreters: Interpreters | None
    """None with the sandbox off."""
    logbook: Logbook | None
    """None where nothing is logged."""
    serving: Serving | None
    """None where tools are ranked by words alone."""
    following: Following | None
    """None where no registry is followed."""


def login_store(settings: Settings, environ: Mapping[str, str]) -> LoginStore:
    """Where the logins to servers are kept; the commands that change them use the same."""
    return LoginStore(settings.state_dir / "logins", Sealer(settings.state_dir / "secret.key", environ))


async def choose_backend(settings: Settings, environ: Mapping[str, str]) -> Backend | None:
    """What runs agents' code until the gateway ends; None where nothing does.

    Raises:
        ConfigurationError: What was asked for by name cannot be had, or a limit cannot be meant.
    """
    wanted = cast(Wanted, check_sandbox(settings.sandbox))
    limits = limits_of(settings.sandbox_limits)
    image = partial(ensure_image, note=logger.info)
    folder = settings.state_dir / "sandbox"
    broker = BrokerSource(settings.broker) if settings.broker is not None else None
    choice = await choose(
        wanted, limits, folder=folder, environ=environ, image=image, embedded=_embedded, broker=broker
    )
    return choice.backend


def _embedded(limits: Limits) -> Backend:
    """Raises ImportError where this machine has no embedded interpreter."""
    # Its native library is loaded only where it is used.
    from proxy.sandbox.embedded import EmbeddedBackend

    return EmbeddedBackend(limits)


def build(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    configuration: Configuration | None = None,
    recorders: Sequence[Recorder] | None = None,
    transport: OpenTransport | None = None,
    backend: Backend | None = None,
    traces: Traces | None = None,
    launched: Launched | None = None,
) -> App:
    """Wire a gateway. `configuration` stands for the file that `settings.config` names, which is then not watched;
    `backend` runs agents' code, which without it they cannot; `traces` takes spans, of which there are none without it;
    `launched` becomes the router's process, if it runs the right one.

    Raises:
        ConfigurationError: The file is not usable, or tokens are required and there are none.
    """

    def may_be_named(server: str, tool: str) -> bool:
        return Level.OFF not in (settings.log, gateway.level(server, tool))

    tokens, resource_server = _gate(settings)
    first = configuration if configuration is not None else load(settings.config, environ)
    logins = login_store(settings, environ)
    host = None if settings.servers_host is None else HostClient(settings.servers_host)
    transport = transport or partial(open_transport, orphans=Orphans(GRACES_S), keyring=Keyring(logins), host=host)
    if traces is not None:
        transport = traced(transport, traces.tracer, may_be_named)
    pins = PinStore(settings.state_dir / "pins")
    listings = ListingCache(settings.cache_dir / "listings")
    serving = _serving(settings, launched)
    serve = None if serving is None else serving.serve
    gateway = Gateway(listings, transport, LexicalRouter, pins, serve=serve, roots=not settings.guarded)
    interpreters = None if backend is None else Interpreters(backend)
    key = redaction_key(settings.state_dir, environ)
    if recorders is None:
        recorders = (LogRecorder(Redactor(key, settings.redact).text),)
    # The log needs the service for what agents are told first, so its recorder joins the others last.
    recorders = list(recorders)
    delegates = delegates_of(settings)
    service = Service(settings, gateway, recorders, interpreters, _showing(settings, key), delegates)
    logbook = None
    if settings.database is not None:
        logbook = Logbook(settings.database, settings, key, gateway, service.introduced)
        recorders.append(logbook.recorder)
        if serving is not None:
            shadows = ShadowLog(logbook.recorder.shadow)
            recorders.append(shadows)
            serving.observers.append(shadows.shadowed)
    following = _following(settings, serving, logbook)

    def agent_of(context: ServerRequestContext[Any, Any]) -> str:
        return agent_label(context.request.scope) if context.request is not None else "local"

    endpoint = Endpoint(
        gateway,
        service.mode_of,
        agent_of,
        service.tasks,
        service.steps,
        replica=settings.replica,
        roots=not settings.guarded,
    )
    activity = Activity()

    @asynccontextmanager
    async def life() -> AsyncGenerator[None]:
        async with (
            nullcontext() if traces is None else traces.running(),
            nullcontext() if logbook is None else logbook.running(service),
            nullcontext() if serving is None else serving.process.running(),
            gateway.running(first),
            nullcontext() if interpreters is None else interpreters.running(),
            nullcontext() if delegates is None else delegates.running(),
            anyio.create_task_group() as background,
        ):
            background.start_soon(_sweep, service.tasks)
            if configuration is None:
                follow = partial(watch, current=first)
                background.start_soon(follow, settings.config, environ, gateway.apply, gateway.keep_configuration)
            background.start_soon(watch_logins, logins.folder, gateway.pool)
            background.start_soon(service.shapes.save_changes)
            if following is not None:
                background.start_soon(following.run)
            yield
            background.cancel_scope.cancel()

    server, security = endpoint.server(), transport_security(settings)
    registry = registry_of(_readings(settings, gateway, service, logbook, serving))
    service.steps.observers.append(MetricsRecorder(registry, service.metatools))
    if traces is not None:
        service.steps.observers.append(StepSpans(traces.tracer))
        # In place of the SDK's own, which stands there by itself.
        server.middleware[0] = TracedRequests(traces.tracer, service.metatools)
    dashboard = None if logbook is None else _dashboard(logbook, gateway, tokens, settings, security, key, following)
    guard = _guard(tokens, settings, security) if dashboard is None else dashboard.guard
    pages = (metrics_route(registry, guard), *(() if dashboard is None else dashboard.routes))
    http = build_http(gateway, server, tokens, settings, security, life, activity, resource_server, pages)
    return App(gateway, server, http, tokens, activity, service, interpreters, logbook, serving, following)


def _showing(settings: Settings, key: bytes) -> Showing:
    written = settings.database is not None and settings.log is Level.FULL
    return Showing(
        certainty=Certainty(one=settings.sure_one, two=settings.sure_two),
        explorer=Explorer(settings.explore if written else 0.0, key),
        prior=Prior(),
    )


def check(settings: Settings, environ: Mapping[str, str]) -> None:
    """Raise what `build` would, before anything is begun that takes time."""
    _gate(settings)
    load(settings.config, environ)
    limits_of(settings.sandbox_limits)
    delegates_of(settings)
    _serving(settings)


def delegates_of(settings: Settings) -> Delegates | None:
    """Whoever works the tasks that agents delegate; None where no model was named, or the one that was is not known to
    be able to.

    Raises:
        ConfigurationError: The model, the variant or a limit cannot be meant.
    """
    variant, limits = variant_of(settings.agent_variant), work_limits(settings.agent_limits)
    if settings.agent is None:
        return None
    check_remote(settings.agent)
    if not may_be_offered(settings.state_dir, settings.agent.identity):
        logger.warning(
            "delegate_task is not offered: the model %s has not passed its probe; `toolatlas doctor` tries it",
            settings.agent.identity,
        )
        return None
    return Delegates(settings.agent, variant, limits)


def _gate(settings: Settings) -> tuple[TokenStore, ResourceServer | None]:
    tokens = TokenStore(settings.state_dir / "tokens.json")
    resource_server = ResourceServer.of(settings)
    if settings.guarded and resource_server is None and tokens.empty:
        raise ConfigurationError(
            f"{settings.public_url or settings.host} can be reached by others, so agents need a token and there is "
            "none: run `toolatlas token create NAME`, name an issuer of access tokens with --oauth-issuer, or listen "
            "on 127.0.0.1"
        )
    return tokens, resource_server


def _dashboard(
    logbook: Logbook,
    gateway: Gateway,
    tokens: TokenStore,
    settings: Settings,
    security: TransportSecuritySettings,
    key: bytes,
    following: Following | None,
) -> Dashboard:
    servers = partial(_server_lines, gateway)
    followed = None if following is None else lambda: following.state
    return build_dashboard(logbook.database, tokens, servers, settings, security, key, followed)


def _following(settings: Settings, serving: Serving | None, logbook: Logbook | None) -> Following | None:
    """None where the registry has no say: without a router or a log, or with an adapter that was given by hand."""
    if serving is None or logbook is None or settings.router_adapter is not None:
        return None
    folder, by = settings.adapters_folder, f"gateway {settings.replica}"
    following = Following(serving, logbook.database, folder, every_s=settings.follow_s, by=by)
    CanaryGuard(serving, following.withdraw)
    return following


def _guard(tokens: TokenStore, settings: Settings, security: TransportSecuritySettings) -> Guard:
    """Of a gateway without pages: nobody can begin a session with it."""
    sessions = Sessions(secrets.token_bytes(32), tokens)
    return Guard(tokens, sessions, security, open_to_all=settings.open_pages, secure=False)


def _serving(settings: Settings, launched: Launched | None = None) -> Serving | None:
    """Raises ConfigurationError where a package is missing that was asked for, or the adapter is none."""
    adapter = settings.router_adapter
    if adapter is not None and not (adapter / MANIFEST).is_file():
        raise ConfigurationError(f"--router-adapter names {adapter}, where there is no {MANIFEST} of an adapter")
    if settings.router == "lexical":
        return None
    if (problem := missing_package(settings.router_model)) is not None:
        if settings.router != "auto":
            raise ConfigurationError(problem)
        logger.info("searches go by words alone: %s", problem)
        return None
    second, budget_s = settings.router_second, settings.router_budget_ms / 1000
    if (problem := missing_second(second)) is not None:
        raise ConfigurationError(problem)
    command = worker_command(settings.router_model, settings.cache_dir / EMBEDDINGS, second, budget_s)
    timing = Timing() if second is None else Timing(hang_s=SECOND_HANG_S)
    process = RouterProcess(command, timing, first=None if launched is None else launched.take(command))
    return Serving(process, budget_s, adapter)


def _readings(
    settings: Settings, gateway: Gateway, service: Service, logbook: Logbook | None, serving: Serving | None
) -> Readings:
    def phases() -> Mapping[str, int]:
        counts = Counter(gateway.pool.state(name).phase for name in gateway.pool.configs)
        return {phase.value: counts[phase] for phase in Phase}

    return Readings(
        version=__version__,
        replica=settings.replica,
        phases=phases,
        tools=lambda: len(gateway.catalog.tools),
        tasks=lambda: len(service.tasks.running),
        log=None if logbook is None else lambda: logbook.recorder.counts,
        router=None if serving is None else lambda: _reading(serving),
    )


def _reading(serving: Serving) -> RouterReading:
    health = serving.process.health
    return RouterReading(
        ready=health.ready, starts=health.starts, shadows=serving.shadows, shadows_lost=serving.shadows_lost
    )


def _server_lines(gateway: Gateway) -> list[ServerLine]:
    lines: list[ServerLine] = []
    for server in gateway.catalog.servers:
        state = gateway.pool.state(server.name)
        lines.append(
            ServerLine(
                name=server.name,
                written=server.written,
                phase=state.phase.value,
                reason=server.withheld or state.reason,
                tools=len(server.tools),
            )
        )
    return lines


async def _sweep(tasks: TaskStore) -> None:
    """Tasks that nothing comes for end in time, though nothing else comes either."""
    while True:
        await anyio.sleep(SWEEP_S)
        tasks.forget_idle()
