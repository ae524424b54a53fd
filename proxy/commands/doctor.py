"""`toolatlas doctor`: looks at everything that commonly goes wrong, and says what to do."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio
import typer
from rich.console import Console
from sqlalchemy import func, select

from proxy.app import App
from proxy.catalog.lookalikes import lookalikes
from proxy.catalog.text import one_line
from proxy.commands.accepting import known
from proxy.commands.agent import EndpointOption, ModelOption, model_settings
from proxy.commands.database_option import DatabaseOption, with_database
from proxy.commands.local import emit, settings_for, with_gateway
from proxy.commands.probing import probed
from proxy.commands.serve import AdaptersOption, IssuerOption, JwksOption, RouterModelOption, RouterOption
from proxy.commands.servers import ConfigOption, JsonOption
from proxy.endpoint.issuer import Issuer
from proxy.endpoint.running import Registry
from proxy.endpoint.tokens import TokenStore
from proxy.errors import ConfigurationError, GatewayError
from proxy.policy.probe import keep
from proxy.router.encoder import DEFAULT_ENCODER, missing_package
from proxy.router.following import check_adapter
from proxy.router.launching import missing_second
from proxy.servers.config import ServerConfig, TransportKind
from proxy.servers.configfile import Configuration, load
from proxy.servers.pins import PinStore
from proxy.servers.process import child_environment
from proxy.servers.review import Reviewer, findings
from proxy.settings import ROUTERS, Folders, OAuth, Settings, check_router
from proxy.store.database import Database, read_url, sqlite_path
from proxy.store.registry import SHORT, in_force
from proxy.store.tables import EpisodeRow


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `advice` is empty when it is well."""

    what: str
    ok: bool
    detail: str
    advice: str = ""


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(
    config: ConfigOption = None,
    as_json: JsonOption = False,
    oauth_issuer: IssuerOption = None,
    oauth_jwks_url: JwksOption = None,
    database: DatabaseOption = None,
    router: RouterOption = "auto",
    router_model: RouterModelOption = DEFAULT_ENCODER,
    adapters: AdaptersOption = None,
    agent_model: ModelOption = None,
    agent_url: EndpointOption = None,
) -> None:
    """Check Python, folders, configuration, log, router, adapters, commands, issuers and every server. Exit code 1 when
    something is wrong."""
    settings = settings_for(config)
    findings = [
        *(*_find(settings), _log(database), *_issuers(tuple(oauth_issuer or ()), oauth_jwks_url)),
        *(_router(router, router_model), *_agent(settings, agent_model, agent_url)),
        *_adapters(settings, database, adapters, ranked=router != "lexical" and missing_package(router_model) is None),
    ]
    console = Console()

    def show() -> None:
        for finding in findings:
            mark = "[green]ok[/green]  " if finding.ok else "[red]no[/red]  "
            console.print(mark, end="", highlight=False)
            console.print(finding.what, end=": ", markup=False, highlight=False)
            console.print(finding.detail, markup=False, highlight=False)
            if finding.advice:
                console.print("    " + finding.advice, markup=False, highlight=False)

    emit([asdict(finding) for finding in findings], as_json, show)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def _find(settings: Settings) -> Iterator[Finding]:
    yield Finding("python", True, sys.version.split()[0])
    for what, folder in (("state folder", settings.state_dir), ("cache folder", settings.cache_dir)):
        yield _writable(what, folder)
    try:
        configuration = load(settings.config, os.environ)
    except ConfigurationError as error:
        yield Finding(
            "configuration", False, str(error), "`toolatlas import --all` or `toolatlas servers add` makes one"
        )
        return
    yield Finding("configuration", True, f"{settings.config}, {len(configuration.servers)} servers")
    for warning in configuration.warnings:
        yield Finding("configuration", False, warning)
    record = Registry(settings.state_dir).find(settings.config)
    yield Finding("running gateway", True, record.url if record else "none for this configuration")
    tokens = TokenStore(settings.state_dir / "tokens.json")
    try:
        yield Finding("tokens", True, "none: loopback only" if tokens.empty else f"{len(tokens.list())} tokens")
    except ConfigurationError as error:
        yield Finding("tokens", False, str(error))
    yield from _servers(settings, configuration)
    yield from _accepted(settings, configuration)


def _accepted(settings: Settings, configuration: Configuration) -> Iterator[Finding]:
    """What differs from what was accepted, and names that can be taken for others, of all servers together."""
    found = known(settings, configuration.servers)
    for server, review in found.permissions.reviews.items():
        for finding in [] if review.withheld else findings(server, review):
            yield Finding(f"accepted of {server}", False, finding, "look at it with `toolatlas tools list`")
    for lookalike in lookalikes(found.catalog.servers):
        advice = "if you did not expect it, deny it with `tools.deny`" if lookalike.serious else ""
        yield Finding("look-alike name", not lookalike.serious, lookalike.text, advice)


def _servers(settings: Settings, configuration: Configuration) -> Iterator[Finding]:
    reviewer = Reviewer(PinStore(settings.state_dir / "pins"))
    for server in configuration.servers:
        name = f"server {server.name}"
        if not server.enabled:
            yield Finding(name, True, "switched off (enabled: false)")
        elif server.disabled_reason:
            yield Finding(name, False, server.disabled_reason)
        elif withheld := reviewer.admit(server).withheld:
            yield Finding(name, False, f"withheld: {withheld}", "its --dry-run shows what would be accepted")
        elif server.transport is TransportKind.STDIO and not _command_exists(server):
            yield Finding(name, False, f"no command {server.command!r}", "install it, or correct `command`")
        else:
            yield _try(settings, server.name)


