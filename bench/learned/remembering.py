"""An encoder that reads no text twice, for a bench that trains again and again on parts of one log.

Above: bench/learn.py. Below: proxy/router/encoder.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proxy.router.encoder import MAX_TOKENS, TransformersEncoder, Vectors


class RememberingEncoder(TransformersEncoder):
    """The same model; what it read stays in memory, some 1.5 KB a text."""

    def __init__(self, inner: TransformersEncoder) -> None:
        super().__init__(inner.model, inner.tokenizer, inner.hash, inner.pooling)
        self._known: dict[tuple[str, int], Vectors] = {}

    def encode(self, texts: Sequence[str], max_tokens: int = MAX_TOKENS) -> Vectors:
        new = [text for text in dict.fromkeys(texts) if (text, max_tokens) not in self._known]
        for text, vector in zip(new, super().encode(new, max_tokens), strict=True):
            self._known[text, max_tokens] = vector
        if not texts:
            return np.zeros((0, self.width), dtype=np.float32)
        return np.stack([self._known[text, max_tokens] for text in texts])
