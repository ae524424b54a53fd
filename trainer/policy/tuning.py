"""A policy with its rows, its optimiser and its order: one update at a time, and able to go on after a kill.

Above: trainer/loop/, and the bench. Below: windows.py, reading.py and objectives/; LoRA by trainer/ranking/lora.py, on
any causal transformers model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from proxy.errors import ConfigurationError
from proxy.router.adapters import Kind, save_adapter
from proxy.router.language_model import LanguageModel
from proxy.store.rendering import REVISION
from trainer.data.tokens import Reader
from trainer.loop.state import restore, state_of
from trainer.policy.objectives.advantage_weighted import advantage_weighted
from trainer.policy.objectives.base import Objective
from trainer.policy.objectives.filtered_imitation import filtered_imitation
from trainer.policy.objectives.kto import Kto
from trainer.policy.objectives.sft import Sft
from trainer.policy.reading import log_likelihoods
from trainer.policy.settings import TuningSettings
from trainer.policy.windows import Window, windows
from trainer.ranking import lora
from trainer.ranking.tensors import torch
from trainer.rows import PolicyRow


class PolicyProblem:
    """See `Trainable` of trainer/loop/trainable.py. Everything that is drawn follows from the settings' seed."""

    def __init__(
        self,
        rows: Sequence[PolicyRow],
        language: LanguageModel,
        settings: TuningSettings,
        *,
        validation: Sequence[PolicyRow],
    ) -> None:
        """`rows`: to train on. `language`: gets the adapter's layers; nobody else may use it from then on, but to
        measure this policy. `validation`: rows of other episodes, which say when to stop.

        Raises:
            ConfigurationError: The rows teach nothing, or are of another tokenizer or other texts; none of the
                validation rows came out well; or a package is missing.
        """
        _check((*rows, *validation), Reader(language.tokenizer).hash)
        self._language = language
        self._settings = settings
        self._servers = frozenset(server for row in rows for server in row.origin.servers)
        torch.manual_seed(settings.seed)
        self._model: Any = lora.with_lora(language.model, settings.rank, "CAUSAL_LM")
        self._objective = _objective(self._model, language.tokenizer, settings)
        self._rows = [its for its in map(self._taught, rows) if its]
        self._size = sum(min(len(its), settings.windows) for its in self._rows)
        if not self._rows or (settings.algorithm == "kto" and self._size < 2):
            raise ConfigurationError(f"of {len(rows)} policy rows too few teach anything; log and judge more episodes")
        self._validation = held_out(validation, settings)
        if not self._validation:
            raise ConfigurationError(
                "no action of the validation rows came out well, so that nothing says when to stop"
            )
        self._facts = {"rows": len(rows), "windows": sum(map(len, self._rows)), "windows_an_epoch": self._size}
        self._parameters = lora.trained(self._model)
        self._optimiser = torch.optim.AdamW(self._parameters.values(), lr=settings.learning_rate, weight_decay=0.0)
        self._made = 0

    @property
    def steps(self) -> int:
        """How many updates there are in all. What an epoch has over a whole update waits for the next order."""
        return self._settings.epochs * self._of_epoch

    @property
    def done(self) -> bool:
        return self._made >= self.steps

    def step(self) -> Mapping[str, float]:
        """One update over `batch * accumulation` windows; returns its `loss` and the number of `tokens` read."""
        chosen = self._chosen(self._made)
        self._optimiser.zero_grad()
        loss = 0.0
        for start in range(0, len(chosen), self._settings.batch):
            part = self._objective.loss(chosen[start : start + self._settings.batch], chosen)
            part.backward()
            loss += part.item()
        self._optimiser.step()
        self._made += 1
        return {"loss": loss, "tokens": float(sum(len(each.tokens) for each in chosen))}

    def validate(self) -> Mapping[str, float]:
        """As `measured`, of the validation rows."""
        return self.measured(self._validation)

    def measured(self, held_out: Sequence[Window]) -> Mapping[str, float]:
        """`loss`: mean negative log-likelihood, in nats a token, of what counts in these windows; and how many `tokens`
        that is."""
        lost = count = 0.0
        with torch.no_grad():
            for start in range(0, len(held_out), self._settings.batch):
                for likely in log_likelihoods(self._model, held_out[start : start + self._settings.batch]):
                    lost -= likely.sum().item()
                    count += len(likely)
        return {"loss": lost / count, "tokens": count}

    def state_dict(self) -> dict[str, Any]:
        """Of what the next update depends on. Orders follow from the seed and the number of updates."""
        return state_of(self._made, self._parameters, self._optimiser)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._made = restore(state, self._parameters, self._optimiser)

    def save(self, folder: Path, facts: Mapping[str, Any]) -> str:
        own = {"settings": asdict(self._settings), "data": self._facts, "updates": self._made}
        return save_adapter(
            folder,
            base_hash=self._language.hash,
            servers=self._servers,
            lora=self._model,
            kind=Kind.POLICY,
            facts={**own, **facts},
        ).hash

    @property
    def _update(self) -> int:
        return self._settings.batch * self._settings.accumulation

    @property
    def _of_epoch(self) -> int:
        return max(1, self._size // self._update)

    def _chosen(self, update: int) -> list[Window]:
        epoch, place = divmod(update, self._of_epoch)
        order = _drawn(self._rows, self._settings.windows, [self._settings.seed, epoch])
        return order[place * self._update : (place + 1) * self._update]

    def _taught(self, row: PolicyRow) -> list[Window]:
        return [each for each in _windows(row, self._settings) if each.learned and self._objective.teaches(each)]


def held_out(rows: Sequence[PolicyRow], settings: TuningSettings) -> list[Window]:
    """Windows of rows that are not trained on, as many of each as an epoch has, always the same: only tokens of actions
    that came out well count in them, and all alike."""
    found = [[each for each in map(_good, _windows(row, settings)) if each.learned] for row in rows]
    return _drawn([its for its in found if its], settings.windows, [settings.seed])


def _windows(row: PolicyRow, settings: TuningSettings) -> list[Window]:
    return windows(row, most=settings.tokens, before=settings.before, reason=settings.reason)


def _good(window: Window) -> Window:
    counts = (float(weight > 0 and its > 0) for weight, its in zip(window.weights, window.advantages, strict=True))
    return replace(window, weights=tuple(counts))


def _drawn(rows: Sequence[Sequence[Window]], most: int, seed: Sequence[int]) -> list[Window]:
    """At most `most` of each row, in an order of their own."""
    import numpy as np

    chance = np.random.default_rng(list(seed))
    found: list[Window] = []
    for its in rows:
        found += [its[place] for place in sorted(chance.permutation(len(its)).tolist()[:most])]
    return [found[place] for place in chance.permutation(len(found)).tolist()]


def _objective(model: Any, tokenizer: Any, settings: TuningSettings) -> Objective:
    match settings.algorithm:
        case "advantage-weighted":
            return advantage_weighted(model, settings)
        case "filtered-imitation":
            return filtered_imitation(model, settings)
        case "sft":
            return Sft(model, tokenizer, settings)
        case "kto":
            return Kto(model, tokenizer, settings)


def _check(rows: Sequence[PolicyRow], tokenizer: str) -> None:
    if any(row.tokenizer != tokenizer for row in rows):
        raise ConfigurationError(
            "these policy rows were made with another model's tokenizer; make them with this one's"
        )
    if any(row.rendering != REVISION for row in rows):
        raise ConfigurationError("these policy rows have texts of another version; make them anew with this one")
