"""LoRA on a causal model that scores names from a closed list, as proxy/router/language.py asks it.

Above: training.py. Below: the router's own texts and tokens, lora.py. A tool's score is what serving makes of it,
`log p(name | question) - log p(name | empty question)`, in nats; for tools of servers that are not learned, the
untrained model's. The list of an example is what was right and wrong, and the best that the router found besides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from proxy.router.adapters import Adapter, Kind, save_adapter
from proxy.router.base import Query, Router
from proxy.router.language import empty_question, name_tokens, prompt_tokens
from proxy.router.language_model import LanguageModel, Tokens
from trainer.ranking import lora
from trainer.ranking.examples import Example
from trainer.ranking.policy import Places
from trainer.ranking.tensors import Tensor, torch


class ScorerPolicy:
    """See `Policy`. Each question is read once for all names of its list."""

    def __init__(
        self, model: LanguageModel, base: Router, learned: Collection[str], *, rank: int, candidates: int
    ) -> None:
        """`model`: gets the adapter's layers, so that nobody else may use it from now on. `base`: finds lists for
        examples that have none. `learned`: written names of tools. `candidates`: the most of one list, besides what was
        right and wrong.

        Raises:
            ConfigurationError: peft is not installed.
        """
        self._language = model
        self._base = base
        self._learned = frozenset(learned)
        self._candidates = candidates
        self._model: Any = lora.with_lora(model.model, rank, "CAUSAL_LM")
        self._names: dict[str, Tokens] = {}

    def parameters(self) -> Mapping[str, Tensor]:
        return lora.trained(self._model)

    def scores(self, examples: Sequence[Example]) -> tuple[Tensor, Places]:
        lists = [self._list(each) for each in examples]
        rows = [self._of_list(each.query, tools) for each, tools in zip(examples, lists, strict=True)]
        scores = torch.full((len(rows), max(map(len, rows))), -torch.inf)
        for number, row in enumerate(rows):
            scores[number, : len(row)] = row
        return scores, [{tool: place for place, tool in enumerate(tools)} for tools in lists]

    def distance(self) -> Tensor:
        return lora.distance(self.parameters()).cpu()

    def save(self, folder: Path, servers: frozenset[str], facts: Mapping[str, Any]) -> Adapter:
        return save_adapter(
            folder, base_hash=self._language.hash, servers=servers, lora=self._model, kind=Kind.SCORER, facts=facts
        )

    def _list(self, example: Example) -> list[str]:
        found = example.candidates or [each.tool for each in self._base.rank(example.query, self._candidates)]
        return list(dict.fromkeys((*example.right, *example.wrong, *found[: self._candidates])))

    def _of_list(self, query: Query, tools: Sequence[str]) -> Tensor:
        own = [place for place, tool in enumerate(tools) if tool in self._learned]
        others = [place for place, tool in enumerate(tools) if tool not in self._learned]
        scores = torch.zeros(len(tools))
        if others:
            with torch.no_grad(), self._model.disable_adapter():
                scores[others] = self._calibrated(query, [tools[place] for place in others])
        if own:
            scores[own] = self._calibrated(query, [tools[place] for place in own])
        return scores

    def _calibrated(self, query: Query, tools: Sequence[str]) -> Tensor:
        names = [self._name(tool) for tool in tools]
        asked, empty = (prompt_tokens(self._language, each) for each in (query, empty_question(query)))
        return self._likely(asked, names) - self._likely(empty, names)

    def _likely(self, prefix: Tokens, names: Sequence[Tokens]) -> Tensor:
        """Natural logarithms of the probabilities of `n` names after one prefix, `[n]`, with gradients."""
        device = self._model.device
        read = self._language.model(input_ids=torch.tensor([prefix], device=device), use_cache=True, logits_to_keep=1)
        first = read.logits[0, -1].float().log_softmax(-1)
        likely = first[torch.tensor([name[0] for name in names], device=device)]
        # The last token is only predicted, never read.
        longest = max(map(len, names)) - 1
        if longest > 0:
            cache = read.cache
            # As in a beam search of which every beam goes on from the same one.
            cache.reorder_cache(torch.zeros(len(names), dtype=torch.long, device=device))
            # Padded on the right: nothing reads what comes later.
            padded = [[*name, *[0] * (longest + 1 - len(name))] for name in names]
            ids = torch.tensor(padded, device=device)
            logits = self._language.model(input_ids=ids[:, :-1], cache=cache, use_cache=True).logits.float()
            said = logits.log_softmax(-1).gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
            real = torch.arange(longest, device=device) < torch.tensor(
                [[len(name) - 1] for name in names], device=device
            )
            likely = likely + said.masked_fill(~real, 0.0).sum(-1)
        return likely.cpu()

    def _name(self, tool: str) -> Tokens:
        if tool not in self._names:
            self._names[tool] = name_tokens(self._language, tool)
        return self._names[tool]
