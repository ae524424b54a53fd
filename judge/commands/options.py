"""Options that several commands of the judge take, and what they become: settings, and a judge.

Above: the other modules of commands/. Below: settings.py, judging.py, model/. The key of an endpoint comes from the
environment alone: a command line can be read by others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from proxy.errors import ConfigurationError
from proxy.settings import Folders
from proxy.store.filters import Filters

if TYPE_CHECKING:
    from judge.judging import Judge
    from judge.model.endpoint import Endpoint
    from judge.settings import EndpointSettings, ModelSettings, RewardSettings

KEY_VARIABLE = "TOOLATLAS_JUDGE_API_KEY"
SERVERS_VARIABLE = "TOOLATLAS_JUDGE_SERVERS"
"""What `--send-server` says, with commas between the names."""
_DATES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"]

JsonOption = Annotated[bool, typer.Option("--json", help="Answer as JSON on stdout.")]
AgentOption = Annotated[str | None, typer.Option("--agent", metavar="LABEL", help="Only this agent's.")]
SinceOption = Annotated[
    datetime | None, typer.Option("--since", formats=_DATES, help="Only what began then or later; local time.")
]
BeforeOption = Annotated[
    datetime | None, typer.Option("--before", formats=_DATES, help="Only what began before; local time.")
]
ServerOption = Annotated[str | None, typer.Option("--server", metavar="NAME", help="Only with a call to this server.")]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="TOOLATLAS_JUDGE_URL",
        show_envvar=True,
        help=f"OpenAI-compatible endpoint of a model, usually ending in /v1; its key is read from {KEY_VARIABLE}.",
    ),
]
ModelOption = Annotated[
    str | None, typer.Option("--model", metavar="NAME", envvar="TOOLATLAS_JUDGE_MODEL", show_envvar=True)
]
SendServerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--send-server",
        metavar="NAME",
        help="A server whose episodes may be sent to an endpoint on another machine; * means all. May be repeated; "
        f"without it, {SERVERS_VARIABLE} names them, with commas.",
    ),
]
AtOnceOption = Annotated[int, typer.Option("--at-once", min=1, max=1_000, help="Questions to the endpoint at a time.")]
WeightsOption = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="CATEGORY=W,…",
        help="Weights of task_fulfilment, tool_appropriateness, tool_grounding and parameter_accuracy "
        "(0.4, 0.3, 0.2, 0.1 where left out); only their ratios count.",
    ),
]


def filters_of(agent: str | None, since: datetime | None, before: datetime | None, server: str | None) -> Filters:
    # Local time, unless it has a zone.
    return Filters(
        agent=agent, since=since and since.astimezone(), before=before and before.astimezone(), server=server
    )


def reward_settings(weights: str | None) -> RewardSettings:
    """Raises ConfigurationError for weights that cannot be meant."""
    from judge.rubric import Category
    from judge.settings import RewardSettings

    settings = RewardSettings()
    if weights is None:
        return settings
    given: dict[Category, float] = {}
    for each in weights.split(","):
        name, _, value = each.partition("=")
        try:
            given[Category(name.strip())] = float(value)
        except ValueError:
            raise ConfigurationError(
                f"--weights is CATEGORY=WEIGHT,… with categories {', '.join(Category)}, not {each.strip()!r}"
            ) from None
    return RewardSettings(weights={**settings.weights, **given})


def endpoint_settings(
    url: str | None,
    model: str | None,
    send_servers: Sequence[str] | None,
    at_once: int = 4,
    prices: tuple[float, float] = (0.0, 0.0),
) -> EndpointSettings | None:
    """None where no model is named: checks judge alone.

    Raises:
        ConfigurationError: Only one of URL and model is given.
    """
    if not url and not model:
        return None
    if not url or not model:
        raise ConfigurationError(
            "a model judges where both are given: --url (or TOOLATLAS_JUDGE_URL) and --model (or TOOLATLAS_JUDGE_MODEL)"
        )
    from judge.settings import EndpointSettings

    key = os.environ.get(KEY_VARIABLE) or None
    named = send_servers or [name.strip() for name in os.environ.get(SERVERS_VARIABLE, "").split(",")]
    return EndpointSettings(
        url=url,
        model=model,
        api_key=key,
        at_once=at_once,
        servers=frozenset(name for name in named if name),
        input_price=prices[0],
        output_price=prices[1],
    )


def endpoint_of(settings: EndpointSettings) -> Endpoint:
    """Raises ConfigurationError where the client is not installed."""
    from judge.model.openai_endpoint import OpenAIEndpoint

    return OpenAIEndpoint(settings)


def redactor() -> Callable[[str, str], str]:
    """Takes what is secret out of a text of an episode before it is sent: rules may have improved since it was logged.

    Raises:
        ConfigurationError: The key of placeholders cannot be read or made.
    """
    from proxy.store.redaction import Redactor
    from proxy.store.redaction_key import redaction_key

    return Redactor(redaction_key(Folders.from_environment(os.environ).state_dir, os.environ)).text


def judge_of(
    rewards: RewardSettings, endpoint: EndpointSettings | None = None, model: ModelSettings | None = None
) -> Judge:
    """Checks, with a model where there is an endpoint.

    Raises:
        ConfigurationError: The client is not installed, or the key of placeholders cannot be read.
    """
    from judge.checks.library import library
    from judge.judging import Judge

    if endpoint is None or model is None:
        return Judge(library(), rewards)
    from judge.model.model_judge import ModelJudge

    return Judge(library(), rewards, ModelJudge(endpoint_of(endpoint), model, endpoint.servers, redactor()))
