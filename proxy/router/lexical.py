"""BM25 over the words of every tool: the router that is always there, needs no model and answers in milliseconds.

Above: whoever serves, and fusion.py, to which words are one kind of evidence. Below: bm25s and PyStemmer.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Protocol, cast

import bm25s  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
import Stemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray

from proxy.catalog.records import ServerRecord, ToolRecord
from proxy.router.base import Query, Ranked
from proxy.router.sentences import split_sentences

# It sets its own logger to DEBUG, whatever the program's level is.
logging.getLogger("bm25s").setLevel(logging.WARNING)

K1, B = 2.0, 0.9
"""Above the usual 1.2 and 0.75: a tool that says many things counts less for each, so that a description stuffed with
words does not win the searches for other tools (docs/decisions/0011 has the figures)."""
NAME_REPEATS = 2
"""A tool's name stands twice in its document: its two or three words say more than any of the description's."""
TASK_WEIGHT = 0.3
"""A task is long and names what other steps need; the agent's own query is about this step."""
MAX_SENTENCES = 24
"""Of a query; with MAX_QUERY_CHARS it bounds the time of a search."""
MIN_SENTENCE_TOKENS = 3
MAX_QUERY_CHARS = 8_000
MAX_DESCRIPTION_CHARS = 1_000
MAX_NAME_WORDS, MAX_DESCRIPTION_WORDS, MAX_PARAMETERS_WORDS = 10, 80, 40
"""Different words of one tool that count: said again they count for nothing, and honest tools rarely say more."""
MAX_NAME_CHARS = 200
MAX_PARAMETERS = 30
MAX_PARAMETER_WORDS = 8
"""The later words of a parameter's description are formats and examples, which match everything."""

# Letters and digits; from Devanagari to Burmese and in Khmer also vowel signs, which \w leaves out.
_WORD = re.compile(r"(?:[^\W_]|[\u0300-\u036f\u0900-\u109f\u1780-\u17d3])+")
_PART = re.compile(r"\d+|\D+")
_CASE_CHANGE = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Scripts written without spaces (Thai, Lao, Burmese, Khmer, kana, Han), and Hangul, whose words carry endings.
_UNSPACED = re.compile(
    r"([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    r"\U00020000-\U0003ffff]+)"
)
_NAME = re.compile(r"\w(?:[\w.:/-]*\w)?")
_STOP_WORDS = frozenset(cast("tuple[str, ...]", STOPWORDS_EN_PLUS))

Scores = NDArray[np.float32]
"""One number a tool, in the order of `LexicalRouter.tools`."""


class _Stemmer(Protocol):
    def stemWords(self, words: Sequence[str], /) -> list[str]: ...


class _Bm25(Protocol):
    def index(
        self, corpus: tuple[list[list[int]], dict[str, int]], *, create_empty_token: bool, show_progress: bool
    ) -> None: ...

    def get_scores_from_ids(self, query_tokens_ids: list[int]) -> Scores: ...


