"""What can be chosen when a ranker is trained; goes into the adapter's manifest.

Above: training.py and trainer/settings.py. Below: adapters.py for kinds. The defaults were picked by
comparing figures on tasks held out from training, the same ones that docs/decisions/0032 reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from proxy.errors import ConfigurationError
from proxy.router.adapters import Kind

Algorithm = Literal["advantage-weighted", "filtered-imitation", "imitation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingSettings:
    """One module of objectives/ describes each algorithm.

    Raises:
        ConfigurationError: A number is out of its bounds; the text names it.
    """

    kind: Kind = Kind.HEAD
    algorithm: Algorithm = "advantage-weighted"
    beta: float = 1.0
    """Of advantage-weighted: how much advantages, in standard deviations, count. Large: hardly."""
    clip: float = 5.0
    """The most that one ranking counts."""
    margin: float = 0.5
    """A ranking whose advantage is at most minus this teaches what was wrong, not what was right."""
    negative: float = 0.1
    """What a wrong tool counts beside a right one."""
    floor: float = -6.0
    """In nats; a wrong tool that is less likely is left alone."""
    temperature: float = 1.0
    """Of the softmax, in deviations of scores."""
    tasks: float = 3.0
    """What an episode's task, with all tools that were right in it, counts beside one ranking; 0 leaves tasks out."""
    replay: float = 1.0
    """What a made-up query for a tool that no good log has shown counts beside one ranking; 0 makes none."""
    replay_share: float = 0.7
    """As many of them as this part of the rankings."""
    good_episodes: int = 3
    """In so many different ones a server's tools were right before its scores are the adapter's."""
    negatives: int = 500
    """Tools of the catalogue, drawn once, that stand for all that nobody used; more take time."""
    anchor: float = 0.05
    """Of the squared distance from the untrained router, in the loss."""
    epochs: int = 4
    most_updates: int | None = None
    """However many epochs there are; None is no bound."""
    learning_rate: float = 1e-3
    batch: int = 64
    """Examples of one pass."""
    accumulation: int = 1
    """Passes of one update."""
    rank: int = 8
    """Of LoRA."""
    candidates: int = 16
    """Of LoRA on the encoder: learned tools near to its queries that an update reads. Of a scorer: the most tools that
    a list has besides those that were used."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("beta", "clip", "temperature", "learning_rate"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"{name} of the ranking is above 0, not {getattr(self, name)}")
        for name in ("margin", "negative", "tasks", "replay", "replay_share", "anchor"):
            if not getattr(self, name) >= 0:
                raise ConfigurationError(f"{name} of the ranking is at least 0, not {getattr(self, name)}")
        for name in ("good_episodes", "negatives", "epochs", "batch", "accumulation", "rank", "candidates"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} of the ranking is at least 1, not {getattr(self, name)}")
        if self.most_updates is not None and self.most_updates < 1:
            raise ConfigurationError(f"most_updates of the ranking is at least 1, not {self.most_updates}")
        if not self.floor < 0:
            raise ConfigurationError(f"floor of the ranking is a logarithm below 0, not {self.floor}")


def defaults(kind: Kind) -> RankingSettings:
    """What each kind begins with. LoRA reads texts anew in each update, so that its updates are few and small: on one
    core of a CPU some 4 s each for the encoder of 22 M parameters, and more for a causal model of 135 M.

    Raises:
        ConfigurationError: It is no kind of ranker.
    """
    if kind is Kind.HEAD:
        return RankingSettings()
    if kind is Kind.LORA:
        return RankingSettings(kind=kind, epochs=2, learning_rate=5e-4, batch=16, anchor=1e-4)
    if kind is Kind.SCORER:
        # Tasks are long, and each would be read for every tool of its list.
        return RankingSettings(
            kind=kind, epochs=1, learning_rate=3e-4, batch=4, anchor=1e-4, tasks=0.0, replay_share=0.2, candidates=6
        )
    raise ConfigurationError(f"a {kind} does not rank; choose head, lora or scorer")
