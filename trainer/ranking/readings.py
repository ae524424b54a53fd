"""What stays the same of a query while an adapter is trained: its words' scores, and its passages as the untrained
encoder reads them.

Above: the policies of this package. Below: the router's own lexical.py, sentences.py and encoder, so that training sees
what serving sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proxy.catalog.records import ServerRecord
from proxy.router.encoder import Encoder, Vectors
from proxy.router.fusion import PASSAGE_TOKENS, WORDS
from proxy.router.lexical import LexicalRouter, Scores
from proxy.router.sentences import passages
from trainer.ranking.columns import Columns


@dataclass(frozen=True, slots=True)
class Reading:
    """One text."""

    parts: Vectors
    """Of its passages, `[n, d]`."""
    lengths: Scores
    """Characters of each, `[n]`: by these they are weighed in the mean that stands for the whole."""
    words: Scores
    """Scores of the columns by words, `[m]`, as they are added to those by meaning."""


class Readings:
    """Texts, each read once and kept."""

    def __init__(self, servers: Sequence[ServerRecord], columns: Columns, encoder: Encoder) -> None:
        self._encoder = encoder
        self._lexical = LexicalRouter(servers)
        places = {name: place for place, name in enumerate(self._lexical.tools)}
        self._rows = np.array([places[name] for name in columns.tools], dtype=np.intp)
        self._read: dict[str, Reading] = {}

    def __getitem__(self, text: str) -> Reading:
        if text not in self._read:
            pieces = passages(text)
            whole, sentences = self._lexical.evidence(text)
            words = (whole if sentences is None else whole + sentences) * np.float32(WORDS)
            self._read[text] = Reading(
                parts=self._encoder.encode(pieces, PASSAGE_TOKENS),
                lengths=np.array([len(piece) for piece in pieces], dtype=np.float32),
                words=words[self._rows].astype(np.float32),
            )
        return self._read[text]