class LexicalRouter:
    """Ranks tools by BM25, for the query as a whole and for its best sentence. Any number of threads may use it."""

    policy = "lexical"

    def __init__(self, servers: Sequence[ServerRecord]) -> None:
        # In the order of their names, so that a stable sort by score settles ties.
        pairs = sorted(
            ((server, tool) for server in servers for tool in server.tools), key=lambda pair: pair[1].written
        )
        self.tools = [tool.written for _, tool in pairs]
        """Written names, sorted."""
        self._servers = [server.written for server, _ in pairs]
        self._full_names: dict[str, int] = {}
        self._tool_names: dict[str, list[int]] = {}
        self._compound_names: set[str] = set()
        self._vocabulary: dict[str, int] = {}
        reader = _Reader(self._vocabulary)
        documents: list[list[int]] = []
        for index, (server, tool) in enumerate(pairs):
            self._full_names[tool.written.casefold()] = index
            self._full_names.setdefault(f"{server.name}.{tool.name}".casefold(), index)
            for name in {tool.name.casefold(), tool.written.rpartition(".")[2].casefold()}:
                self._tool_names.setdefault(name, []).append(index)
                if len(list(_tokens(tool.name[:MAX_NAME_CHARS]))) > 1:
                    self._compound_names.add(name)
            documents.append(reader.document(server, tool))
        self._bm25 = cast("_Bm25", bm25s.BM25(k1=K1, b=B))
        if self._vocabulary:
            # With a vocabulary of our own the order of summation, and so the last bit of a score, is always the same.
            self._bm25.index((documents, self._vocabulary), create_empty_token=False, show_progress=False)

    def rank(self, query: Query, limit: int) -> list[Ranked]:
        if limit < 1 or not self._vocabulary:
            return []
        scores = self._of_words(query.text)
        if query.task:
            scores += TASK_WEIGHT * self._of_words(query.task)
        # Above every score of words.
        scores += (1.0 + float(scores.max())) * self.named(query.text)
        if query.servers is not None:
            scores[[server not in query.servers for server in self._servers]] = 0.0
        best = cast("list[int]", np.argsort(-scores, kind="stable")[:limit].tolist())
        return [Ranked(self.tools[index], float(scores[index])) for index in best if scores[index] > 0]

    def evidence(self, text: str) -> tuple[Scores, Scores | None]:
        """The BM25 of all words, and the best of any one sentence, each in units of its standard deviation, 0 where
        nothing matches; no second where there is one sentence.

        A long text needs tools of several servers, and its words taken together point at none of them.
        """
        if not self._vocabulary:
            return np.zeros(len(self.tools), dtype=np.float32), None
        stemmer = _stemmer()
        text = text[:MAX_QUERY_CHARS]
        whole = _in_deviations(self._bm25_scores(_query_tokens(text), stemmer))
        sentences = [tokens for part in split_sentences(text) if (tokens := _query_tokens(part))]
        if len(sentences) < 2:
            return whole, None
        best = np.zeros_like(whole)
        for tokens in sentences[:MAX_SENTENCES]:
            if len(tokens) >= MIN_SENTENCE_TOKENS:
                np.maximum(best, self._bm25_scores(tokens, stemmer), out=best)
        return whole, _in_deviations(best)

    def named(self, text: str) -> Scores:
        """1 for tools whose own name the text says, 2 for a full name (a name alone several servers may have), 3 for
        both, 0 for all others."""
        text = text[:MAX_QUERY_CHARS].strip().casefold()
        named = np.zeros(len(self.tools), dtype=np.float32)
        named[self._with_tool_name(text)] += 1
        named[self._with_full_name(text)] += 2
        return named

    def _of_words(self, text: str) -> Scores:
        whole, sentences = self.evidence(text)
        return whole if sentences is None else whole + sentences

    def _bm25_scores(self, tokens: list[str], stemmer: _Stemmer) -> Scores:
        # A word said twice does not ask for twice as much.
        words = dict.fromkeys(stemmer.stemWords(tokens))
        known = [self._vocabulary[word] for word in words if word in self._vocabulary]
        if not known:
            return np.zeros(len(self.tools), dtype=np.float32)
        return self._bm25.get_scores_from_ids(known)

    def _with_full_name(self, text: str) -> list[int]:
        names = {text, *_NAME.findall(text)}
        return [self._full_names[name] for name in names if name in self._full_names]

    def _with_tool_name(self, text: str) -> list[int]:
        # `search` is a tool's name and a word of every second query; `search_papers` within a text is meant as a name.
        # Nor is a name with spaces: it would be a question that somebody hopes to be asked.
        whole = [text] if _NAME.fullmatch(text) else []
        names = {*whole, *self._compound_names.intersection(_NAME.findall(text))}
        return list({index for name in names for index in self._tool_names.get(name, ())})


class _TokensOfWords(dict[str, list[str]]):
    """Word as it is written -> its tokens."""

    def __missing__(self, word: str) -> list[str]:
        tokens = self[word] = _parts(word)
        return tokens


