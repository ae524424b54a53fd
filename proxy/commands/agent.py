"""`toolatlas agent`: a model works a task through the running gateway, as an ordinary client; its steps are printed.

Above: cli.py. Below: proxy/policy. Exit codes: 0 the model says that it is done, 1 anything else.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.console import Console
from rich.text import Text

from proxy.catalog.text import visible_json
from proxy.commands.servers import JsonOption
from proxy.errors import ConfigurationError
from proxy.policy.base import Variant
from proxy.policy.client_world import connected
from proxy.policy.limits import WorkLimits, work_limits
from proxy.policy.loop import Did, Stop, Worked, work
from proxy.policy.making import adapter_named, opened, variant_of
from proxy.policy.surface import Surface
from proxy.router.adapters import Adapter
from proxy.settings import Folders, ModelSettings
from proxy.store.rendering import shortened, visible

KEY = "TOOLATLAS_AGENT_API_KEY"
SHOWN_CHARS = 600
"""Of an action or of what came of it."""


def _named(flag: str, variable: str, words: str, metavar: str | None = None) -> Any:
    return typer.Option(flag, envvar=f"TOOLATLAS_AGENT_{variable}", metavar=metavar, help=words)


_MODEL = ("MODEL", "Model that works tasks as an agent.", "NAME")
_URL = ("URL", f"OpenAI-compatible endpoint that has it, such as http://127.0.0.1:8000/v1; its key is in {KEY}.", "URL")
_VARIANT = ("VARIANT", "How it gets to see tools: eager, servers, tools or code.", "NAME")
_LIMIT = ("LIMITS", "A limit of its work, such as turns=20.", "NAME=VALUE")
ModelOption = Annotated[str | None, _named("--agent-model", *_MODEL)]
EndpointOption = Annotated[str | None, _named("--agent-url", *_URL)]
VariantOption = Annotated[str, _named("--agent-variant", *_VARIANT)]
LimitOption = Annotated[list[str] | None, _named("--agent-limit", *_LIMIT)]
"""Of commands that have other options, too."""


def register(app: typer.Typer) -> None:
    app.command("agent")(agent)


def agent(
    task: Annotated[str, typer.Argument(help="What is to be done, in your own words.")],
    model: Annotated[str | None, _named("--model", *_MODEL)] = None,
    endpoint: Annotated[str | None, _named("--endpoint", *_URL)] = None,
    variant: Annotated[str, _named("--variant", *_VARIANT)] = Variant.TOOLS.value,
    limit: Annotated[list[str] | None, _named("--limit", *_LIMIT)] = None,
    adapter: Annotated[
        str | None,
        typer.Option(
            "--adapter", metavar="ID", help="Policy for the local model: the beginning of its hash, or its folder."
        ),
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", help="MCP endpoint of the gateway; the one that runs here if not given.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Configuration of the gateway that runs here.")] = None,
    token_env: Annotated[
        str | None, typer.Option("--token-env", metavar="VAR", help="Environment variable that holds the token.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Have a model work a task through the gateway, and print what it does. Without --endpoint the model is a local
    transformers model."""
    settings = model_settings(model, endpoint)
    if settings is None:
        raise ConfigurationError("name the model that shall work: --model, or TOOLATLAS_AGENT_MODEL")
    token = None if token_env is None else os.environ.get(token_env)
    if token_env is not None and not token:
        raise ConfigurationError(f"--token-env names the variable {token_env}, which is not set or empty")
    chosen, limits = variant_of(variant), work_limits(limit or ())
    policy = None if adapter is None else adapter_named(adapter, _adapters())
    target = url or _running(config)
    console = Console(highlight=False)
    worked = anyio.run(_work, task, settings, policy, target, token, chosen, limits, None if as_json else console)
    if as_json:
        typer.echo(visible_json(asdict(worked), indent=2))
    else:
        _sum_up(worked, console)
    if worked.outcome != "done":
        raise typer.Exit(1)


def model_settings(model: str | None, endpoint: str | None) -> ModelSettings | None:
    """Of the options and the key in the environment; None where no model is named.

    Raises:
        ConfigurationError: A value cannot be meant, or the endpoint has no model named.
    """
    if not model:
        if endpoint:
            raise ConfigurationError("an endpoint alone is not enough: name the model there (TOOLATLAS_AGENT_MODEL)")
        return None
    return ModelSettings(model=model, url=endpoint or None, api_key=os.environ.get(KEY) or None)


def _running(config: Path | None) -> str:
    # Imported here: other commands need not wait for it.
    from proxy.endpoint.running import Registry

    folders = Folders.from_environment(os.environ)
    record = Registry(folders.state_dir).find((config or folders.config).expanduser().resolve())
    if record is None:
        raise ConfigurationError("no gateway runs here: start one with `toolatlas serve`, or name one with --url")
    return record.url


def _adapters() -> Path:
    given = os.environ.get("TOOLATLAS_ADAPTERS")
    return Path(given).expanduser() if given else Folders.from_environment(os.environ).adapters


async def _work(
    task: str,
    settings: ModelSettings,
    policy: Adapter | None,
    url: str,
    token: str | None,
    variant: Variant,
    limits: WorkLimits,
    console: Console | None,
) -> Worked:
    async def show(did: Did) -> None:
        if console is not None:
            _show(did, console)

    async with opened(settings, limits, policy) as model, connected(url, variant, token) as world:
        return await work(task, model, Surface(world, variant), limits, show)


def _show(did: Did, console: Console) -> None:
    console.print(Text(f"{did.place}. {shortened(did.action, SHOWN_CHARS)}", style="bold"))
    style = "red" if did.failed else "dim"
    for line in shortened(did.observed, SHOWN_CHARS).split("\n"):
        console.print(Text(f"   {line}", style=style))


def _sum_up(worked: Worked, console: Console) -> None:
    console.print()
    if worked.answer:
        console.print(Text(visible(worked.answer)))
    ended = visible(worked.outcome) if worked.outcome else f"not finished: {_WHY[worked.stop]}"
    folded = f", {len(worked.folded)} observations folded" if worked.folded else ""
    console.print(
        Text(
            f"[{ended}; {worked.turns} turns, {len(worked.did)} actions, {worked.tokens_in:,} tokens read and "
            f"{worked.tokens_out:,} written{folded}, {worked.seconds:.1f} s]",
            style="dim",
        )
    )


_WHY = {
    Stop.FINISHED: "",
    Stop.SILENT: "the model asked for no action any more",
    Stop.TURNS: "the limit `turns`",
    Stop.TOKENS: "the limit `tokens`",
    Stop.TIME: "the limit `seconds`",
    Stop.CONTEXT: "the limit `context_tokens`: what the model has to be told is longer",
}
