"""The encoder alone, to see what fusion adds: each tool as near as its text is to the whole query.

Above: routers.py, and the bench. Below: proxy.router.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

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
        """Embeds what the cache lacks."""
        documents = {tool.written: tool_document(server, tool) for server in servers for tool in server.tools}
        self._names = list(documents)
        self._vectors = embed(encoder, cache, list(documents.values()))
        self._encoder = encoder

    def rank(self, query: Query, limit: int) -> list[Ranked]:
        """Everything is near to something; `query.servers` is kept to."""
        near = self._vectors @ self._encoder.encode([query.text], TOKENS)[0]
        order: list[int] = np.argsort(-near, kind="stable").tolist()
        ranked = (Ranked(self._names[row], float(near[row])) for row in order)
        within = query.servers
        return list(
            islice((each for each in ranked if within is None or each.tool.partition(".")[0] in within), max(limit, 0))
        )
