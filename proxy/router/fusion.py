"""Words and meaning, of the whole query and of its sentences, of tools and of whole servers, in one score.

Above: the router's process, the bench and the trainer. Below: lexical.py, encoder.py, embeddings.py and adapters.py.
A long task needs several servers, and one vector of the whole text is an average that points at none of them;
descriptions of servers are often empty, so their tools speak for them; and rare words, names and units are what BM25
sees and an encoder does not.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proxy.catalog.records import ServerRecord
from proxy.router.adapters import Adapter
from proxy.router.base import Query, Ranked
from proxy.router.documents import server_document, tool_document
from proxy.router.embeddings import EmbeddingCache, embed
from proxy.router.encoder import Encoder, Vectors
from proxy.router.lexical import TASK_WEIGHT, LexicalRouter, Scores
from proxy.router.sentences import passages

WHOLE, PARTS = 0.5, 0.5
"""Of the nearness to the whole text, and to the nearest of its passages."""
WORDS = 0.5
"""Of each of the two kinds of BM25, whose spread is 1, as that of the nearness is."""
SERVER = 1.0
"""Of its server, in a tool's score. This, the three weights above and the limits of sentences.py were picked on the 75
tasks of MCP-Bench, `WORDS` with a look at 200 questions of MetaTool, where less would be a little better; all that is
near to them is as good (docs/decisions/0029 has the figures). Nothing else was tuned."""
BEST_TOOLS = 3
PASSAGE_TOKENS = 64
"""Of one passage; its length in characters is what usually ends it before."""
REMEMBERED = 64
"""Texts of queries whose vectors are kept: a task's own words come with each of its searches."""

_Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class _Read:
    """A text of a query as an encoder sees it."""

    parts: Vectors
    """`[n, d]`, n at least 1: of its passages."""
    lengths: Vectors
    """`[n]`, in characters."""

    @property
    def whole(self) -> Vectors:
        """`[d]`: the mean of its passages, by their length, so that no text is read twice."""
        whole = self.lengths @ self.parts
        return whole / max(float(np.linalg.norm(whole)), 1e-9)


class _Side:
    """One encoder's view of a catalogue."""

    def __init__(self, encoder: Encoder, tools: Vectors, servers: Vectors) -> None:
        self._encoder = encoder
        self._tools = tools
        self._servers = servers

    def read(self, text: str) -> _Read:
        pieces = passages(text)
        lengths = np.array([len(piece) for piece in pieces], dtype=np.float32)
        return _Read(self._encoder.encode(pieces, PASSAGE_TOKENS), lengths)

    def near(self, read: _Read) -> tuple[Scores, Scores]:
        """How near each of its tools and each server is."""
        return _near(self._tools, read), _near(self._servers, read)


