"""How long texts are for a model, where nothing better is known: UTF-8 bytes / 4.

Above: context.py, and models whose endpoints do not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from proxy.policy.base import Action, Asked, Conversation

MESSAGE_TOKENS = 4
"""What a chat template adds to each message, about."""


def tokens_of(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def tokens_of_actions(actions: Iterable[Action]) -> int:
    return sum(tokens_of(each.name + each.description + compact(each.parameters)) + MESSAGE_TOKENS for each in actions)


def tokens_of_asked(asked: Asked) -> int:
    return tokens_of(asked.name + compact(asked.arguments)) + MESSAGE_TOKENS


def tokens_of_conversation(conversation: Conversation) -> int:
    tokens = tokens_of(conversation.system) + tokens_of(conversation.task) + 2 * MESSAGE_TOKENS
    for exchange in conversation.exchanges:
        tokens += tokens_of(exchange.said) + sum(map(tokens_of_asked, exchange.asked))
        tokens += sum(tokens_of(text) + MESSAGE_TOKENS for text in exchange.observed)
    return tokens


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
