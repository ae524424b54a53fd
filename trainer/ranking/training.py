"""A ranker with its rows, its optimiser and its order: one update at a time, and able to go on after a kill.

Above: trainer/loop/, which knows runs and checkpoints. Below: examples.py, thinning.py, replay.py,
objectives/ and one policy for each kind of adapter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from proxy.catalog.records import ServerRecord
from proxy.errors import ConfigurationError
from proxy.router.adapters import Kind
from proxy.router.embeddings import EmbeddingCache
from proxy.router.encoder import Encoder
from proxy.router.fusion import FusedRouter
from proxy.router.language_model import LanguageModel
from trainer.loop.state import restore, state_of
from trainer.ranking.columns import Columns, columns
from trainer.ranking.encoder_lora import EncoderLoraPolicy
from trainer.ranking.examples import Example, examples, learned_servers
from trainer.ranking.head import HeadPolicy
from trainer.ranking.objectives.softmax import softmax_loss
from trainer.ranking.policy import Places, Policy
from trainer.ranking.replay import replayed
from trainer.ranking.scorer import ScorerPolicy
from trainer.ranking.settings import RankingSettings
from trainer.ranking.tensors import Tensor, torch
from trainer.ranking.thinning import thinned
from trainer.rows import RankingRow

VALIDATED_REPLAY = 0.2
"""Of the made-up queries, as many are kept for validation: else it would not see what is lost elsewhere."""
FIRST = 5
"""Of a ranking, in the figures of validation."""


class RankingProblem:
    """See `Trainable` of trainer/loop/trainable.py. Everything that is drawn follows from the settings' seed."""

    def __init__(
        self,
        rows: Sequence[RankingRow],
        catalogs: Mapping[str, Sequence[ServerRecord]],
        encoder: Encoder,
        cache: EmbeddingCache,
        settings: RankingSettings,
        *,
        validation: Sequence[RankingRow],
        language: LanguageModel | None = None,
    ) -> None:
        """`rows`: to train on. `catalogs`: by hash, as rows name them; the one of the newest row is trained for, and
        tools that it lacks teach nothing. `validation`: rows of other episodes, which say when to stop.
        `language`: for a scorer, the model that gets its layers; nobody else may use it from then on.

        Raises:
            ConfigurationError: The rows teach nothing, or there is none to validate with; the text says what is needed.
        """
        servers = _newest(rows, catalogs)
        owners = {tool.written: server.name for server in servers for tool in server.tools}
        self._settings = settings
        self._servers = learned_servers(rows, settings, owners)
        if not self._servers:
            raise ConfigurationError(
                f"of {len(rows)} rankings none teaches enough: no server was right in {settings.good_episodes} "
                "episodes; log and judge more of them"
            )
        real = thinned(examples(rows, settings, owners), settings.seed)
        self._validation = [each for each in examples(validation, settings, owners) if each.right]
        if not self._validation:
            raise ConfigurationError("no ranking of the validation rows was right, so that nothing says when to stop")
        made_up = replayed(
            servers,
            self._servers,
            count=math.ceil(len(real) * settings.replay_share) if settings.replay else 0,
            weight=settings.replay,
            seed=settings.seed,
        )
        kept = int(len(made_up) * VALIDATED_REPLAY)
        self._validation_replay = made_up[:kept]
        self._examples = [*real, *made_up[kept:]]
        needed = {tool for each in (*real, *self._validation, *made_up) for tool in (*each.right, *each.wrong)}
        own = columns(servers, self._servers, needed, others=settings.negatives, seed=settings.seed)
        self._facts = {
            "rankings": len(rows),
            "examples": len(real),
            "made_up": len(made_up) - kept,
            "columns": len(own.tools),
        }
        torch.manual_seed(settings.seed)
        self._policy = _policy(settings, servers, own, encoder, cache, language)
        self._parameters = self._policy.parameters()
        self._optimiser = torch.optim.Adam(self._parameters.values(), lr=settings.learning_rate)
        self._made = 0

    @property
    def steps(self) -> int:
        """How many updates there are in all."""
        most = self._settings.most_updates
        of_epochs = self._settings.epochs * self._of_epoch
        return of_epochs if most is None else min(most, of_epochs)

    @property
    def done(self) -> bool:
        return self._made >= self.steps

    def step(self) -> Mapping[str, float]:
        """One update over `batch * accumulation` examples; returns its `loss`, without the anchor, and `distance`."""
        chosen = self._chosen(self._made)
        self._optimiser.zero_grad()
        loss = 0.0
        for start in range(0, len(chosen), self._settings.batch):
            part = chosen[start : start + self._settings.batch]
            # Of the mean over all of the update's examples, so that accumulation changes nothing but memory.
            mean = self._loss(part) * (len(part) / len(chosen))
            mean.backward()
            loss += mean.item()
        distance = self._policy.distance()
        (distance * self._settings.anchor).backward()
        self._optimiser.step()
        self._made += 1
        return {"loss": loss, "distance": distance.item()}

    def validate(self) -> Mapping[str, float]:
        """`loss`: mean negative log-likelihood of what was right, in nats, of rows and, as `replay` weighs them, of
        made-up queries; and for each the share of right tools among the first five columns."""
        real, first = self._measured(self._validation)
        figures = {"loss": real, "rankings": real, f"rankings_recall_{FIRST}": first}
        if self._validation_replay:
            made_up, first = self._measured(self._validation_replay)
            weight = self._settings.replay * self._settings.replay_share
            figures |= {"made_up": made_up, f"made_up_recall_{FIRST}": first}
            figures["loss"] = (real + weight * made_up) / (1 + weight)
        return figures

    def state_dict(self) -> dict[str, Any]:
        """Of what the next update depends on. Orders follow from the seed and the number of updates."""
        return state_of(self._made, self._parameters, self._optimiser)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._made = restore(state, self._parameters, self._optimiser)

    def save(self, folder: Path, facts: Mapping[str, Any]) -> str:
        own = {"settings": asdict(self._settings), "data": self._facts, "updates": self._made}
        return self._policy.save(folder, self._servers, {**own, **facts}).hash

    @property
    def _of_epoch(self) -> int:
        return math.ceil(len(self._examples) / (self._settings.batch * self._settings.accumulation))

    def _chosen(self, update: int) -> list[Example]:
        import numpy as np

        epoch, place = divmod(update, self._of_epoch)
        order = np.random.default_rng([self._settings.seed, epoch]).permutation(len(self._examples)).tolist()
        size = self._settings.batch * self._settings.accumulation
        return [self._examples[index] for index in order[place * size : (place + 1) * size]]

    def _likely(self, chosen: Sequence[Example]) -> tuple[Tensor, Places]:
        scores, places = self._policy.scores(chosen)
        return (scores / self._settings.temperature).log_softmax(1), places

    def _loss(self, chosen: Sequence[Example]) -> Tensor:
        likely, places = self._likely(chosen)
        right, wrong = [each.right for each in chosen], [each.wrong for each in chosen]
        return softmax_loss(likely, places, right, wrong, self._settings.floor)

    def _measured(self, chosen: Sequence[Example]) -> tuple[float, float]:
        lost = found = weights = 0.0
        with torch.no_grad():
            for start in range(0, len(chosen), self._settings.batch):
                part = chosen[start : start + self._settings.batch]
                likely, places = self._likely(part)
                best = likely.topk(min(FIRST, likely.shape[1]), dim=1).indices.tolist()
                for row, (each, at) in enumerate(zip(part, places, strict=True)):
                    for tool, weight in each.right.items():
                        if tool in at:
                            weights += weight
                            lost -= weight * likely[row, at[tool]].item()
                            found += weight * (at[tool] in best[row])
        return lost / max(weights, 1e-9), found / max(weights, 1e-9)