def _log(url: str | None) -> Finding:
    if url == "none":
        return Finding("log", True, "none is kept")
    url = url or Folders.from_environment(os.environ).database
    try:
        parsed = read_url(url)
        if parsed.drivername == "sqlite" and not sqlite_path(parsed).exists():
            return Finding("log", True, "nothing is logged yet")
        counted = with_database(url, _count)
    except ConfigurationError as error:
        return Finding("log", False, str(error), "until then what agents do is kept in the journal")
    return Finding("log", True, f"{Database(url).shown}, {counted} episodes")


async def _count(database: Database) -> int:
    async with database.reading() as connection:
        return (await connection.execute(select(func.count()).select_from(EpisodeRow))).scalar_one()


def _issuers(urls: tuple[str, ...], jwks_url: str | None) -> Iterator[Finding]:
    for url in urls:
        try:
            OAuth(issuers=urls, jwks_url=jwks_url)
            yield Finding(f"issuer {url}", True, f"{anyio.run(Issuer(url, jwks_url).check)} keys")
        except GatewayError as error:
            yield Finding(f"issuer {url}", False, str(error), "until then only static tokens work")


def _router(router: str, model: str) -> Finding:
    if check_router(router) == "lexical":
        return Finding("router", True, "by words alone, as it is set")
    second = None if router in ROUTERS else router
    if (problem := missing_package(model) or missing_second(second)) is None:
        reordered = "" if second is None else f", reordered by {second}"
        return Finding("router", True, f"by words and the encoder {model}{reordered}")
    return Finding("router", router == "auto", f"by words alone: {problem}")


def _adapters(settings: Settings, url: str | None, folder: Path | None, *, ranked: bool) -> Iterator[Finding]:
    """Whether what the registry has gateways serve with lies where they look for it, whole. Where words alone rank,
    nothing looks for it."""
    if not ranked:
        return
    url = url or Folders.from_environment(os.environ).database
    try:
        parsed = None if url == "none" else read_url(url)
        if parsed is None or (parsed.drivername == "sqlite" and not sqlite_path(parsed).exists()):
            return
        named = with_database(url, in_force)
    except ConfigurationError:
        # The finding on the log says so.
        return
    place = (folder or settings.adapters_folder).expanduser()
    for role, hashed in (("active", named.active), ("canary", named.canary), ("shadow", named.shadow)):
        if hashed is None:
            continue
        try:
            check_adapter(place / hashed)
            yield Finding(f"{role} adapter", True, hashed[:SHORT])
        except ConfigurationError as error:
            advice = "copy it there, name its folder with --adapters, or `toolatlas adapters rollback`"
            yield Finding(f"{role} adapter", False, str(error), advice)


def _agent(settings: Settings, model: str | None, url: str | None) -> Iterator[Finding]:
    """Whether the model can work tasks. What was found is kept: the gateway offers delegate_task only to agents of a
    model that passed."""
    chosen = model_settings(model, url)
    if chosen is None:
        return
    name = f"agent {chosen.identity}"
    try:
        found = anyio.run(probed, chosen)
        keep(settings.state_dir, found)
    except GatewayError as error:
        yield Finding(name, False, str(error), "until then delegate_task is not offered")
        return
    done = sum(each.passed for each in found.tried)
    if found.passed:
        yield Finding(name, True, f"it worked all {done} probe tasks, so delegate_task is offered")
        return
    lacks = "; ".join(f"task {place}: {each.lacks}" for place, each in enumerate(found.tried, 1) if not each.passed)
    detail = f"it worked {done} of {len(found.tried)} probe tasks ({lacks})"
    yield Finding(name, False, detail, "delegate_task is not offered; name a more capable model")


def _try(settings: Settings, name: str) -> Finding:
    async def work(app: App) -> str:
        listing = await app.gateway.pool.refresh(name)
        problems = f"; {one_line('; '.join(listing.problems[:5]), 600)}" if listing.problems else ""
        return f"{len(listing.tools)} tools, protocol {listing.protocol_version}{problems}"

    try:
        return Finding(f"server {name}", True, with_gateway(settings.config, work, only=name))
    except GatewayError as error:
        return Finding(f"server {name}", False, str(error), f"`toolatlas servers test {name}` tries it again")


def _writable(what: str, folder: os.PathLike[str]) -> Finding:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        return Finding(
            what, False, f"{folder}: {error.strerror}", "make it writable or set TOOLATLAS_STATE_DIR/_CACHE_DIR"
        )
    ok = os.access(folder, os.W_OK)
    return Finding(what, ok, str(folder), "" if ok else "it cannot be written; correct its permissions")


def _command_exists(server: ServerConfig) -> bool:
    """Looked for where its process will look: on the PATH of the entry, and a path from its working folder."""
    path = child_environment(server.env, os.environ)["PATH"]
    command = os.path.join(server.cwd or "", server.command) if os.sep in server.command else server.command
    return shutil.which(command, path=path) is not None
