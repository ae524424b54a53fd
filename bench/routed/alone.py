"""The encoder alone, to see what fusion adds: each tool as near as its text is to the whole query.

Above: routing.py. Below: proxy.router.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proxy.catalog.records import ServerRecord
from proxy.router.base import Query, Ranked
from proxy.router.documents import tool_document
from proxy.router.embeddings import EmbeddingCache, embed
from proxy.router.encoder import Encoder

TOKENS = 256
"""Of the query, which is read as one text."""


class EncoderRouter:
    policy = "encoder"

    def __init__(self, servers: Sequence[ServerRecord], encoder: Encoder, cache: EmbeddingCache) -> None:
        documents = {tool.written: tool_document(server, tool) for server in servers for tool in server.tools}
        self._names = list(documents)
        self._vectors = embed(encoder, cache, list(documents.values()))
        self._encoder = encoder

    def rank(self, query: Query, limit: int) -> list[Ranked]:
        near = self._vectors @ self._encoder.encode([query.text], TOKENS)[0]
        return [Ranked(self._names[row], float(near[row])) for row in np.argsort(-near, kind="stable")[:limit]]
