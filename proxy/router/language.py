"""A causal language model as router: of the best that another router finds, those whose names the model expects most.

Above: reranking.py, the bench, and the trainer, whose examples must read as `prompt` does: every change of what the
model reads is a new revision of `PROMPT` in documents.py. Below: language_model.py, and the store's rendering.

Names differ in how likely they are at all, so that each is compared with itself after an empty question: its score is
`log p(name | question) - log p(name | empty question)`, in nats. What the task did before stands in both, or names that
were said already would win for being repeated. On a CPU with a model of 135 M parameters this is slow and worse than
what it reorders; it is meant for a GPU and 0.6 B to 4 B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proxy.catalog.records import ServerRecord
from proxy.router.adapters import Adapter
from proxy.router.base import Query, Ranked, Router
from proxy.router.language_model import LanguageModel, Tokens, load_language_model
from proxy.store.rendering import decision, shortened, visible

CANDIDATES = 32
PREFIX_TOKENS = 1_024
NAME_TOKENS = 64
"""Of one tool's name; names are a few words."""
PART_CHARS = (4_000, 2_000, 1_000, 500, 250, 100)
"""Of a query and of a task: the first at which the whole is no longer than `PREFIX_TOKENS`. The middle goes, and its
place says so."""
SERVERS = 20
"""Names of servers that a question shows."""
RECENT = 8
"""Of what the task did before, the last of each kind."""
NOTHING = "unknown"
"""The empty question."""
_HEAD = "Searches of an agent, and for each the tools that fit it best, written as server.tool."


class LanguageRouter:
    """Reorders what `base` finds. Immutable, as every router; the model may be shared by any number of them."""

    def __init__(
        self,
        base: Router,
        servers: Sequence[ServerRecord],
        model: LanguageModel | str,
        *,
        adapter: Adapter | None = None,
        candidates: int = CANDIDATES,
    ) -> None:
        """`model`: a name is loaded. `adapter`: a scorer; its scores count only for tools of servers that it has seen,
        those of all others are the model's own. It stays attached to the model until `LanguageModel.detach`.

        Raises:
            ConfigurationError: A package is missing, there is no such model, or the adapter is not for it.
        """
        self._base = base
        self._model = load_language_model(model) if isinstance(model, str) else model
        self._candidates = candidates
        self._adapter = adapter
        if adapter is not None:
            self._model.attach(adapter)
        seen = frozenset[str]() if self._adapter is None else self._adapter.servers
        self._adapted = {tool.written for server in servers if server.name in seen for tool in server.tools}
        self._names: dict[str, Tokens] = {}
        self._priors: dict[str, float] = {}
        """What the names have after an empty question, where the task did nothing before: most have that in common."""

    @property
    def policy(self) -> str:
        return f"slm:{self._model.name}"

    @property
    def adapter(self) -> str | None:
        """Hash of the adapter that takes part."""
        return None if self._adapter is None else self._adapter.hash

    def rank(self, query: Query, limit: int) -> list[Ranked]:
        """As `Router` says. Those that the model did not read stand below all others, in the order of `base`."""
        if limit < 1:
            return []
        found = self._base.rank(query, max(limit, self._candidates))
        best, rest = [each.tool for each in found[: self._candidates]], found[self._candidates :]
        if len(best) < 2:
            return found[:limit]
        scores = self._scores(query, best)
        order = sorted(best, key=lambda tool: -scores[tool])
        lowest = scores[order[-1]]
        ranked = [Ranked(tool, scores[tool]) for tool in order]
        return [*ranked, *(Ranked(each.tool, lowest - place) for place, each in enumerate(rest, 1))][:limit]

    def _scores(self, query: Query, tools: Sequence[str]) -> dict[str, float]:
        adapter = self.adapter
        adapted = [tool for tool in tools if tool in self._adapted]
        others = [tool for tool in tools if tool not in self._adapted]
        asked = prompt_tokens(self._model, query)
        return self._calibrated(query, asked, adapted, adapter) | self._calibrated(query, asked, others, None)

    def _calibrated(self, query: Query, asked: Tokens, tools: Sequence[str], adapter: str | None) -> dict[str, float]:
        if not tools:
            return {}
        prior = self._prior(query, tools, adapter)
        return {tool: likely - prior[tool] for tool, likely in self._likelihoods(asked, tools, adapter).items()}

    def _prior(self, query: Query, tools: Sequence[str], adapter: str | None) -> dict[str, float]:
        empty = empty_question(query)
        if empty != Query(NOTHING):
            return self._likelihoods(prompt_tokens(self._model, empty), tools, adapter)
        # A tool is always scored under the same adapter, so that its name is enough of a key.
        if lacking := [tool for tool in tools if tool not in self._priors]:
            self._priors |= self._likelihoods(prompt_tokens(self._model, empty), lacking, adapter)
        return self._priors

    def _likelihoods(self, prefix: Tokens, tools: Sequence[str], adapter: str | None) -> dict[str, float]:
        names = [self._name(tool) for tool in tools]
        return dict(zip(tools, self._model.log_likelihoods(prefix, names, adapter), strict=True))

    def _name(self, tool: str) -> Tokens:
        if tool not in self._names:
            self._names[tool] = name_tokens(self._model, tool)
        return self._names[tool]


def prompt_tokens(model: LanguageModel, query: Query) -> Tokens:
    """`prompt` as tokens, at most `PREFIX_TOKENS`."""
    most = min(PREFIX_TOKENS, model.context - NAME_TOKENS)
    tokens: Tokens = []
    for chars in PART_CHARS:
        tokens = model.tokens(prompt(query, chars), start=True)
        if len(tokens) <= most:
            break
    # Scripts that take several tokens a character; the query stands last.
    return tokens[-most:]


def name_tokens(model: LanguageModel, tool: str) -> Tokens:
    """As it reads after the prompt, and the end of its line, without which `a.get` would beat `a.get_all`."""
    # Tokenizers treat the start of a text as one of a word, so that the prompt's last line must come before.
    place = model.tokens("1.", start=False)
    return model.tokens(f"1. {tool}\n", start=False)[len(place) :][:NAME_TOKENS]


def prompt(query: Query, chars: int = PART_CHARS[0]) -> str:
    """What the model reads before the name of a tool: the line ends `1.`, and ` server.tool` and a line break follow.

    `chars`: the most characters of the query, and of the task.
    """
    return f"{_HEAD}\n\n{question(query, chars)}\n1."


def question(query: Query, chars: int) -> str:
    """What the task did before, and what is asked, line by line."""
    history = query.history
    before = [
        f"{label}: {'; '.join(_line(text, chars // RECENT) for text in texts[-RECENT:])}"
        for label, texts in (("searched", history.searched), ("found", history.revealed), ("called", history.called))
        if texts
    ]
    servers = None if query.servers is None else sorted(query.servers)
    if servers is not None and len(servers) > SERVERS:
        servers = [*servers[:SERVERS], f"and {len(servers) - SERVERS} others"]
    task = None if query.task is None else shortened(query.task, chars)
    return "\n".join([*before, decision(shortened(query.text, chars), task=task, servers=servers)])


def empty_question(query: Query) -> Query:
    """The same without what is asked: what makes a tool likely for other reasons stays."""
    return replace(query, text=NOTHING, task=None, episode=None)


def _line(text: str, chars: int) -> str:
    return " ".join(visible(shortened(text, chars)).split())