class _NumbersOfTokens(dict[str, int]):
    """Token -> the number of its stem in a vocabulary, which grows by what is new."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._stemmer = _stemmer()

    def __missing__(self, token: str) -> int:
        (stem,) = self._stemmer.stemWords([token])
        number = self[token] = self._vocabulary.setdefault(stem, len(self._vocabulary))
        return number


class _Reader:
    """Makes documents of tools. A word that was read before is only looked up: a catalogue says few different ones, and
    a restart waits for its index."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        """`vocabulary`: stem -> its number; grows with every document."""
        self._tokens = _TokensOfWords()
        self._numbers = _NumbersOfTokens(vocabulary)
        self._servers: dict[str, list[int]] = {}
        """What a server says of itself -> its words."""

    def document(self, server: ServerRecord, tool: ToolRecord) -> list[int]:
        """Numbers of the words that the tool is found by."""
        said = f"{server.name[:MAX_NAME_CHARS]}\n{server.purpose}"
        if said not in self._servers:
            self._servers[said] = self._numbered(self._read(said))
        return [
            *self._servers[said],
            *self._different(tool.name[:MAX_NAME_CHARS], MAX_NAME_WORDS) * NAME_REPEATS,
            *self._different(tool.description[:MAX_DESCRIPTION_CHARS], MAX_DESCRIPTION_WORDS),
            *self._different("\n".join(_parameters(tool)), MAX_PARAMETERS_WORDS),
        ]

    def _different(self, text: str, limit: int) -> list[int]:
        """Of the first `limit` different tokens."""
        return self._numbered(islice(dict.fromkeys(self._read(text)), limit))

    def _read(self, text: str) -> Iterator[str]:
        return chain.from_iterable(map(self._tokens.__getitem__, _words(text)))

    def _numbered(self, tokens: Iterable[str]) -> list[int]:
        return list(map(self._numbers.__getitem__, tokens))


def _parameters(tool: ToolRecord) -> Iterator[str]:
    properties = tool.input_schema.get("properties")
    if isinstance(properties, Mapping):
        for name, schema in islice(cast("Mapping[str, Any]", properties).items(), MAX_PARAMETERS):
            yield name[:MAX_NAME_CHARS]
            description = cast("Mapping[str, Any]", schema).get("description") if isinstance(schema, Mapping) else None
            if isinstance(description, str):
                yield " ".join(description[:MAX_DESCRIPTION_CHARS].split()[:MAX_PARAMETER_WORDS])


def _query_tokens(text: str) -> list[str]:
    tokens = list(_tokens(text))
    return [token for token in tokens if token not in _STOP_WORDS] or tokens


def _tokens(text: str) -> Iterator[str]:
    """`getGitHubIssue2` gives get, git, hub, issue, 2 and the whole (others write github); 天气预报 gives pairs."""
    for word in _words(text):
        yield from _parts(word)


def _words(text: str) -> list[str]:
    return _WORD.findall(text if text.isascii() else unicodedata.normalize("NFKC", text))


def _parts(word: str) -> list[str]:
    """The tokens of one word."""
    if word.isascii() and word.isalpha() and (word.islower() or word.istitle() or word.isupper()):
        # Nearly every word: nothing to split.
        return [word.lower()]
    parts = [
        piece.lower()
        for part in _PART.findall(word)
        for run in _UNSPACED.split(part)
        if run
        for piece in (_pairs(run) if _UNSPACED.match(run) else _CASE_CHANGE.split(run))
    ]
    return [*parts, word.lower()] if len(parts) > 1 and not _UNSPACED.search(word) else parts


def _pairs(run: str) -> list[str]:
    return [run[start : start + 2] for start in range(max(1, len(run) - 1))]


def _in_deviations(scores: Scores) -> Scores:
    """Like a standard score, but no match stays 0."""
    deviation = float(scores.std())
    return scores / np.float32(deviation) if deviation > 0 else scores


def _stemmer() -> _Stemmer:
    # Takes a microsecond; one stemmer is not safe in two threads.
    return cast("_Stemmer", Stemmer.Stemmer("english"))  # pyright: ignore[reportUnknownMemberType]
