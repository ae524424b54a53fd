"""A head on the query side: query vectors are turned, documents stay as they are.

Above: training.py. Below: dense.py and readings.py. `q' = normalise(q + q W)`; `W` begins at 0, which is the untrained
router.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proxy.catalog.records import ServerRecord
from proxy.router.adapters import Adapter, save_adapter
from proxy.router.embeddings import EmbeddingCache, embed
from proxy.router.encoder import Encoder
from trainer.ranking.columns import Columns
from trainer.ranking.dense import batched, nearness, standard
from trainer.ranking.examples import Example
from trainer.ranking.policy import Places
from trainer.ranking.readings import Readings
from trainer.ranking.tensors import Tensor, torch


class HeadPolicy:
    """See `Policy`. Texts are read once; an update costs some 10 ms of a CPU."""

    def __init__(
        self, servers: Sequence[ServerRecord], columns: Columns, encoder: Encoder, cache: EmbeddingCache
    ) -> None:
        self._base_hash = encoder.hash
        self._places = columns.places
        self._readings = Readings(servers, columns, encoder)
        self._documents = torch.from_numpy(embed(encoder, cache, columns.documents))
        self._learned = torch.from_numpy(columns.learned)
        self._shares = torch.from_numpy(columns.shares)
        self._turn = torch.nn.Parameter(torch.zeros(encoder.width, encoder.width))

    def parameters(self) -> Mapping[str, Tensor]:
        return {"head": self._turn}

    def scores(self, examples: Sequence[Example]) -> tuple[Tensor, Places]:
        parts, lengths, whose, words = batched([self._readings[each.query.text] for each in examples])
        untrained = standard(nearness(parts, lengths, whose, self._documents), self._shares)
        turned = torch.nn.functional.normalize(parts + parts @ self._turn, dim=1)
        trained = standard(nearness(turned, lengths, whose, self._documents), self._shares)
        return torch.where(self._learned, trained, untrained) + words, [self._places] * len(examples)

    def distance(self) -> Tensor:
        return (self._turn**2).sum()

    def save(self, folder: Path, servers: frozenset[str], facts: Mapping[str, Any]) -> Adapter:
        head = self._turn.detach().numpy()
        return save_adapter(folder, base_hash=self._base_hash, servers=servers, head=head, facts=facts)
