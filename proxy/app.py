"""Composition root: settings in, wired gateway out. Nothing else constructs its own collaborators."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import anyio
from fastapi import FastAPI
from mcp.server import Server, ServerRequestContext

from proxy.catalog.arguments import ArgumentChecker
from proxy.catalog.cache import ListingCache
from proxy.catalog.shapes import Shapes
from proxy.endpoint.authentication import agent_label
from proxy.endpoint.http import Activity, asked_mode, asked_server, build_http
from proxy.endpoint.modes import DirectMode, Mode, ServerMode
from proxy.endpoint.resource_server import ResourceServer
from proxy.endpoint.search_mode import SearchMode
from proxy.endpoint.server import Endpoint
from proxy.endpoint.tokens import TokenStore
from proxy.errors import ConfigurationError
from proxy.gateway import Gateway
from proxy.metatools.approval import Approvals
from proxy.metatools.attachments import Attachments
from proxy.metatools.base import MetaTool
from proxy.metatools.calling import Answers, ToolCaller
from proxy.metatools.code_calls import Means
from proxy.metatools.finding import ListServers, ListTools, SearchTools
from proxy.metatools.interpreters import Interpreters
from proxy.metatools.pages import PageStore
from proxy.metatools.running import RunPython
from proxy.metatools.using import CallTool, DescribeTools, FinishTask, ReadResult
from proxy.router.lexical import LexicalRouter
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
from proxy.servers.transports import OpenTransport, open_transport
from proxy.servers.watch import watch
from proxy.settings import Settings, check_sandbox
from proxy.store.recorder import LogRecorder, Recorder
from proxy.tasks import Task, TaskStore

logger = logging.getLogger("toolatlas.app")


@dataclass(frozen=True, slots=True)
class App:
    """The wired parts."""

    gateway: Gateway
    server: Server[Any]
    http: FastAPI
    tokens: TokenStore
    activity: Activity
    calls: ToolCaller
    interpreters: Interpreters | None
    """None with the sandbox off."""


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
    choice = await choose(wanted, limits, folder=folder, environ=environ, image=image, embedded=_embedded)
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
    recorders: tuple[Recorder, ...] = (LogRecorder(),),
    transport: OpenTransport | None = None,
    backend: Backend | None = None,
) -> App:
    """Wire a gateway. `configuration` stands for the file that `settings.config` names, which is then not watched;
    `backend` runs agents' code, which without it they cannot.

    Raises:
        ConfigurationError: The file is not usable, or tokens are required and there are none.
    """
    tokens, resource_server = _gate(settings)
    first = configuration if configuration is not None else load(settings.config, environ)
    logins = login_store(settings, environ)
    transport = transport or partial(open_transport, orphans=Orphans(GRACES_S), keyring=Keyring(logins))
    pins = PinStore(settings.state_dir / "pins")
    listings = ListingCache(settings.cache_dir / "listings")
    gateway = Gateway(listings, transport, LexicalRouter, pins, roots=not settings.guarded)
    pages = PageStore(settings.page_memory_bytes)
    attachments = Attachments(settings.page_memory_bytes)
    limits = limits_of(settings.sandbox_limits)
    interpreters = None if backend is None else Interpreters(backend)

    def ended(task: Task) -> None:
        pages.drop(task.id)
        attachments.drop(task.id)
        if interpreters is not None:
            interpreters.drop(task.id)
        gateway.pool.release(task.id)

    tasks = TaskStore(settings.replica, settings.task_idle_s, on_end=ended)
    checker = ArgumentChecker()
    calls = ToolCaller(gateway, checker, Approvals())
    shapes = Shapes(settings.cache_dir / "shapes")
    answers = Answers(gateway, shapes)
    code: tuple[MetaTool, ...] = ()
    if interpreters is not None:
        means = Means(
            gateway=gateway,
            caller=calls,
            answers=answers,
            attachments=attachments,
            recorders=recorders,
            limits=limits,
            wait_s=settings.search_wait_s,
        )
        code = (RunPython(interpreters, means, pages, settings.result_limit),)
    metatools = (
        SearchTools(gateway, settings.search_wait_s),
        ListServers(gateway),
        ListTools(gateway),
        DescribeTools(gateway, answers, settings.search_wait_s),
        CallTool(gateway, calls, answers, settings.search_wait_s),
        *code,
        ReadResult(pages, attachments, page_length=settings.result_limit * 4 // 5),
        FinishTask(tasks),
    )
    search = SearchMode(gateway, metatools, checker, tasks, pages, settings.result_limit)
    modes: dict[str, Mode] = {"search": search, "direct": DirectMode(gateway, calls, settings.search_wait_s)}

    def mode_of(context: ServerRequestContext[Any, Any]) -> Mode:
        name = asked_server(context.request)
        if name is not None:
            return ServerMode(gateway, calls, name)
        return modes.get(asked_mode(context.request) or settings.mode, search)

    def agent_of(context: ServerRequestContext[Any, Any]) -> str:
        return agent_label(context.request.scope) if context.request is not None else "local"

    endpoint = Endpoint(gateway, mode_of, agent_of, tasks, recorders, roots=not settings.guarded)
    activity = Activity()

    @asynccontextmanager
    async def life() -> AsyncGenerator[None]:
        async with gateway.running(first), _running(interpreters), anyio.create_task_group() as background:
            if configuration is None:
                follow = partial(watch, current=first)
                background.start_soon(follow, settings.config, environ, gateway.apply, gateway.keep_configuration)
            background.start_soon(watch_logins, logins.folder, gateway.pool)
            background.start_soon(shapes.save_changes)
            yield
            background.cancel_scope.cancel()

    server = endpoint.server()
    http = build_http(gateway, server, tokens, settings, life, activity, resource_server)
    return App(gateway, server, http, tokens, activity, calls, interpreters)


def check(settings: Settings, environ: Mapping[str, str]) -> None:
    """Raise what `build` would, before anything is begun that takes time."""
    _gate(settings)
    load(settings.config, environ)
    limits_of(settings.sandbox_limits)


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


def _running(interpreters: Interpreters | None) -> AbstractAsyncContextManager[None]:
    return nullcontext() if interpreters is None else interpreters.running()