def _policy(
    settings: RankingSettings,
    servers: Sequence[ServerRecord],
    own: Columns,
    encoder: Encoder,
    cache: EmbeddingCache,
    language: LanguageModel | None,
) -> Policy:
    if settings.kind is Kind.HEAD:
        return HeadPolicy(servers, own, encoder, cache)
    if settings.kind is Kind.LORA:
        return EncoderLoraPolicy(servers, own, encoder, cache, rank=settings.rank, read=settings.candidates)
    if settings.kind is Kind.SCORER:
        if language is None:
            raise ConfigurationError("a scorer is trained on a language model, and none is named")
        learned = [tool for tool, is_learned in zip(own.tools, own.learned, strict=True) if is_learned]
        base = FusedRouter(servers, encoder, cache)
        return ScorerPolicy(language, base, learned, rank=settings.rank, candidates=settings.candidates)
    raise ConfigurationError(f"a {settings.kind} does not rank; choose head, lora or scorer")


def _newest(rows: Sequence[RankingRow], catalogs: Mapping[str, Sequence[ServerRecord]]) -> Sequence[ServerRecord]:
    if not rows:
        raise ConfigurationError("there are no rankings to learn from")
    newest = max(rows, key=lambda row: row.origin.began_at).origin.catalog
    if newest not in catalogs:
        raise ConfigurationError(f"the catalogue {newest[:12]}… that the newest rankings name is not in the store")
    return catalogs[newest]