class FusedRouter:
    """Ranks tools by words and meaning. Any number of threads may use it; they take turns with the encoder."""

    policy = "fused"

    def __init__(
        self,
        servers: Sequence[ServerRecord],
        encoder: Encoder,
        cache: EmbeddingCache,
        adapter: Adapter | None = None,
    ) -> None:
        """Embeds what the cache lacks, which takes some 10 ms of a CPU for each tool.

        Raises:
            ConfigurationError: The adapter does not fit the encoder.
        """
        self.adapter = None if adapter is None else adapter.hash
        self._lexical = LexicalRouter(servers)
        self._servers = sorted((server for server in servers if server.tools), key=lambda server: server.written)
        pairs = {tool.written: (row, tool) for row, server in enumerate(self._servers) for tool in server.tools}
        # In the order of the lexical router's scores.
        self._owner: _Rows = np.array([pairs[name][0] for name in self._lexical.tools], dtype=np.intp)
        tools = [tool_document(self._servers[row], tool) for row, tool in map(pairs.__getitem__, self._lexical.tools)]
        documents = [server_document(server) for server in self._servers]
        self._base = _Side(encoder, embed(encoder, cache, tools), embed(encoder, cache, documents))
        self._adapted = None
        self._head: Adapter | None = None
        """What turns queries; None where an encoder of the adapter's own reads them."""
        if adapter is not None:
            own = adapter.encoder(encoder)
            learned = [server.name in adapter.servers for server in self._servers]
            self._learned: NDArray[np.bool_] = np.array(learned, dtype=np.bool_)
            self._learned_tools: _Rows = np.flatnonzero(self._learned[self._owner])
            self._head = adapter if own is encoder else None
            if self._head is None:
                # Of a catalogue in which few are learned, few need be read anew.
                rows: list[int] = self._learned_tools.tolist()
                tools = [tools[row] for row in rows]
            self._adapted = _Side(own, embed(own, cache, tools), embed(own, cache, documents))
        self._read: OrderedDict[tuple[bool, str], _Read] = OrderedDict()
        self._mutex = threading.Lock()

    def rank(self, query: Query, limit: int) -> list[Ranked]:
        """Everything is near to something: tools that match nothing are not left out, they come last."""
        if limit < 1 or not self._lexical.tools:
            return []
        scores, _ = self._scores(query)
        rows = np.arange(len(scores))
        if query.servers is not None:
            within = np.array([server.written in query.servers for server in self._servers], dtype=np.bool_)
            rows = np.flatnonzero(within[self._owner])
        return [Ranked(self._lexical.tools[row], float(scores[row])) for row in _best(scores, rows, limit)]

    def rank_servers(self, query: Query, limit: int) -> list[str]:
        """Written names of servers, best first; `query.servers` is not looked at."""
        if limit < 1 or not self._lexical.tools:
            return []
        _, servers = self._scores(query)
        return [self._servers[row].written for row in _best(servers, np.arange(len(servers)), limit)]

    def _scores(self, query: Query) -> tuple[Scores, Scores]:
        """Of all tools and of all servers."""
        tools, documents = self._evidence(query.text)
        if query.task:
            more_tools, more_documents = self._evidence(query.task)
            tools += more_tools * np.float32(TASK_WEIGHT)
            documents += more_documents * np.float32(TASK_WEIGHT)
        best, mean = self._of_tools(tools)
        servers = _standard(_standard(best) + _standard(mean) + _standard(documents))
        scores = _standard(tools)
        scores += servers[self._owner] * np.float32(SERVER)
        # Whatever the text names stands above all the rest.
        scores += self._lexical.named(query.text) * np.float32(1 + float(np.ptp(scores)))
        return scores, servers

    def _evidence(self, text: str) -> tuple[Scores, Scores]:
        """For tools and, by their own texts, for servers."""
        whole, sentences = self._lexical.evidence(text)
        words = (whole if sentences is None else whole + sentences) * np.float32(WORDS)
        read = self._reading(self._base, text)
        near_tools, near_servers = self._base.near(read)
        tools, servers = _standard(near_tools), _standard(near_servers)
        if self._adapted is not None:
            # In deviations over the same catalogue, so that one may stand in for the other: as each kind is trained,
            # turned queries in their own, and tools that were read anew in those of the encoder.
            adapted_tools, adapted_servers = self._adapted.near(self._as_adapted(self._adapted, text, read))
            if self._head is not None:
                tools[self._learned_tools] = _standard(adapted_tools)[self._learned_tools]
            else:
                tools[self._learned_tools] = _standard(adapted_tools, near_tools)
            servers = np.where(self._learned, _standard(adapted_servers), servers)
        tools += words
        return tools, servers

    def _as_adapted(self, side: _Side, text: str, read: _Read) -> _Read:
        """As the adapter sees the text. A head turns what was read, so that nothing is read twice."""
        if self._head is None:
            return self._reading(side, text)
        return _Read(self._head.turned(read.parts), read.lengths)

    def _reading(self, side: _Side, text: str) -> _Read:
        key = (side is self._base, text)
        with self._mutex:
            if key not in self._read:
                self._read[key] = side.read(text)
                if len(self._read) > REMEMBERED:
                    self._read.popitem(last=False)
            self._read.move_to_end(key)
            return self._read[key]

    def _of_tools(self, tools: Scores) -> tuple[Scores, Scores]:
        """For each server the score of its best tool, and the mean of its best three."""
        order = np.lexsort((-tools, self._owner))
        owners, sorted_tools = self._owner[order], tools[order]
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        counts = np.diff(starts, append=len(owners))
        first = np.arange(len(owners)) - np.repeat(starts, counts) < BEST_TOOLS
        sums = np.bincount(owners[first], sorted_tools[first], len(counts))
        return sorted_tools[starts], (sums / np.minimum(counts, BEST_TOOLS)).astype(np.float32)


def _near(documents: Vectors, read: _Read) -> Scores:
    whole, parts = documents @ read.whole, (documents @ read.parts.T).max(axis=1)
    return whole * np.float32(WHOLE) + parts * np.float32(PARTS)


def _standard(scores: Scores, over: Scores | None = None) -> Scores:
    """In standard deviations from the mean, by default those of the scores themselves; all 0 where `over` is equal."""
    over = scores if over is None else over
    deviation = float(over.std())
    centred = scores - np.float32(over.mean())
    return centred / np.float32(deviation) if deviation > 1e-6 else np.zeros_like(scores)


def _best(scores: Scores, rows: _Rows, limit: int) -> list[int]:
    """The `limit` of `rows` with the highest scores; ties in the order of their names."""
    chosen = scores[rows]
    if limit < len(rows):
        # Sorting only what can be among the first; everything that ties with the last of them stays in.
        edge = np.partition(chosen, len(rows) - limit)[len(rows) - limit]
        rows = rows[chosen >= edge]
    order = np.argsort(-scores[rows], kind="stable")[:limit]
    return rows[order].tolist()
