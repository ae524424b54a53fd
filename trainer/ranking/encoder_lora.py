"""LoRA on the encoder: queries and documents are read anew, both with gradients.

Above: training.py. Below: dense.py, readings.py, lora.py. Of learned tools an update reads those that its examples
speak of and the `read` that are nearest to its queries untrained; others of learned servers are left out of that
update's softmax. Tools of all other servers stand in it with the untrained encoder's vectors, and all in that one's
deviations, which is how they are served.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proxy.catalog.records import ServerRecord
from proxy.errors import ConfigurationError
from proxy.router.adapters import Adapter, save_adapter
from proxy.router.embeddings import EmbeddingCache, embed
from proxy.router.encoder import MAX_TOKENS, Encoder, TransformersEncoder
from proxy.router.fusion import PASSAGE_TOKENS
from proxy.router.sentences import passages
from trainer.ranking import lora
from trainer.ranking.columns import Columns
from trainer.ranking.dense import batched, moments, nearness
from trainer.ranking.examples import Example
from trainer.ranking.policy import Places
from trainer.ranking.readings import Readings
from trainer.ranking.tensors import Tensor, torch


class EncoderLoraPolicy:
    """See `Policy`. On a CPU an update of 16 examples takes some seconds."""

    def __init__(
        self,
        servers: Sequence[ServerRecord],
        columns: Columns,
        encoder: Encoder,
        cache: EmbeddingCache,
        *,
        rank: int,
        read: int,
    ) -> None:
        """Raises ConfigurationError where the encoder is not one of transformers, or peft is not installed."""
        if not isinstance(encoder, TransformersEncoder):
            raise ConfigurationError("LoRA needs an encoder of transformers; train a head on this one")
        self._base_hash = encoder.hash
        self._read = read
        self._texts = columns.documents
        self._places = columns.places
        self._readings = Readings(servers, columns, encoder)
        self._documents = torch.from_numpy(embed(encoder, cache, columns.documents))
        self._learned = torch.from_numpy(columns.learned)
        self._shares = torch.from_numpy(columns.shares)
        self._model: Any = lora.with_lora(copy.deepcopy(encoder.model), rank)
        self._encoder = TransformersEncoder(self._model, encoder.tokenizer, encoder.hash, encoder.pooling)

    def parameters(self) -> Mapping[str, Tensor]:
        return lora.trained(self._model)

    def scores(self, examples: Sequence[Example]) -> tuple[Tensor, Places]:
        parts, lengths, whose, words = batched([self._readings[each.query.text] for each in examples])
        near = nearness(parts, lengths, whose, self._documents)
        mean, deviation = moments(near, self._shares)
        untrained = (near - mean) / deviation
        chosen = self._chosen(examples, untrained + words)
        own = self._vectors([self._texts[column] for column in chosen], MAX_TOKENS)
        pieces = [piece for each in examples for piece in passages(each.query.text)]
        # In the untrained encoder's deviations: those of the adapted one would need the whole catalogue read anew.
        trained = (nearness(self._vectors(pieces, PASSAGE_TOKENS), lengths, whose, own) - mean) / deviation
        scores = untrained.masked_fill(self._learned, -torch.inf)
        scores = scores.index_copy(1, torch.tensor(chosen, dtype=torch.long), trained) + words
        return scores, [self._places] * len(examples)

    def distance(self) -> Tensor:
        return lora.distance(self.parameters())

    def save(self, folder: Path, servers: frozenset[str], facts: Mapping[str, Any]) -> Adapter:
        return save_adapter(folder, base_hash=self._base_hash, servers=servers, lora=self._model, facts=facts)

    def _chosen(self, examples: Sequence[Example], untrained: Tensor) -> list[int]:
        """Columns of learned tools that are read, in order."""
        own = self._learned.nonzero().flatten()
        nearest = untrained[:, own].amax(0).argsort(descending=True, stable=True)[: self._read]
        spoken_of = {
            self._places[tool] for each in examples for tool in (*each.right, *each.wrong) if tool in self._places
        }
        learned: set[int] = set(own.tolist())
        return sorted({*own[nearest].tolist(), *(spoken_of & learned)})

    def _vectors(self, texts: Sequence[str], max_tokens: int) -> Tensor:
        """Of `n` texts, `[n, d]`, with gradients, on the CPU as all else."""
        tokens: list[list[int]] = self._encoder.tokenizer(list(texts), truncation=True, max_length=max_tokens)[
            "input_ids"
        ]
        return self._encoder.vectors(tokens).float().cpu()
