"""Options that the commands of training share, and the settings that they become.

Above: training.py and learning.py. Below: trainer/settings.py, and the judge's options.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from proxy.errors import ConfigurationError
from proxy.router.launching import EMBEDDINGS
from proxy.router.weights import DEFAULT_ENCODER
from proxy.settings import Folders

if TYPE_CHECKING:
    from trainer.loop.running import Place
    from trainer.loop.runs import Runs
    from trainer.settings import TrainingSettings

RunsOption = Annotated[
    Path | None,
    typer.Option(
        "--runs",
        metavar="FOLDER",
        envvar="TOOLATLAS_RUNS",
        help="Where runs of training lie; `runs` in the state folder without it.",
    ),
]
AlgorithmOption = Annotated[
    str | None,
    typer.Option("--algorithm", help="advantage-weighted (the default), filtered-imitation or imitation."),
]
KindOption = Annotated[
    str | None,
    typer.Option("--kind", help="What is trained: head (the default), lora (encoder), scorer, policy."),
]
LanguageOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME_OR_PATH",
        help="What a policy or a scorer is trained on; a scorer, without it, on that of TOOLATLAS_ROUTER.",
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", help="Of all that is drawn.")]
EpochsOption = Annotated[int | None, typer.Option("--epochs", min=1, help="Times that every row is read, at most.")]
RateOption = Annotated[float | None, typer.Option("--learning-rate", metavar="RATE")]
BatchOption = Annotated[int | None, typer.Option("--batch", min=1, help="Examples of one pass.")]
AccumulationOption = Annotated[int | None, typer.Option("--accumulation", min=1, help="Passes of one update.")]
PatienceOption = Annotated[
    int | None, typer.Option("--patience", min=1, help="Validations that may be no better before it stops early.")
]
BoardOption = Annotated[
    Path | None, typer.Option("--tensorboard", metavar="FOLDER", help="Write the figures there for TensorBoard, too.")
]
SplitOption = Annotated[
    str | None, typer.Option("--split", help="What is held out is drawn by hash (the default), time or servers.")
]
HoldOutOption = Annotated[
    list[str] | None,
    typer.Option("--hold-out", metavar="SERVER", help="With --split servers; half of them without it. Repeatable."),
]
NearOption = Annotated[
    float | None,
    typer.Option("--near", help="The least cosine of near duplicates (0.9); 1 of an encoder to which all is near."),
]
ShareOption = Annotated[
    float | None,
    typer.Option("--agent-share", help="The most of what is taught that one agent may have, 0 to 1 (0.2 without it)."),
]
LeastOption = Annotated[
    int, typer.Option("--least", min=1, metavar="N", help="Episodes that it takes to train anything.")
]
GoodOption = Annotated[
    int | None,
    typer.Option("--good-episodes", min=1, metavar="N", help="In which a server was right before it is learned."),
]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")]
EncoderOption = Annotated[
    str,
    typer.Option(
        "--router-model",
        envvar="TOOLATLAS_ROUTER_MODEL",
        metavar="NAME_OR_PATH",
        help="The router's encoder, as for `serve`.",
    ),
]
ENCODER = DEFAULT_ENCODER


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What was said on the command line; None is the default of the part."""

    algorithm: str | None = None
    kind: str | None = None
    language_model: str | None = None
    seed: int = 0
    epochs: int | None = None
    learning_rate: float | None = None
    batch: int | None = None
    accumulation: int | None = None
    patience: int | None = None
    tensorboard: Path | None = None
    split: str | None = None
    hold_out: Sequence[str] | None = None
    near: float | None = None
    agent_share: float | None = None
    least: int = 200
    good_episodes: int | None = None


def training_settings(chosen: Chosen) -> TrainingSettings:
    """Raises ConfigurationError where a value cannot be meant."""
    from proxy.router.adapters import Kind
    from trainer.data.settings import CapSettings, DataSettings, SplitSettings
    from trainer.evaluation.settings import EvaluationSettings
    from trainer.loop.training import LoopSettings
    from trainer.policy.settings import Algorithm as PolicyAlgorithm
    from trainer.policy.settings import TuningSettings
    from trainer.ranking.settings import Algorithm, RankingSettings, defaults
    from trainer.settings import TrainingSettings

    _one_of("--kind", chosen.kind, tuple(Kind))
    _one_of("--split", chosen.split, ("hash", "time", "servers"))
    kind = Kind(chosen.kind or Kind.HEAD)
    _one_of("--algorithm", chosen.algorithm, get_args(PolicyAlgorithm if kind is Kind.POLICY else Algorithm))
    said = given(
        seed=chosen.seed,
        algorithm=chosen.algorithm,
        epochs=chosen.epochs,
        learning_rate=chosen.learning_rate,
        batch=chosen.batch,
        accumulation=chosen.accumulation,
    )
    ranking, policy = RankingSettings(), None
    if kind is Kind.POLICY:
        policy = TuningSettings(**said)
    else:
        ranking = replace(defaults(kind), **said, **given(good_episodes=chosen.good_episodes))
    servers = tuple(chosen.hold_out) if chosen.hold_out else None
    split = given(seed=chosen.seed, by=chosen.split, servers=servers, near=chosen.near)
    return TrainingSettings(
        least_episodes=chosen.least,
        data=DataSettings(caps=CapSettings(**given(agent_share=chosen.agent_share))),
        split=SplitSettings(**split),
        ranking=ranking,
        policy=policy,
        language_model=chosen.language_model or (None if kind is Kind.POLICY else _reordering()),
        # Each fold costs a training: seconds for a head, and many minutes for everything else.
        evaluation=EvaluationSettings() if kind is Kind.HEAD else EvaluationSettings(folds=1),
        loop=LoopSettings(**given(patience=chosen.patience, tensorboard=chosen.tensorboard)),
    )


def runs_of(folder: Path | None) -> Runs:
    from trainer.loop.runs import Runs

    return Runs((folder or Folders.from_environment(os.environ).state_dir / "runs").expanduser())


@contextmanager
def place_of(adapters: Path | None, encoder: str, by: str) -> Generator[Place]:
    """Where things are kept, and the encoder, loaded.

    Raises:
        ConfigurationError: It cannot be loaded, or a package is missing.
    """
    from proxy.router.embeddings import EmbeddingCache
    from proxy.router.encoder import load_encoder, missing_package
    from trainer.loop.running import Place

    if (problem := missing_package(encoder)) is not None:
        raise ConfigurationError(problem)
    folders = Folders.from_environment(os.environ)
    cache = EmbeddingCache(folders.cache_dir / EMBEDDINGS)
    try:
        yield Place(
            adapters=(adapters or folders.state_dir / "adapters").expanduser(),
            encoder=load_encoder(encoder),
            cache=cache,
            by=by,
        )
    finally:
        cache.close()


def _reordering() -> str | None:
    """The language model that the gateway here reorders with, if its settings name one: scorers are for that one."""
    kind, _, model = os.environ.get("TOOLATLAS_ROUTER", "").partition(":")
    return model if kind == "slm" and model else None


def given(**values: Any) -> dict[str, Any]:
    """Those that were said."""
    return {name: value for name, value in values.items() if value is not None}


def _one_of(option: str, value: str | None, choices: Sequence[str]) -> None:
    if value is not None and value not in choices:
        raise ConfigurationError(f"{option} is one of {', '.join(choices)}, not {value!r}")
