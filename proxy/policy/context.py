"""What a model is reminded of, kept within its budget: old observations become one line each, the oldest first.

Above: loop.py. Below: folding.py writes the lines. Never folded are the task and the newest observations. Where that is
not enough, long arguments and words of old turns are cut; where that is not enough either, the task is over.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace

from proxy.policy.base import Action, Asked, Conversation, Exchange
from proxy.policy.counting import tokens_of_actions, tokens_of_conversation
from proxy.policy.folding import folded
from proxy.policy.limits import WorkLimits
from proxy.store.rendering import shortened

logger = logging.getLogger("toolatlas.policy")

CUT_CHARS = 400
"""Of an argument or a word of an old turn, where folding was not enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """One observation that became a line."""

    place: int
    """Of its action among all that the model asked for, from 1."""
    action: str
    characters: int
    """Before."""
    summary: str


class Context:
    """One task's."""

    def __init__(self, system: str, task: str, actions: tuple[Action, ...], limits: WorkLimits) -> None:
        self._system = system
        self._task = task
        self._limits = limits
        self._definitions = tokens_of_actions(actions)
        self._exchanges: list[Exchange] = []
        self.folded: list[Folded] = []
        self._done = 0
        """Observations from the first on that were looked at for folding."""

    def add(self, exchange: Exchange) -> None:
        self._exchanges.append(exchange)

    def fitted(self) -> Conversation | None:
        """What to tell the model now; None where it does not fit, whatever is folded."""
        conversation = self._conversation()
        places = [(turn, at) for turn, each in enumerate(self._exchanges) for at in range(len(each.asked))]
        foldable = places[: max(0, len(places) - self._limits.keep)]
        while self._too_long(conversation) and self._done < len(foldable):
            self._fold(*foldable[self._done], place=self._done + 1)
            self._done += 1
            conversation = self._conversation()
        if self._too_long(conversation):
            old = foldable[-1][0] + 1 if foldable else 0
            self._exchanges[:old] = map(_cut, self._exchanges[:old])
            conversation = self._conversation()
        return None if self._too_long(conversation) else conversation

    def _fold(self, turn: int, at: int, *, place: int) -> None:
        exchange = self._exchanges[turn]
        asked, text = exchange.asked[at], exchange.observed[at]
        summary = f"[folded] {folded(asked, text)}"
        if len(summary) >= len(text):
            return
        observed = (*exchange.observed[:at], summary, *exchange.observed[at + 1 :])
        self._exchanges[turn] = replace(exchange, observed=observed)
        self.folded.append(Folded(place=place, action=asked.name, characters=len(text), summary=summary))
        # Names and sizes only: what was said belongs in no log of lines.
        line = {"event": "folded", "place": place, "action": asked.name, "from": len(text), "to": len(summary)}
        logger.info("%s", json.dumps(line))

    def _too_long(self, conversation: Conversation) -> bool:
        return self._definitions + tokens_of_conversation(conversation) > self._limits.context_tokens

    def _conversation(self) -> Conversation:
        return Conversation(system=self._system, task=self._task, exchanges=tuple(self._exchanges))


def _cut(exchange: Exchange) -> Exchange:
    return replace(exchange, said=_brief(exchange.said), asked=tuple(map(_shorter, exchange.asked)))


def _shorter(asked: Asked) -> Asked:
    arguments = {name: _brief(value) if isinstance(value, str) else value for name, value in asked.arguments.items()}
    return replace(asked, arguments=arguments)


def _brief(text: str) -> str:
    # What was cut once says so, which makes it a little longer; it is not cut again.
    return shortened(text, CUT_CHARS) if len(text) > CUT_CHARS + 100 else text
