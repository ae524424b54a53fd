"""All that a training goes by, with its defaults; frozen, and written into the run and the adapter.

Above: loop/ and the commands, which make it of options. Below: the settings of the parts, each of which says what its
numbers mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from proxy.errors import ConfigurationError
from proxy.router.adapters import Kind
from trainer.data.settings import DataSettings, SplitSettings
from trainer.evaluation.settings import EvaluationSettings
from trainer.loop.training import LoopSettings
from trainer.policy.settings import TuningSettings
from trainer.ranking.settings import RankingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """Of one run.

    Raises:
        ConfigurationError: `least_episodes` is not positive; the parts raise for theirs.
    """

    least_episodes: int = 200
    """That can be learned from; with fewer nothing is trained, since nothing could be said of what comes out."""
    data: DataSettings = field(default_factory=DataSettings)
    split: SplitSettings = field(default_factory=SplitSettings)
    ranking: RankingSettings = field(default_factory=RankingSettings)
    policy: TuningSettings | None = None
    """Of a run that tunes a policy in place of a ranker."""
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    language_model: str | None = None
    """What a scorer or a policy is trained on: a folder, a package, or a hub's name."""
    loop: LoopSettings = field(default_factory=LoopSettings)

    def __post_init__(self) -> None:
        if self.least_episodes < 1:
            raise ConfigurationError(f"least_episodes is at least 1, not {self.least_episodes}")

    @property
    def kind(self) -> Kind:
        """Of the adapter."""
        return self.ranking.kind if self.policy is None else Kind.POLICY

    @property
    def algorithm(self) -> str:
        return (self.policy or self.ranking).algorithm

    @property
    def seed(self) -> int:
        return (self.policy or self.ranking).seed


def to_json(settings: TrainingSettings) -> dict[str, Any]:
    """As JSON; the same settings give the same."""
    return _ADAPTER.dump_python(settings, mode="json")


def of_json(given: Mapping[str, Any]) -> TrainingSettings:
    """What `to_json` gave.

    Raises:
        ConfigurationError: It is something else, such as the settings of another version.
    """
    try:
        return _ADAPTER.validate_python(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"these settings do not fit this version, {place}: {first['msg']}") from error


_ADAPTER = TypeAdapter(TrainingSettings)
