"""A tokenizer as rows are made with it: texts and chats in, token ids out, once.

Above: policy_rows.py, keys.py; policy/ and online/, which read on where rows end. Below: a transformers tokenizer,
which is given; nothing is imported for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from proxy.errors import ConfigurationError

Span = tuple[int, int]
"""Of characters."""


class Reader:
    """Reads as `proxy.router.local_model.LocalChat` does.

    Args:
        tokenizer: A fast transformers tokenizer with a chat template.

    Raises:
        ConfigurationError: It is not fast, has no chat template, or one that ends answers with no token of its own.
    """

    def __init__(self, tokenizer: Any) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise ConfigurationError("the tokenizer cannot say where its tokens stand: a model with a fast one can")
        if not tokenizer.chat_template:
            raise ConfigurationError("the tokenizer has no chat template: name a model that follows instructions")
        self._tokenizer = tokenizer
        self.hash = _hash(tokenizer)
        """Of all that tokens and chats depend on."""
        self.end = self._end()
        """The token that ends an answer."""

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> str:
        """What a model reads before it answers."""
        given = [dict(each) for each in messages]
        return str(self._tokenizer.apply_chat_template(given, tokenize=False, add_generation_prompt=True))

    def tokens(self, text: str) -> tuple[int, ...]:
        """Tokens of the chat template that stand in `text` are themselves; rendering.py breaks up those of others."""
        return tuple(self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def spans(self, texts: Sequence[str]) -> list[tuple[tuple[int, ...], tuple[Span, ...]]]:
        """The tokens of each text, and where each of them stands in it."""
        if not texts:
            return []
        made = self._tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [
            (tuple(tokens), tuple((start, end) for start, end in spans))
            for tokens, spans in zip(made["input_ids"], made["offset_mapping"], strict=True)
        ]

    def _end(self) -> int:
        ask, answer = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
        before, after = self.prompt([ask]), self.prompt([ask, answer, ask])
        following = after.removeprefix(f"{before}b")
        special = {*self._tokenizer.all_special_ids, *self._tokenizer.added_tokens_decoder}
        first = self.tokens(following)[:1]
        if following == after or not first or first[0] not in special:
            raise ConfigurationError("the tokenizer's chat template does not end answers with a token of its own")
        return first[0]


def _hash(tokenizer: Any) -> str:
    whole: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    # What was last asked of it; no part of what it is.
    whole |= {"truncation": None, "padding": None}
    return sha256(json.dumps([whole, tokenizer.chat_template], sort_keys=True).encode()).hexdigest()
