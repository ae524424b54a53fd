"""`toolatlas train online`: the policy works tasks through the running gateway, and learns from what the judge says.

Above: trainer/cli.py. Below: trainer/online/. On several devices it is
`accelerate launch -m proxy.cli train online`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from judge.commands.options import (
    ModelOption,
    SendServerOption,
    UrlOption,
    WeightsOption,
    endpoint_settings,
    judge_of,
    reward_settings,
)
from proxy.commands.database_option import DatabaseOption, with_database
from proxy.errors import ConfigurationError
from proxy.settings import Folders
from proxy.store.database import Database
from trainer.commands.options import DeviceOption, SeedOption

if TYPE_CHECKING:
    from judge.judging import Judge


def register(family: typer.Typer) -> None:
    family.command("online")(online)


def online(
    policy: Annotated[
        str,
        typer.Option(
            "--policy", metavar="NAME_OR_PATH", help="The causal model that is trained, with a chat template."
        ),
    ],
    tasks: Annotated[
        Path,
        typer.Option("--tasks", metavar="FILE", help="Tasks in users' words: JSON lines with `task`, or plain lines."),
    ],
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="Where checkpoints and what comes out go.")],
    gateway: Annotated[
        str, typer.Option("--gateway", metavar="URL", help="MCP endpoint of the gateway that logs into --database.")
    ] = "http://127.0.0.1:8765/mcp",
    token_env: Annotated[
        str | None, typer.Option("--token-env", metavar="VAR", help="Environment variable that holds the token.")
    ] = None,
    updates: Annotated[int, typer.Option("--updates", min=1)] = 100,
    tasks_at_once: Annotated[int, typer.Option("--tasks-at-once", min=1, help="Different tasks of an update.")] = 4,
    group: Annotated[int, typer.Option("--group", min=2, help="Rollouts of each.")] = 8,
    micro_batch: Annotated[int, typer.Option("--micro-batch", min=1, help="Sequences of one pass on a device.")] = 4,
    learning_rate: Annotated[float, typer.Option("--learning-rate", metavar="RATE")] = 1e-5,
    temperature: Annotated[float, typer.Option("--temperature", help="Of sampling.")] = 1.0,
    rank: Annotated[int, typer.Option("--rank", min=0, help="Of LoRA; 0 trains all weights.")] = 16,
    kl: Annotated[float, typer.Option("--kl", min=0.0, help="What moving away from the untrained model costs.")] = 0.0,
    variant: Annotated[
        str, typer.Option("--variant", help="How the policy gets to see tools: tools or code.")
    ] = "tools",
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="NAME=VALUE", help="A limit of its work, such as turns=12."),
    ] = None,
    model_tokens: Annotated[int, typer.Option("--model-tokens", min=64, help="The longest sequence.")] = 8_192,
    vllm: Annotated[
        str | None,
        typer.Option("--vllm", metavar="MODE", help="colocate or server; the model samples itself without it."),
    ] = None,
    vllm_url: Annotated[
        str | None, typer.Option("--vllm-url", metavar="URL", help="Of what `trl vllm-serve` runs, with --vllm server.")
    ] = None,
    vllm_memory: Annotated[
        float, typer.Option("--vllm-memory", help="Share of the GPU for vLLM, with --vllm colocate.")
    ] = 0.3,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in --to.")] = False,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    url: UrlOption = None,
    model: ModelOption = None,
    send_server: SendServerOption = None,
    weights: WeightsOption = None,
    database: DatabaseOption = None,
) -> None:
    """Train a policy by tasks that it works itself. Tools are really called: name tasks that may be tried many times.

    Rewards come from the judge; --url and --model name a model for it."""
    from judge.settings import ModelSettings
    from proxy.policy.limits import work_limits
    from proxy.policy.making import variant_of
    from trainer.loop.devices import device as chosen
    from trainer.online.running import OnlineRun, read_tasks, run_online
    from trainer.online.settings import OnlineSettings

    if vllm not in (None, "colocate", "server"):
        raise ConfigurationError(f"--vllm is colocate or server, not {vllm!r}")
    token = None if token_env is None else os.environ.get(token_env)
    if token_env is not None and not token:
        raise ConfigurationError(f"--token-env names the variable {token_env}, which is not set or empty")
    settings = OnlineSettings(
        updates=updates,
        tasks=tasks_at_once,
        group=group,
        micro_batch=micro_batch,
        learning_rate=learning_rate,
        temperature=temperature,
        rank=rank,
        kl=kl,
        seed=seed,
        variant=variant_of(variant),
        limits=work_limits(["turns=12", "output_tokens=512", *(limit or ())]),
        model_tokens=model_tokens,
        vllm=vllm,
        vllm_url=vllm_url,
        vllm_memory=vllm_memory,
    )
    run = OnlineRun(
        model=policy,
        tasks=read_tasks(tasks),
        gateway=gateway,
        token=token,
        database=database or Folders.from_environment(os.environ).database,
        folder=to,
        device=chosen(device),
        settings=settings,
    )
    # Says so at once where there is no log, or one of another version.
    with_database(database, _look)
    rewards, endpoint = reward_settings(weights), endpoint_settings(url, model, send_server)

    def judge() -> Judge:
        return judge_of(rewards, endpoint, ModelSettings())

    trained = run_online(run, judge, resume=resume, told=_told)
    if trained.first:
        for why, count in sorted(trained.left_out.items()):
            typer.echo(f"{count:,} rollouts left out: {why}")
        typer.echo(f"{trained.updates:,} updates; what came out is in {to}.")


async def _look(database: Database) -> None:
    async with database.reading():
        pass


def _told(number: int, figures: Mapping[str, float]) -> None:
    typer.echo(f"update {number}: " + ", ".join(f"{name} {value:.3f}" for name, value in figures.items()))
